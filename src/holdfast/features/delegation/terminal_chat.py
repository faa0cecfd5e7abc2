"""`/agents` in the terminal chat: the agents that a message can name, and the session's sub-agents."""

import asyncio
from typing import TYPE_CHECKING

from holdfast.api.children import ChildShown
from holdfast.config.files import own_config_home
from holdfast.features.delegation.agents import AgentLibrary
from holdfast.safe_text import safe_line

if TYPE_CHECKING:
    from holdfast.cli.chat.conversation import ChatScreen


async def agents(chat: "ChatScreen", _: str) -> None:
    """Show the named agents and the session's sub-agents."""
    library = AgentLibrary(own_config_home())
    named = await asyncio.to_thread(library.usable, chat.workspace)
    lines = [safe_line(f"@{name} · {agent.description}", 200) for name, agent in sorted(named.items())]
    found = (await chat.client.children(chat.session_id)).data if chat.session_id else ()
    lines += [agent_line(one) for one in found] or ["No sub-agents in this session."]
    await chat.prompt.print(chat.style.dim("\n".join(lines)))


def agent_line(one: ChildShown) -> str:
    """A sub-agent in one line: name, state, cost, session and what it said last."""
    state = one.outcome or one.status.replace("_", " ")
    cost = f"{one.usage.cost_usd:.4f} USD" if one.usage is not None and one.usage.cost_usd else ""
    words = [one.name, state, cost, one.session_id, one.last_line or one.task]
    return "  " * one.depth + safe_line(" · ".join(filter(None, words)), 200)
