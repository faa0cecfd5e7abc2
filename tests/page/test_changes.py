"""Under a run that changed files, the page shows which, and takes them back."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import expect

from features.undo.world import Change, Changes, write
from holdfast.chaos import CallTool, Say
from holdfast.features.undo.snapshots import Snapshots
from page.browsing import Chat, Visit, faults_of
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
    setting = Setting(tools=(tool,), features={"undo": Snapshots(tmp_path / "snapshots")})
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
        await panel.get_by_role("button", name="Redo changes to kept.txt").click()
        await until(lambda: has(workspace / "kept.txt", "after\n"))
        await asyncio.to_thread(write(HOSTILE, "mine"), workspace)
        await panel.get_by_role("button", name="Undo run").click()
        question = page.get_by_role("dialog", name="Undo run 1?")
        await expect(question.get_by_text("kept.txt restored")).to_be_visible()
        await expect(question.get_by_text(f"{HOSTILE} deleted changed since")).to_be_visible()
        await expect(question.get_by_role("button", name="Undo", exact=True)).to_have_count(0)
        await question.get_by_role("button", name="Keep both").click()
        await expect(page.get_by_text("All changed.")).to_have_count(0)
        # The log says first what is to happen, and then the files follow.
        await until(lambda: has(workspace / f"{HOSTILE}.before-undo", "mine"))
        await panel.get_by_role("button", name="Redo").click()
        await page.get_by_role("dialog", name="Redo?").get_by_role("button", name="Redo").click()
        await expect(page.get_by_text("All changed.")).to_be_visible()
        await until(lambda: has(workspace / HOSTILE, "mine"))
        await page.keyboard.press("Escape")
        await expect(panel).to_have_count(0)
        await page.get_by_role("button", name="2 files changed").click()
        await expect(panel).to_have_count(1)
        await chat.button("New chat").click()
        await expect(panel).to_have_count(0)


@asynccontextmanager
async def three_runs(visit: Visit, tmp_path: Path) -> AsyncGenerator[tuple[Chat, Path]]:
    """A chat of three runs that each changed a file, and its workspace."""
    workspace = tmp_path / "ws"
    await asyncio.to_thread(workspace.mkdir)
    changes: list[Change] = [write(name, name) for name in ("a", "b", "c")]
    setting = Setting(tools=(Changes(changes),), features={"undo": Snapshots(tmp_path / "snapshots")})
    turns = [step for name in "ABC" for step in ([CallTool("change")], [Say(f"Answer {name}")])]
    async with visit.chatting(*turns, [Say("Answer D")], setting=setting) as server:
        for words in ("first", "second", "third"):
            await server.served.ended(
                await server.served.start(words, session_id="s", workspace=str(workspace))
            )
        chat = await visit(f"{server.url}/s/s")
        yield chat, workspace


async def test_an_undo_asks_first_and_its_redo_survives_a_reload(visit: Visit, tmp_path: Path) -> None:
    """P13: what was done can be taken back, also the undo."""
    async with three_runs(visit, tmp_path) as (chat, workspace):
        page = chat.page
        said = page.get_by_role("region", name="Conversation")
        undone = page.get_by_role("group", name="Undone")
        await page.get_by_role("button", name="1 file changed").nth(1).click()
        await page.get_by_role("button", name="Undo run").click()
        question = page.get_by_role("dialog", name="Undo runs 2 to 3?")
        await expect(question.get_by_text("Removes 2 runs from the chat")).to_be_visible()
        await expect(question.get_by_text("Run 3 third")).to_be_visible()
        await expect(question.get_by_text("c deleted")).to_be_visible()
        await question.get_by_role("button", name="Cancel").click()
        await expect(said.get_by_text("Answer C")).to_be_visible()
        await page.get_by_role("button", name="Undo run").click()
        await question.get_by_role("button", name="Undo", exact=True).click()
        toast = page.get_by_role("status").filter(has_text="Undid 2 runs and 2 files.")
        await expect(said.get_by_text("Answer B")).to_have_count(0)
        await toast.get_by_role("button", name="Undo").click()
        await expect(said.get_by_text("Answer C")).to_be_visible()
        await page.get_by_role("button", name="Undo run").click()
        await question.get_by_role("button", name="Undo", exact=True).click()
        await expect(said.get_by_text("Answer C")).to_have_count(0)
        await page.reload()
        await expect(undone).to_contain_text("Undone: 2 runs and 2 files.")
        await undone.get_by_role("button", name="Redo").click()
        await expect(said.get_by_text("Answer C")).to_be_visible()
        await expect(undone).to_have_count(0)
        await until(lambda: has(workspace / "c", "c"))


async def test_runs_that_cannot_return_are_opened_in_a_new_chat_even_after_a_redo(
    visit: Visit, tmp_path: Path
) -> None:
    """P13."""
    async with three_runs(visit, tmp_path) as (chat, workspace):
        page = chat.page
        said = page.get_by_role("region", name="Conversation")
        undone = page.get_by_role("group", name="Undone")
        question = page.get_by_role("dialog", name="Undo runs 2 to 3?")
        await page.get_by_role("button", name="1 file changed").nth(1).click()
        await page.get_by_role("button", name="Undo run").click()
        await question.get_by_role("button", name="Undo", exact=True).click()
        await expect(undone).to_be_visible()
        await expect(page.locator(".run-choice option:checked")).to_contain_text("2 runs, 2 files")
        await page.set_viewport_size({"width": 390, "height": 844})
        clear = "() => document.querySelector('.run-choice').getBoundingClientRect().right <= innerWidth"
        assert await page.evaluate(clear)
        await page.set_viewport_size({"width": 1280, "height": 800})
        await chat.say("fourth")
        await chat.answered("Answer D")
        await expect(page.get_by_text("Undid 2 runs and 2 files.")).to_have_count(0)
        await expect(undone).to_have_count(0)
        await page.reload()
        await chat.button("Files").click()
        await page.get_by_role("tab", name="Changes").click()
        choice = page.get_by_label("Run to show")
        await choice.select_option(index=1)
        panel = page.get_by_role("complementary", name="Files")
        await expect(panel.get_by_role("button", name="c", exact=True)).to_be_visible()
        await panel.get_by_role("button", name="Redo files").click()
        question = page.get_by_role("dialog", name="Redo files?")
        await expect(question.get_by_role("listitem")).to_have_text(["b", "c"])
        await question.get_by_role("button", name="Redo").click()
        await until(lambda: has(workspace / "c", "c"))
        await page.reload()
        await chat.button("Files").click()
        await page.get_by_role("tab", name="Changes").click()
        await choice.select_option(index=1)
        await expect(panel.get_by_text("2 removed runs can't return to it")).to_be_visible()
        await panel.get_by_role("button", name="Open them in a new chat").click()
        await expect(said.get_by_text("Answer C")).to_be_visible()
        await expect(panel.get_by_text("can't return to it")).to_have_count(0)
