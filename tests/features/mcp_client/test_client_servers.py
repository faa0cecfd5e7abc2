"""MCP servers that a client brings for one session: whose they are, and how long they last."""

import asyncio
from collections.abc import Sequence

import pytest

from features.mcp_client.scene import left, raw, servers
from holdfast.agent.deps import AgentDeps
from holdfast.config.mcp_servers import BadMcpServer, McpServerConfig
from holdfast.features.mcp_client.servers import McpServers
from holdfast.features.mcp_client.session_tools import (
    CLIENTS_MAX,
    ClientServers,
    McpTools,
    TooManyServers,
)
from holdfast.interfaces.system_clock import SystemClock
from serving import AsksAbout
from stores import MemoryStore


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
    async with ClientServers(connect, clock, lease_s=60) as of_clients:
        [status] = await of_clients.put("s", "editor", [raw()])
        assert (status.state, status.tools) == ("connected", 1)
        assert [tool.spec.name for tool in of_clients.tools("s")] == ["mcp__raw__echo"]
        assert of_clients.tools("t") == []
        assert await left("s/editor")

        await clock.passes(40)
        await of_clients.put("s", "editor", [raw()])  # renewed, and not started again
        await clock.passes(40)
        assert len(of_clients.tools("s")) == 1
        await clock.passes(40)
        assert of_clients.tools("s") == []
        assert not await left("s/editor")


async def test_two_clients_of_a_session_do_not_replace_each_others() -> None:
    async with ClientServers(connect, Watch()) as of_clients:
        await of_clients.put("s", "one", [raw("a")])
        await of_clients.put("s", "two", [raw("b"), raw("a")])
        assert {tool.spec.name for tool in of_clients.tools("s")} == {"mcp__a__echo", "mcp__b__echo"}
        await of_clients.put("s", "two", [])
        assert [tool.spec.name for tool in of_clients.tools("s")] == ["mcp__a__echo"]


async def test_there_is_a_limit_and_names_must_differ() -> None:
    async with ClientServers(connect, Watch()) as of_clients:
        with pytest.raises(BadMcpServer, match="the same name"):
            await of_clients.put("s", "c", [raw("a"), raw("a")])
        with pytest.raises(TooManyServers, match="The limit is"):
            await of_clients.put("s", "c", [raw(f"n{n}") for n in range(CLIENTS_MAX)])
        assert of_clients.tools("s") == []


async def test_client_supplied_tools_never_replace_others() -> None:
    async with ClientServers(connect, Watch()) as of_clients, servers(raw()) as own:
        await own.tried_once(within_s=30)
        await of_clients.put("s", "c", [raw()])
        store = MemoryStore()
        deps = AgentDeps(
            store=store,
            model=None,  # type: ignore[arg-type]
            clock=SystemClock(),
            judge=AsksAbout(),
            session_tools={"mcp_client": McpTools(of_clients, own)},
            workspace=None,  # type: ignore[arg-type]
        )
        assert deps.tools_now(session_id="s").get("mcp__raw__echo") is own.snapshot()[0]
        await store.close()
