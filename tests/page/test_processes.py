"""What the agent left running in the background, beside the chat: a person reads its output and ends it."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.async_api import expect

from holdfast.chaos import CallTool, Say
from holdfast.host.tools import SessionProcesses
from holdfast.tools.shell.background import Background
from page.browsing import Visit, faults_of
from serving import Setting
from tools.calls import QUICK, shell

pytestmark = pytest.mark.asyncio(loop_scope="session")

SERVER = "echo listening on 8080; sleep 1000"


async def test_a_process_in_the_background_is_shown_with_its_output_and_can_be_stopped(
    visit: Visit, tmp_path: Path
) -> None:
    """P5: stopped means that the process is dead."""
    background = Background(tmp_path / "jobs", now_ms=lambda: 1, kill_patience=QUICK)
    processes, setting = SessionProcesses(background), Setting(tools=(shell(background),), workspace=tmp_path)
    options = replace(setting.options, jobs=processes.all, read_job=processes.read, stop_job=processes.stop)
    script = [CallTool("shell", {"command": SERVER, "background": True})], [Say("It listens.")]
    async with visit.chatting(*script, setting=replace(setting, options=options)) as server:
        chat = await visit(server.url)
        await chat.say("Start the server")
        await chat.answered("It listens.")
        await chat.button("Files").click()
        await chat.page.get_by_role("tab", name="Processes").click()
        row = chat.page.get_by_role("list", name="Background processes").get_by_role("listitem")
        await expect(row).to_have_count(1)
        await expect(row).to_contain_text(SERVER)
        await expect(row).to_contain_text("Running")
        await row.get_by_role("button", name="Show output").click()
        await expect(row.get_by_role("region")).to_have_text("listening on 8080")
        assert await faults_of(chat.page) == []
        await row.get_by_role("button", name="Stop").click()
        await expect(row).to_contain_text("Ended by signal")
        await expect(row.get_by_role("button", name="Stop")).to_have_count(0)
        session_id = chat.page.url.rpartition("/")[2]
        assert [one.running for one in processes.all(session_id)] == [False]
    await background.close()
