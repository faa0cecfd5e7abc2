"""Under a run that changed files, the page shows which, and takes them back."""

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import expect

from holdfast.chaos import CallTool, Say
from holdfast.undo.snapshots import Snapshots
from page.browsing import Visit, faults_of
from runner.test_undo import Changes, write
from serving import Setting
from tools.calls import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOSTILE = "<img src=x onerror=alert(1)>.txt"


def has(file: Path, text: str) -> bool:
    return file.exists() and file.read_text() == text


async def test_the_changes_of_a_run_are_read_undone_and_redone_in_the_page(
    visit: Visit, tmp_path: Path
) -> None:
    """P13: with a file name that would like to be markup."""
    workspace = tmp_path / "ws"
    await asyncio.to_thread(workspace.mkdir)
    await asyncio.to_thread(write("kept.txt", "before\n"), workspace)
    tool = Changes([write("kept.txt", "after\n", HOSTILE, "new\n")])
    setting = Setting(tools=(tool,), snapshots=Snapshots(tmp_path / "snapshots"))
    async with visit.chatting([CallTool("change")], [Say("All changed.")], setting=setting) as server:
        await server.served.ended(await server.served.start(session_id="s", workspace=str(workspace)))
        chat = await visit(f"{server.url}/s/s")
        page = chat.page
        await page.get_by_role("button", name="2 files changed").click()
        panel = page.get_by_role("complementary", name="Files")
        await panel.get_by_role("button", name="kept.txt", exact=True).click()
        await expect(panel.get_by_text("+after")).to_be_visible()
        await expect(panel.get_by_text(HOSTILE)).to_be_visible()
        assert await faults_of(page) == []
        await panel.get_by_role("button", name="Undo changes to kept.txt").click()
        await expect(panel.get_by_text("undone", exact=True)).to_be_visible()
        await until(lambda: has(workspace / "kept.txt", "before\n"))
        await asyncio.to_thread(write(HOSTILE, "mine"), workspace)
        await panel.get_by_role("button", name="Undo turn").click()
        refusal = panel.get_by_role("alert")
        await expect(refusal).to_contain_text("Nothing was changed")
        await expect(refusal).not_to_contain_text("keep_both")
        await panel.get_by_role("button", name="Keep both").click()
        await expect(page.get_by_text("All changed.")).to_have_count(0)
        # The log says first what is to happen, and then the files follow.
        await until(lambda: has(workspace / f"{HOSTILE}.before-undo", "mine"))
        await panel.get_by_role("button", name="Redo").click()
        await expect(page.get_by_text("All changed.")).to_be_visible()
        await until(lambda: has(workspace / HOSTILE, "mine"))
        await page.keyboard.press("Escape")
        await expect(panel).to_have_count(0)
        await page.get_by_role("button", name="2 files changed").click()
        await expect(panel).to_have_count(1)
        await chat.button("New chat").click()
        await expect(panel).to_have_count(0)
