"""`/agents` in the terminal chat: named agents, and the session's sub-agents."""

import asyncio
from pathlib import Path

from cli.lab import READY, answered, chat, configure, left
from cli.tmux import terminal
from holdfast.chaos import CallTool, ChaosServer, Say

REVIEWER = "---\ndescription: Reviews a change.\n---\nYou review."


async def test_agents_lists_those_that_a_message_can_name_and_the_sub_agents(tmp_path: Path) -> None:
    own = tmp_path / ".config" / "holdfast" / "agents"
    await asyncio.to_thread(own.mkdir, parents=True)
    await asyncio.to_thread((own / "reviewer.md").write_text, REVIEWER)
    delegated = CallTool("delegate", {"agent": "reviewer", "task": "look at it"})
    async with ChaosServer([delegated], [Say("it is fine")], [Say("all done")]) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        async with terminal(*chat(tmp_path), folder=tmp_path) as window:
            await window.until(READY)
            await window.say("/agents")
            await window.until("@reviewer · Reviews a change. No sub-agents in this session.")
            await window.say("go")
            await answered(window, "all done")
            await window.say("/agents")
            await window.until("@reviewer · Reviews a change. agent-1 · completed")
            await left(window)
