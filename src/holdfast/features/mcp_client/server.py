"""One MCP server and the task that owns it: connects, lists tools, checks it, and reconnects."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Literal, TypeAlias, cast

from mcp import MCPError
from mcp.types import Tool
from msgspec import Struct

from holdfast.config.mcp_servers import McpServerConfig
from holdfast.features.mcp_client.connection import McpConnection
from holdfast.features.mcp_client.flow import NOT_STREAMABLE, Incoming, Outgoing
from holdfast.features.mcp_client.http import http_wire, sse_wire
from holdfast.features.mcp_client.oauth import SignInFile, TokenAuth
from holdfast.features.mcp_client.process import McpPatience, ServerProcess, blocked, variables
from holdfast.features.mcp_client.stdio import stdio_wire
from holdfast.features.mcp_client.tool_specs import plain
from holdfast.policy.host_rules import HostRules
from holdfast.sandbox.confinement import Confinement
from holdfast.tools.offload import offload
from holdfast.tools.shell.confined_run import ConfinedRun
from holdfast.tools.shell.marker import foreground
from holdfast.tools.shell.process import Command
from holdfast.tools.shell.scope import kill_leftovers

WireKind: TypeAlias = Literal["stdio", "http", "sse"]
_WHY_CHARS = 700
_LAST_CALLS_S = 1.0
_log = logging.getLogger(__name__)


class McpStatus(Struct, frozen=True, kw_only=True):
    """A server's status, for people."""

    name: str
    state: Literal["connecting", "connected", "down"]
    tools: int = 0
    why: str = ""  # why it is down, or was last
    left_out: tuple[str, ...] = ()  # tools that the model is not told of, each with the reason


class ServerPlace(Struct, frozen=True):
    """The root folder of a server, where its sign-in is stored (None: nowhere), and hosts that it can reach.

    Without `rules`, these are the hosts of its sandbox profile.
    """

    workspace: Path = Path()
    sign_ins: Path | None = None
    rules: HostRules | None = None

    def sign_in_file(self, config: McpServerConfig) -> SignInFile | None:
        """Return the file of the server's sign-in; None if it has its own keys or can't sign in."""
        has_key = any(name.lower() == "authorization" for name in config.headers)
        if self.sign_ins is None or not config.url or has_key:
            return None
        return SignInFile(self.sign_ins, name=config.name, url=config.url)


