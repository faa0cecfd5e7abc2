"""MCP servers that a client brings for one session: whose they are, and how long they last."""

import asyncio
from collections.abc import Sequence

import pytest

from holdfast.agent.deps import AgentDeps
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.memory import MemoryStore
from holdfast.tools.mcp.brought import BROUGHT_MAX, BroughtServers
from holdfast.tools.mcp.config import BadMcpServer, McpServerConfig
from holdfast.tools.mcp.servers import McpServers
from serving import AsksAbout
from tools.mcp.scene import left, raw, servers


class Watch(SystemClock):
    """A clock whose sleeps end when the test says so, and whose time the test sets."""

    def __init__(self) -> None:
        self.at_s = 0.0
        self.asleep = asyncio.Event()
        self.woken = asyncio.Event()

    def steady_s(self) -> float:
        return self.at_s

    async def sleep_s(self, seconds: float) -> None:
        del seconds
        self.asleep.set()
        await self.woken.wait()
        self.woken.clear()

    async def passes(self, seconds: float) -> None:
        """Let time pass, until whoever looked at it sleeps again."""
        await self.asleep.wait()
        self.at_s += seconds
        self.asleep.clear()
        self.woken.set()
        await self.asleep.wait()


def connect(owner: str, configs: Sequence[McpServerConfig]) -> McpServers:
    return servers(*configs, owner=owner)


async def test_they_are_the_sessions_alone_and_end_when_nobody_renews_them() -> None:
    clock = Watch()
    async with BroughtServers(connect, clock, lease_s=60) as brought:
        [status] = await brought.bring("s", "editor", [raw()])
        assert (status.state, status.tools) == ("connected", 1)
        assert [tool.spec.name for tool in brought.tools("s")] == ["mcp__raw__echo"]
        assert brought.tools("t") == []
        assert await left("s/editor")

        await clock.passes(40)
        await brought.bring("s", "editor", [raw()])  # renewed, and not started again
        await clock.passes(40)
        assert len(brought.tools("s")) == 1
        await clock.passes(40)
        assert brought.tools("s") == []
        assert not await left("s/editor")


async def test_two_clients_of_a_session_do_not_replace_each_others() -> None:
    async with BroughtServers(connect, Watch()) as brought:
        await brought.bring("s", "one", [raw("a")])
        await brought.bring("s", "two", [raw("b"), raw("a")])
        assert {tool.spec.name for tool in brought.tools("s")} == {"mcp__a__echo", "mcp__b__echo"}
        await brought.bring("s", "two", [])
        assert [tool.spec.name for tool in brought.tools("s")] == ["mcp__a__echo"]


async def test_there_is_a_limit_and_names_must_differ() -> None:
    async with BroughtServers(connect, Watch()) as brought:
        with pytest.raises(BadMcpServer, match="the same name"):
            await brought.bring("s", "c", [raw("a"), raw("a")])
        with pytest.raises(BadMcpServer, match="The limit is"):
            await brought.bring("s", "c", [raw(f"n{n}") for n in range(BROUGHT_MAX)])
        assert brought.tools("s") == []


async def test_what_is_brought_never_replaces_a_tool_that_is_there() -> None:
    async with BroughtServers(connect, Watch()) as brought, servers(raw()) as own:
        await own.settled(within_s=30)
        await brought.bring("s", "c", [raw()])
        store = MemoryStore()
        deps = AgentDeps(
            store=store,
            model=None,  # type: ignore[arg-type]
            clock=SystemClock(),
            judge=AsksAbout(),
            tools_that_change=own.snapshot,
            brought=brought,
            workspace=None,  # type: ignore[arg-type]
        )
        assert deps.tools_now(session_id="s").get("mcp__raw__echo") is own.snapshot()[0]
        await store.close()
