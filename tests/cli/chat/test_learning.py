"""`/memory` in the chat: what agents propose is decided where it was said."""

import asyncio
from pathlib import Path

from cli.lab import READY, chat, configure
from cli.tmux import terminal
from holdfast.chaos import CallTool, ChaosServer, Say
from holdfast.cli.chat.history import HISTORY, ChatHistory

FACTS = [
    CallTool("remember", {"about": "user", "text": text, "reason": "for later"})
    for text in ("likes tea", "lives on Mars")
]
DEPLOY = {"name": "deploy", "description": "d", "body": "Run it.", "reason": "again"}


async def test_a_proposal_is_seen_whole_and_accepted_or_rejected_by_its_number(tmp_path: Path) -> None:
    """P8: what is accepted is what was shown."""
    async with ChaosServer(
        [*FACTS, CallTool("propose_skill", DEPLOY)], [Say("noted")], [Say("hello again")]
    ) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        async with terminal(*chat(tmp_path), folder=tmp_path) as window:
            await window.until(READY)
            await window.say("/memory accept 1")
            await window.until("No proposals.")
            await window.say("I like tea and live on Mars")
            screen = await window.until("/memory accept N or")
            assert "2. proposed about you: lives on Mars" in screen, "without a command, where it was said"
            await window.say("/memory")
            screen = await window.until("No memories yet.")
            assert "1. proposed about you: likes tea" in screen
            assert "+ Run it." in screen, "a skill is shown line by line"
            await window.say("/memory reject 2")
            await window.until("Rejected: lives on Mars")
            await window.say("/memory accept 7")
            await window.say("/memory accept all")
            await window.until("Accepted: likes tea")
            await window.say("/memory")
            screen = await window.until("# About you")
            await window.say("/clear")  # its name elsewhere
            await window.say("hello")
            await window.until("hello again")
            await window.say("##likes coffee")
            await window.until("1. proposed about you: likes coffee")
            await window.say("!echo $((40 + 2))")
            await window.until("│ 42")
        system = str((chaos.seen.request(3).body or {})["messages"][0])  # pyright: ignore[reportIndexIssue, reportUnknownArgumentType]
        assert "likes tea" in system
        assert "- deploy: d" in system
        assert "Mars" not in system


def test_what_is_forgotten_is_not_among_the_earlier_inputs(tmp_path: Path) -> None:
    """P11: the arrow keys would bring it back; other lines stay as they are."""
    file = tmp_path / HISTORY
    history = ChatHistory(file, lambda words: words)
    assert history.forget("Tom") == 0
    for line in ("hello", "my cat is\nTom", "Tom again", "bye"):
        history.store_string(line)
    assert history.forget("Tom") == 2
    assert b"Tom" not in file.read_bytes()
    again = ChatHistory(file, lambda words: words)
    again.read()
    assert list(again.load_history_strings()) == ["bye", "hello"]
