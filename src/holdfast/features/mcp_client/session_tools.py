"""The tools of MCP servers: of all sessions, or of one whose client supplied the servers.

Client-supplied servers, such as those of an editor, stay connected as long as the client renews them. Nothing
about them is stored, because their settings contain keys: after a restart, the client's next renewal connects
them again.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias

from msgspec import Struct, field

from holdfast.interfaces.clock import Clock
from holdfast.interfaces.feature import ToolsContext
from holdfast.interfaces.tool import Tool
from holdfast.supervision import BackgroundTasks

if TYPE_CHECKING:
    from holdfast.config.mcp_servers import McpServerConfig
    from holdfast.config.settings import Settings
    from holdfast.features.mcp_client.server import McpStatus, ServerPlace
    from holdfast.features.mcp_client.servers import McpServers

LEASE_S = 60.0
CONNECT_S = 8.0  # how long the first response waits for servers that are starting
CLIENTS_MAX = 64
SERVERS_MAX = 32

# Creates the servers; the text tells their processes from those of others.
Connect: TypeAlias = "Callable[[str, Sequence[McpServerConfig]], McpServers]"
ClientKey: TypeAlias = tuple[str, str]  # a session, and a client of it


class TooManyServers(ValueError):
    """The limits of client-supplied servers are reached."""


class _Supplied(Struct):
    """One client's servers."""

    configs: "tuple[McpServerConfig, ...]"
    servers: "McpServers"
    until_s: float
    closing: AsyncExitStack = field(default_factory=AsyncExitStack)


class ClientServers:
    """All client-supplied servers, connected while entered."""

    def __init__(self, connect: Connect, clock: Clock, *, lease_s: float = LEASE_S) -> None:
        self._connect = connect
        self._clock = clock
        self._lease_s = lease_s
        self._supplied: dict[ClientKey, _Supplied] = {}
        self._changing = asyncio.Lock()
        self._background = BackgroundTasks()

    async def __aenter__(self) -> Self:
        self._background.start("MCP server leases", self._watch)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._background.__aexit__(*error)
        async with self._changing:
            for key in list(self._supplied):
                await self._close(key)

    async def put(
        self, session_id: str, client_id: str, configs: "Sequence[McpServerConfig]"
    ) -> "tuple[McpStatus, ...]":
        """Connect or renew a client's servers; an empty list disconnects them.

        Raises TooManyServers, and BadMcpServer for a duplicate name.
        """
        key = (session_id, client_id)
        async with self._changing:
            supplied = self._supplied.get(key)
            if supplied is not None and supplied.configs == tuple(configs):
                supplied.until_s = self._clock.steady_s() + self._lease_s
            else:
                await self._close(key)
                supplied = await self._open(key, configs) if configs else None
        if supplied is None:
            return ()
        await supplied.servers.tried_once(within_s=CONNECT_S)
        return supplied.servers.status()

    def tools(self, session_id: str) -> list[Tool]:
        """Return the session's tools, each name once."""
        if not self._supplied:
            return []
        tools = (
            tool
            for (of_session, _), supplied in self._supplied.items()
            if of_session == session_id
            for tool in supplied.servers.snapshot()
        )
        return list({tool.spec.name: tool for tool in tools}.values())

    async def _open(self, key: ClientKey, configs: "Sequence[McpServerConfig]") -> _Supplied:
        if len(configs) > SERVERS_MAX or len(self._supplied) >= CLIENTS_MAX:
            raise TooManyServers(
                f"The limit is {SERVERS_MAX} MCP servers per client, and {CLIENTS_MAX} clients."
            )
        servers = await asyncio.to_thread(self._connect, "/".join(key), configs)
        supplied = _Supplied(tuple(configs), servers, self._clock.steady_s() + self._lease_s)
        await supplied.closing.enter_async_context(servers)
        self._supplied[key] = supplied
        return supplied

    async def _close(self, key: ClientKey) -> None:
        if (supplied := self._supplied.pop(key, None)) is not None:
            await supplied.closing.aclose()

    async def _watch(self) -> None:
        """Disconnect servers whose lease expired."""
        while True:
            await self._clock.sleep_s(self._lease_s / 4)
            now_s = self._clock.steady_s()
            async with self._changing:
                for key in [key for key, supplied in self._supplied.items() if supplied.until_s <= now_s]:
                    await self._close(key)


class McpTools(Struct, frozen=True):
    """The tools of a session, at the time of the call."""

    of_clients: ClientServers
    configured: "McpServers | None" = None

    def __call__(self, session_id: str) -> Sequence[Tool]:
        """Return configured servers' tools, then client-supplied ones, which never replace another tool."""
        supplied = self.of_clients.tools(session_id)
        if self.configured is None:
            return supplied
        tools = self.configured.snapshot()
        names = {tool.spec.name for tool in tools} if supplied else ()
        return (*tools, *(tool for tool in supplied if tool.spec.name not in names))


@asynccontextmanager
async def open_session_tools(context: ToolsContext) -> AsyncGenerator[McpTools]:
    """Connect the configured servers, and accept client-supplied ones.

    Raises BadMcpServer if all of them must be connected, and one isn't in time.
    """
    data_dir, servers = str(context.settings.data_dir), context.settings.mcp_servers
    connect = partial(_servers, context)
    async with AsyncExitStack() as stack:
        configured: McpServers | None = None
        if servers:
            from holdfast.config.mcp_servers import mcp_config

            configs = [mcp_config(server) for server in servers]
            configured = await stack.enter_async_context(await asyncio.to_thread(connect, data_dir, configs))
            if context.connect_s:
                await configured.insist_on_all(within_s=context.connect_s)
        of_clients = ClientServers(
            lambda owner, configs: connect(f"{data_dir}/{owner}", configs), context.clock
        )
        yield McpTools(await stack.enter_async_context(of_clients), configured)


def _servers(context: ToolsContext, owner: str, configs: "Sequence[McpServerConfig]") -> "McpServers":
    """Return servers that aren't connected yet. Blocks, but looks at files only when the first starts."""
    from holdfast.features.mcp_client.process import ServerConfiner
    from holdfast.features.mcp_client.servers import McpServers
    from holdfast.sandbox.server_profiles import ServerProfiles

    folder = context.settings.data_dir / "sandbox" / "mcp"
    profiles = ServerProfiles(Path.home(), folder, own=context.kept_out)
    return McpServers(
        configs,
        environment=context.environment,
        owner=owner,
        confiner=ServerConfiner(context.sandbox, profiles),
        place=server_place(context.settings),
    )


def server_place(settings: "Settings") -> "ServerPlace":
    """Return the servers' workspace, and the folder of their sign-ins."""
    from holdfast.features.mcp_client.server import ServerPlace

    return ServerPlace(settings.workspace, settings.data_dir / "mcp-sign-ins")
