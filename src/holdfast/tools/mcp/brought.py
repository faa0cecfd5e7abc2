"""MCP servers that a client brings for one session, such as those of an editor.

They live as long as the client renews them. Nothing of them is stored, because their settings hold keys: a
client that finds the server restarted brings them again with its next renewal.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Self, TypeAlias

from msgspec import Struct, field

from holdfast.interfaces.clock import Clock
from holdfast.interfaces.tool import Tool
from holdfast.supervision import BackgroundTasks
from holdfast.tools.mcp.config import BadMcpServer, McpServerConfig

if TYPE_CHECKING:
    from holdfast.tools.mcp.servers import McpServers, McpStatus

LEASE_S = 60.0
SETTLE_S = 8.0  # how long the first answer waits for servers that are starting
BROUGHT_MAX = 64
SERVERS_MAX = 32

# Makes the servers; the text tells their processes from those of others.
Connect: TypeAlias = "Callable[[str, Sequence[McpServerConfig]], McpServers]"
Bringer: TypeAlias = tuple[str, str]  # a session, and a client of it


class _Brought(Struct):
    """One client's servers."""

    configs: tuple[McpServerConfig, ...]
    servers: "McpServers"
    until_s: float
    closing: AsyncExitStack = field(default_factory=AsyncExitStack)


class BroughtServers:
    """All servers that clients have brought; entered while there may be some."""

    def __init__(self, connect: Connect, clock: Clock, *, lease_s: float = LEASE_S) -> None:
        self._connect = connect
        self._clock = clock
        self._lease_s = lease_s
        self._brought: dict[Bringer, _Brought] = {}
        self._changing = asyncio.Lock()
        self._background = BackgroundTasks()

    async def __aenter__(self) -> Self:
        self._background.start("MCP server leases", self._watch)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._background.__aexit__(*error)
        async with self._changing:
            for bringer in list(self._brought):
                await self._close(bringer)

    async def bring(
        self, session_id: str, client_id: str, configs: Sequence[McpServerConfig]
    ) -> "tuple[McpStatus, ...]":
        """Connect these servers for the session, or renew them; none ends them. Raises BadMcpServer."""
        bringer = (session_id, client_id)
        async with self._changing:
            known = self._brought.get(bringer)
            if known is not None and known.configs == tuple(configs):
                known.until_s = self._clock.steady_s() + self._lease_s
            else:
                await self._close(bringer)
                known = await self._open(bringer, configs) if configs else None
        if known is None:
            return ()
        await known.servers.settled(within_s=SETTLE_S)
        return known.servers.status()

    def tools(self, session_id: str) -> list[Tool]:
        """The tools that the session has by them, each name once."""
        tools = (
            tool
            for (of_session, _), one in self._brought.items()
            if of_session == session_id
            for tool in one.servers.snapshot()
        )
        return list({tool.spec.name: tool for tool in tools}.values())

    async def _open(self, bringer: Bringer, configs: Sequence[McpServerConfig]) -> _Brought:
        if len(configs) > SERVERS_MAX or len(self._brought) >= BROUGHT_MAX:
            raise BadMcpServer(
                f"The limit is {SERVERS_MAX} MCP servers per client, and {BROUGHT_MAX} clients."
            )
        servers = await asyncio.to_thread(self._connect, "/".join(bringer), configs)
        until_s = self._clock.steady_s() + self._lease_s
        made = _Brought(tuple(configs), servers, until_s)
        await made.closing.enter_async_context(servers)
        self._brought[bringer] = made
        return made

    async def _close(self, bringer: Bringer) -> None:
        if (known := self._brought.pop(bringer, None)) is not None:
            await known.closing.aclose()

    async def _watch(self) -> None:
        """Close servers whose lease expired."""
        while True:
            await self._clock.sleep_s(self._lease_s / 4)
            now_s = self._clock.steady_s()
            async with self._changing:
                for bringer in [one for one, had in self._brought.items() if had.until_s <= now_s]:
                    await self._close(bringer)
