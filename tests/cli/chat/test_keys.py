"""The keys of the chat: what was typed before comes back, Tab completes, a steer reaches the run."""

import asyncio
from pathlib import Path

from cli.lab import READY, answered, chat, configure, left
from cli.tmux import Terminal, terminal
from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Wait
from holdfast.cli.chat.history import ChatHistory
from holdfast.host.demo_model import last_said


def typed(screen: str) -> str:
    """What stands in the input line, which is the last one that begins so."""
    return next((line for line in reversed(screen.splitlines()) if line.startswith(">")), "").rstrip()


async def until_typed(window: Terminal, text: str) -> None:
    await window.until(lambda screen: typed(screen) == f"> {text}".rstrip())


async def test_a_line_that_is_typed_before_the_history_is_loaded_stays_in_it(tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "typed").write_text, '"yesterday"\n', encoding="utf-8")
    history = ChatHistory(tmp_path / "typed", str)
    await asyncio.to_thread(history.read)
    await asyncio.to_thread(history.append_string, "at once")
    assert [text async for text in history.load()] == ["at once", "yesterday"]


async def test_the_arrow_keys_bring_back_what_was_typed_also_after_a_restart(tmp_path: Path) -> None:
    answers = [[Say(f"answer {nth}")] for nth in range(4)]
    async with ChaosServer(*answers) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        async with terminal(*chat(tmp_path), folder=tmp_path) as window:
            await window.until(READY)
            await window.say("the first thing")
            await answered(window, "answer 0")
            await window.say("the second thing")
            await answered(window, "answer 1")
            await window.keys("Up")
            await until_typed(window, "the second thing")
            await window.keys("Up")
            await until_typed(window, "the first thing")
            await window.keys("Down")
            await until_typed(window, "the second thing")
            await window.keys("Up", "Enter")
            await answered(window, "answer 2")
            await left(window)
        async with terminal(*chat(tmp_path), folder=tmp_path) as window:
            await window.until(READY)
            await until_typed(window, "")
            await window.keys("Up")
            await until_typed(window, "the first thing")
            await window.keys("Up")
            await until_typed(window, "the second thing")
            await window.keys("Enter")
            await answered(window, "answer 3")
        said = [last_said(request) for request in chaos.seen.requests]
        assert said == ["the first thing", "the second thing", "the first thing", "the second thing"]
        kept = tmp_path / "data" / "chat-history"
        assert (await asyncio.to_thread(kept.stat)).st_mode & 0o777 == 0o600


async def test_tab_completes_a_command_and_a_steer_reaches_the_run_at_its_next_step(tmp_path: Path) -> None:
    gate = Gate()
    working = [Say("looking around"), Wait(gate), CallTool("list_files", {"path": "."})]
    async with ChaosServer(working, [Say("as you wish")]) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        async with terminal(*chat(tmp_path), folder=tmp_path) as window:
            await window.until(READY)
            await window.say("tidy up")
            await window.until("looking around")
            await window.keys("/s", "Tab")
            screen = await window.until("/sessions")
            assert all(name in screen for name in ("/stop", "/steer"))
            await window.keys("C-u")
            await until_typed(window, "")
            await window.keys("/st", "e", "Tab")
            await until_typed(window, "/steer")
            await window.say(" leave the attic alone")
            await window.until("leave the attic alone")
            await until_typed(window, "")
            gate.open()
            screen = await window.until("as you wish")
            assert screen.count("leave the attic alone") == 1
            told = str(chaos.seen.requests[-1].body)
            assert "leave the attic alone" in told
            assert "/steer" not in told
            await answered(window, "as you wish")
            await window.say("/stee")
            await window.until("Add a message: /steer use the other file")


async def test_a_completed_command_is_sent_by_the_first_enter(tmp_path: Path) -> None:
    async with ChaosServer() as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        async with terminal(*chat(tmp_path), folder=tmp_path) as window:
            await window.until(READY)
            # A slash at once after Escape is Alt-/ to a terminal, and still begins a command.
            await window.keys("Escape", "/he", "Tab")
            await until_typed(window, "/help")
            await window.keys("Enter")
            await window.until("start a new session")
            assert chaos.seen.requests_seen == 0, "a command is no message to the model"


async def test_the_output_of_a_tool_is_expanded_by_one_key_and_whole_in_a_pager(tmp_path: Path) -> None:
    async with ChaosServer([CallTool("shell", {"command": "seq 1 300"})], [Say("counted")]) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        async with terminal("env", "PAGER=cat", *chat(tmp_path), folder=tmp_path) as window:
            await window.until(READY)
            await window.say("count")
            await answered(window, "counted")
            screen = await window.until("297 more lines; Ctrl-O shows them")
            assert "│ 300" in screen
            assert "│ 200" not in screen
            await window.keys("C-o")
            screen = await window.until("100 more lines; Ctrl-T shows everything")
            assert "│ 200" in screen
            await window.keys("C-t")
            await window.until(lambda screen: "── shell seq 1 300" in screen and "\n250\n" in screen)
            await window.say("/help")  # the prompt reads again after the pager
            await window.until("start a new session")


async def test_a_window_that_becomes_narrower_shows_no_line_twice(tmp_path: Path) -> None:
    """Also if so many rows are added that the first of them leave the screen at its top."""
    line = "a long line of an answer that is still being written, so it is drawn again"
    rest = " ".join(f"word{nth}" for nth in range(40))
    async with ChaosServer([Say(f"{line} {rest}"), Wait(Gate())]) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        async with terminal(*chat(tmp_path), folder=tmp_path) as window:
            await window.until(READY)
            await window.say("hello")
            await window.until("word39")
            # The answer to a key comes after all that the chat had to draw before.
            await window.keys("x")
            await until_typed(window, "x")
            await window.tmux("resize-window", "-x", "30", "-y", "40")
            await window.until(lambda screen: "an answer that\nis still" in screen)
            await window.keys("y")
            await until_typed(window, "xy")
            shown = await window.tmux("capture-pane", "-p")
            assert shown.count("a long line") == 1
            assert shown.count("m is answering") == 1
