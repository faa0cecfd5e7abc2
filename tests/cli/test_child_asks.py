"""Sub-agents in the terminal: their place in lists, and what they ask at the terminal of their parent."""

import asyncio
from pathlib import Path

from agent.world import Effect, asks_about
from features.delegation.delegating import choose
from holdfast import events as e
from holdfast.api.children import ChildShown
from holdfast.api.runs import UsageShown
from holdfast.chaos import ChaosServer
from holdfast.cli.sessions import nested
from holdfast.cli.terminal.child_asks import ChildAsks
from holdfast.client.client import Client
from holdfast.features.delegation.terminal_chat import agent_line
from holdfast.features.delegation.tools import child_tools
from serving import Setting, served, target_of


def child(**fields: object) -> ChildShown:
    known = {"session_id": "ses_1", "run_id": "r", "parent_session_id": "s", "parent_run_id": "r0"}
    rest = {"tool_call_id": "t", "name": "agent-1", "depth": 1, "status": "waiting_for_approval"}
    return ChildShown(**{**known, **rest, **fields})  # pyright: ignore[reportArgumentType]


def test_a_sub_agent_is_told_in_one_line() -> None:
    assert agent_line(child(task="Look around.")) == "  agent-1 · waiting for approval · ses_1 · Look around."
    used = UsageShown(1, 1, 2, 0.25)
    done = child(outcome="completed", depth=2, usage=used, last_line="Seen.\x1b[31m")
    assert agent_line(done).startswith("    agent-1 · completed · 0.2500 USD · ses_1 · Seen.")
    assert "\x1b" not in agent_line(done)


async def test_what_a_sub_agent_of_a_sub_agent_asks_is_heard_and_answered_at_the_parents_terminal(
    tmp_path: Path,
) -> None:
    """P8: the ask keeps its id, and its answer goes to the run that asked."""
    acted, heard = list[str](), list[tuple[str, e.Event]]()
    settled = asyncio.Event()
    setting = Setting(
        tools=(Effect("act", acted), *child_tools()), judge=asks_about("act"), workspace=tmp_path
    )
    async with (
        ChaosServer(choose=choose) as chaos,
        served(target_of(chaos), setting=setting) as server,
        Client(server.url) as client,
    ):

        async def hear(name: str, event: e.Event) -> None:
            heard.append((name, event))
            if isinstance(event, e.ApprovalAsked):
                await client.approve(event.run_id, event.approval_id, choice="once")
            else:
                settled.set()

        asks = ChildAsks(client, hear)
        run_id = await server.start("go", session_id="s")
        async for seen in client.follow(run_id):
            asks.take(seen.event)
        await settled.wait()
        await asks.close()
        page = await client.sessions(children="true")
    assert [(name, type(event)) for name, event in heard] == [
        ("agent-1", e.ApprovalAsked),
        ("agent-1", e.ApprovalAnswered),
    ]
    assert len(acted) == 1
    assert [depth for _, depth in nested(page.data)] == [0, 1, 2]
    alone = [row for row in page.data if row.parent_session_id]
    assert [depth for _, depth in nested(alone)] == [1, 2]
