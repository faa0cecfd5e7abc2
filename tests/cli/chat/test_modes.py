"""The permission mode in the terminal: always shown, changed with Shift+Tab, and stored with the session."""

import asyncio
from pathlib import Path

from cli.lab import READY, answered, chat, configure, left
from cli.tmux import terminal
from holdfast.chaos import CallTool, ChaosServer, Say

WRITE = CallTool("write_file", {"path": "new.txt", "content": "x\n"})


async def test_shift_tab_changes_the_mode_before_and_during_a_session(tmp_path: Path) -> None:
    """P13: the mode that is shown is the one that applies, also when the session is opened again."""
    scripts = ([WRITE], [Say("written")], [WRITE], [Say("only read")])
    async with ChaosServer(*scripts) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        async with terminal(*chat(tmp_path), folder=tmp_path) as window:
            await window.until(READY)
            await window.until("mode ask")
            await window.keys("BTab")
            await window.until("mode edits")
            await window.say("write it")
            await answered(window, "written")  # without a question
            await window.keys("BTab")
            await window.until("mode workspace")
            await window.keys("BTab")
            await window.until("mode plan")
            await window.say("write it again")
            await answered(window, "only read")
            await window.say("/mode yolo")
            await window.until("There is no such mode")
            await left(window)
        async with terminal(*chat(tmp_path, "--session", "last"), folder=tmp_path) as window:
            await window.until("mode plan")
            await window.say("/mode ask")
            await window.until("mode ask")
            await left(window)
        results = [str(request.body) for request in chaos.seen.requests]
    assert "plan mode" in results[-1]


async def test_a_mode_and_options_of_the_model_are_options_and_commands(tmp_path: Path) -> None:
    async with ChaosServer([Say("one")], [Say("two")]) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        given = ("--mode", "plan", "--effort", "low", "--temperature", "0.3")
        async with terminal(*chat(tmp_path, *given), folder=tmp_path) as window:
            await window.until("mode plan · temperature 0.3 · effort low")
            await window.say("hi")
            await answered(window, "one")
            for wrong, words in (
                ("/effort very high", "Add one word"),
                ("/temperature 2.5", "Add a number from 0 to 2"),
                ("/max-tokens few", "Add a whole number of tokens"),
            ):
                await window.say(wrong)
                await window.until(words)
            await window.say("/effort high")
            await window.until("effort high")
            await window.say("/temperature off")
            await window.until("Temperature of your next messages: the default")
            await window.say("/max-tokens 900")
            await window.until("max tokens 900")
            await window.say("hi")
            await answered(window, "two")
            await left(window)
        names = ("reasoning_effort", "temperature", "max_tokens")
        sent = [[(request.body or {}).get(name) for name in names] for request in chaos.seen.requests]
    assert sent == [["low", 0.3, None], ["high", None, 900]]