class McpServer:
    """A server; its owner's task runs `live`, everything else may be called by anyone on the loop."""

    def __init__(
        self,
        config: McpServerConfig,
        *,
        environment: Mapping[str, str],
        patience: McpPatience,
        marker_run: str,
        confined: Callable[[], Confinement | None] = lambda: None,
        place: "ServerPlace | None" = None,
    ) -> None:
        self.config = config
        self.patience = patience
        self.tools: tuple[Tool, ...] = ()  # those of a server that is down are kept: it will be back
        self.unreadable: tuple[str, ...] = ()  # invalid tools of the newest list, each with the reason
        self.listings = 0
        self.why = ""
        self.settled = asyncio.Event()  # it has been tried once
        self.closing = False
        self._environment = environment
        self._marker_run = marker_run
        self._confined = confined
        place = place or ServerPlace()
        self._workspace = place.workspace
        self._rules = place.rules
        self._sign_in = place.sign_in_file(config)
        self._is_legacy = config.transport == "sse"
        self._connection: McpConnection | None = None
        self._connected = asyncio.Event()
        self._wanted = asyncio.Event()
        self._resting = False

    @property
    def state(self) -> Literal["connecting", "connected", "down"]:
        """Its status."""
        if self._connection is not None:
            return "connected"
        return "down" if self._resting else "connecting"

    async def connection(self) -> McpConnection | None:
        """The connection, waiting for one in progress; None if that takes too long."""
        if self._connection is None or self._connection.over:
            self._connected.clear()
            self._wanted.set()  # don't pause while a caller is waiting
            try:
                async with asyncio.timeout(self.patience.wait_s):
                    await self._connected.wait()
            except TimeoutError:
                return None
        return self._connection

    async def live(self) -> None:
        """Stay connected until cancelled."""
        if self.config.command:
            # A server of ours that was killed cannot have ended the processes that it started.
            await kill_leftovers(self._marker_run, tool_call_ids=[""], patience=self.patience.kill)
        loop = asyncio.get_running_loop()
        failures = 0
        # The flag is looked at because clean-up code that raises takes the place of a cancellation.
        while not self.closing:
            began_s = loop.time()
            before, self.why = self.why, await self._lived()
            if self.why != before:
                _log.warning("MCP server %s: %s", self.config.name, self.why)
            self.settled.set()
            failures = 1 if loop.time() - began_s > self.patience.steady_s else failures + 1
            await self._rest(self.patience.backoff_s(failures))

    async def _rest(self, seconds: float) -> None:
        self._resting = True
        self._wanted.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._wanted.wait()
        except TimeoutError:
            return
        finally:
            self._resting = False

    async def _lived(self) -> str:
        """One connection, from start to end."""
        if not self.config.url:
            return (await self._connected_by("stdio"))[0]
        if self._is_legacy:
            return (await self._connected_by("sse"))[0]
        why, code = await self._connected_by("http")
        if code != NOT_STREAMABLE or self.config.transport != "auto":
            return why
        legacy, _ = await self._connected_by("sse")
        return legacy if self._is_legacy else f"{why}; and by the older SSE transport: {legacy}"

    async def _connected_by(self, wire: WireKind) -> tuple[str, int]:
        """Why the connection is over, and the code of the error that kept it from being made, or 0."""
        connection = McpConnection(self.config, workspace=self._workspace)
        ends: list[str] = []
        code = 0
        deadline = asyncio.timeout(self.patience.connect_s)
        try:
            async with AsyncExitStack() as stack:
                async with deadline:
                    opened = self._wire(connection, ends, wire=wire)
                    incoming, outgoing = await stack.enter_async_context(opened)
                    tools = await connection.enter(stack, incoming=incoming, outgoing=outgoing)
                self._is_legacy = wire == "sse"
                self._begin(connection, tools)
                await self._serve(connection)
        except Exception as error:  # noqa: BLE001 - whatever a server does to us ends its connection alone
            late = f"it didn't respond within {self.patience.connect_s:g} s"
            code = error_code(error)
            connection.end(late if deadline.expired() else error_text(error))
        finally:
            connection.end("it is being closed")
            self._connection = None
            await _none_left(connection)
            why = plain("; ".join([connection.over, *filter(None, ends)]), chars_max=_WHY_CHARS, keep="\n")
            connection.bury(why)
        return why, 0 if connection.entered else code

    def _begin(self, connection: McpConnection, tools: tuple[Tool, ...]) -> None:
        self._take(connection, tools)
        self._connection = connection
        self._connected.set()
        self.settled.set()

    def _take(self, connection: McpConnection, tools: tuple[Tool, ...]) -> None:
        self.tools, self.unreadable = tools, tuple(connection.unreadable)
        self.listings += 1

    async def _serve(self, connection: McpConnection) -> None:
        while not connection.over:
            await connection.news.wait()
            connection.news.clear()
            if connection.suspect and not connection.over:
                connection.suspect = False
                await self._check(connection)
            if connection.tools_changed and not connection.over:
                connection.tools_changed = False
                await self._relist(connection)

    async def _check(self, connection: McpConnection) -> None:
        try:
            async with asyncio.timeout(self.patience.ping_s):
                alive = await connection.answers()
        except TimeoutError:
            alive = False
        # A server that does one thing at a time is silent while it works for somebody else.
        if not alive and not [call for call in connection.calls if not call.cancelling()]:
            connection.end("it stopped responding")

    async def _relist(self, connection: McpConnection) -> None:
        try:
            async with asyncio.timeout(self.patience.list_s):
                self._take(connection, await connection.listed())
        except TimeoutError:
            connection.end("it didn't list its tools")
        except (MCPError, ValueError) as error:
            self.why = f"couldn't read its updated tool list: {error_text(error)}"
        # However often it says that they changed, this is how often it is asked.
        await _until_over(connection, within_s=self.patience.relist_gap_s)

    @asynccontextmanager
    async def _wire(
        self, connection: McpConnection, ends: list[str], *, wire: WireKind
    ) -> AsyncGenerator[tuple[Incoming, Outgoing]]:
        """Open the wire; when it is closed, `ends` says how it ended."""
        if wire != "stdio":
            opened = http_wire if wire == "http" else sse_wire
            auth = TokenAuth(self.config, self._sign_in) if self._sign_in else None
            async with opened(self.config, lost=connection.end, auth=auth) as (incoming, outgoing):
                yield incoming, outgoing
            return
        confinement = await offload(self._confined)
        command = Command(
            argv=self.config.command,
            environment={**self._environment, **variables(confinement), **self.config.env},
            cwd=self.config.cwd,
            confinement=confinement,
        )
        async with AsyncExitStack() as stack:
            run = ConfinedRun(command, rules=self._rules)
            await run.open()
            stack.push_async_callback(run.close)
            process = ServerProcess(
                run.command, marker=foreground(self._marker_run, ""), patience=self.patience
            )
            reader, writer = await stack.enter_async_context(stdio_wire(process))
            try:
                yield reader, writer
            finally:
                junk = f"it printed output that isn't MCP: {reader.junk!r}" if reader.junk else ""
                ends += [reader.broken, junk]
                await stack.aclose()
                if not connection.entered and confinement is not None:
                    said = str(process.last_words)
                    ends.append(await offload(lambda: blocked(confinement.profile, said)))
                ends += [*_last_of(process), *run.sentences]


async def _until_over(connection: McpConnection, *, within_s: float) -> None:
    """Wait a moment so that several changes count as one."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + within_s
    while not connection.over and not connection.suspect and loop.time() < deadline_s:
        connection.news.clear()
        try:
            async with asyncio.timeout_at(deadline_s):
                await connection.news.wait()
        except TimeoutError:
            break
    connection.news.set()


async def _none_left(connection: McpConnection) -> None:
    """End calls that outlive their connection."""
    if connection.calls:
        await asyncio.wait(connection.calls.copy(), timeout=_LAST_CALLS_S)
    for call in connection.calls.copy():
        call.cancel()
    while connection.calls:
        await asyncio.wait(connection.calls.copy())


def _last_of(process: ServerProcess) -> list[str]:
    if not process.ended.done():
        return ["its process can't be watched"]
    if (error := process.ended.exception()) is not None:
        return [f"couldn't watch its process: {error_text(error)}"]
    exited = process.ended.result()
    last_words = str(process.last_words)
    return [
        "" if exited.killed and not exited.survivors else str(exited),
        last_words and f"its last output: {last_words}",
    ]


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def error_code(error: BaseException) -> int:
    """The code of an error of MCP, or 0."""
    first = _first(error)
    return first.code if isinstance(first, MCPError) else 0


def error_text(error: BaseException) -> str:
    """Describe an error in one line."""
    error = _first(error)
    text = str(error)
    return plain(text, chars_max=300) if text else type(error).__name__
