"""`/context` in the terminal: see what the model sees, pin messages, revert a summary."""

import asyncio
from pathlib import Path

from cli.lab import READY, answered, chat, configure, left
from cli.tmux import terminal
from holdfast.chaos import ChaosOptions, ChaosServer, ReportedUsage, Say

USED = ChaosOptions(usage=ReportedUsage(input_tokens=50_000, output_tokens=10, cached_tokens=40_000))


async def test_the_context_is_always_shown_and_can_be_pinned_and_reverted(tmp_path: Path) -> None:
    """P9: the numbers are those of the last list, and what is refused says why."""
    scripts = [[Say("one")], [Say("## Task\ncount the old stories")], [Say("two")]]
    async with ChaosServer(*scripts, options=USED) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        async with terminal(*chat(tmp_path), folder=tmp_path) as window:
            await window.until(READY)
            await window.say("/context")
            await window.until("The model has seen nothing yet.")
            await window.say("a story")
            await answered(window, "one")
            await window.until("context 25%")
            await window.say("/context")
            await window.until("25%: 50,010 of 200,000 tokens")
            await window.until("10,000 new + 40,000 cached tokens in, 10 out")
            await window.say("/context pin 1")
            await window.until("Pinned “a story”")
            await window.say("/context pin last")
            await window.until("Pinned “one”")
            await window.say("/context pin 9")
            await window.until("/context pin N or last")
            await window.say("/compact")
            await window.until("was summarized for the model")
            await window.say("/context")
            await window.until("summarized or removed")
            await window.say("/context show 1")
            await window.until("count the old stories")
            await window.say("/context unpin 2")
            await window.until("Unpinned “one”")
            await window.say("/context revert 1")
            await window.until("Reverted. The context is now")
            await window.say("/context revert 1")
            await window.until("This was reverted before")
            await window.say("go on")
            await answered(window, "two")
            await window.say("/status")
            await window.until("by: revert")
            await left(window)
        async with terminal(*chat(tmp_path, "--session", "last"), folder=tmp_path) as window:
            await window.until("context 25%")
            await left(window)
