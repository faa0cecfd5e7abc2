"""`/undo`, `/redo` and `/diff` in the chat: files and messages go and come back together."""

import asyncio
from pathlib import Path

from cli.lab import READY, answered, chat, configure, left, session_on
from cli.tmux import terminal
from holdfast.chaos import CallTool, ChaosServer, Say

ALLOWED = '\n[approvals]\nmode = "workspace"\n'


def workspace(folder: Path, chaos: ChaosServer) -> None:
    configure(folder, chaos)
    with (folder / "holdfast.toml").open("a") as file:
        file.write(ALLOWED)
    (folder / "notes.txt").write_text("mine\n")


async def notes(folder: Path) -> str:
    return await asyncio.to_thread((folder / "notes.txt").read_text)


async def test_a_run_is_undone_and_brought_back_also_after_the_chat_was_left(tmp_path: Path) -> None:
    """P13: files and conversation together, and what is undone is that of the session on the screen."""
    write = CallTool("write_file", {"path": "notes.txt", "content": "the agent's\n"})
    script = [[write], [Say("written")], [Say("you are welcome")], [Say("another session")]]
    async with ChaosServer(*script) as chaos:
        await asyncio.to_thread(workspace, tmp_path, chaos)
        async with terminal(*chat(tmp_path), folder=tmp_path) as window:
            await window.until(READY)
            await window.say("/undo")
            await window.until("Nothing to undo.")
            await window.say("write it")
            await answered(window, "written")
            await window.say("thank you")
            await answered(window, "you are welcome")
            await window.say("/diff")
            screen = await window.until("+the agent's")
            assert "-mine" in screen
            await window.say("/undo")
            await window.until("The last run changed no files. To undo the latest run that did")
            assert await notes(tmp_path) == "the agent's\n"
            await window.say("/undo earlier")
            screen = await window.until("before the run, and removed 2 runs from the conversation")
            await window.until("Changed: notes.txt. Use /redo to reverse this.")
            assert screen.count("restored 1 file") == 1, "it is said once"
            assert await notes(tmp_path) == "mine\n"
            session_id = session_on(await left(window))
        async with terminal(*chat(tmp_path), folder=tmp_path) as window:
            await window.until(READY)
            await window.say("hello")
            await answered(window, "another session")
            await window.say("/redo")
            await window.until("Nothing to redo.")
            assert await notes(tmp_path) == "mine\n"
            await window.say(f"/sessions {session_id}")
            await window.say("/redo")
            await window.until("Redone: 1 file and 2 runs restored.")
            await window.say("/redo")
            await window.until(lambda screen: screen.count("Nothing to redo.") == 2)
            assert await notes(tmp_path) == "the agent's\n"
            await asyncio.to_thread((tmp_path / "notes.txt").write_text, "mine again\n")
            await window.say("/undo earlier")
            await window.until("notes.txt (changed since)")
            await window.say("/undo earlier keep-both")
            await window.until("Changed: notes.txt, notes.txt.before-undo.")
        kept = await asyncio.to_thread((tmp_path / "notes.txt.before-undo").read_text)
        assert (await notes(tmp_path), kept) == ("mine\n", "mine again\n")
