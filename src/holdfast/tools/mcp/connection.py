"""One connection to an MCP server: handshake, list of tools, calls, and its end."""

import asyncio
from collections.abc import Generator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import TypeAlias, cast

from mcp import ClientSession, MCPError
from mcp.client.subscriptions import listen
from mcp.shared.dispatcher import ProgressFnT
from mcp.types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    InputRequiredResult,
    PaginatedRequestParams,
    Tool,
)
from mcp.types.jsonrpc import CONNECTION_CLOSED, METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

from holdfast import __version__
from holdfast.tools.mcp.flow import CUT_OFF, NOT_SENT, Incoming, Metered, Outgoing
from holdfast.tools.offload import settle

PAGES_MAX = 50
TOOLS_MAX = 256
Answer: TypeAlias = CallToolResult | InputRequiredResult
_ANSWER = cast("TypeAdapter[CallToolResult]", TypeAdapter(CallToolResult | InputRequiredResult))


class McpConnection:
    """An SDK session and its state; one task, its owner, enters and leaves it.

    `news` tells the owner that one of the flags has changed.
    """

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.over = ""  # why it is over
        self.tools_changed = False
        self.entered = False  # it answered once
        self.suspect = False  # a call was given up, so the server may be hanging
        self.calls: set[asyncio.Task[Answer]] = set()
        self._buried = asyncio.Event()
        self._session: ClientSession | None = None

    async def enter(
        self, stack: AsyncExitStack, *, incoming: Incoming, outgoing: Outgoing
    ) -> tuple[Tool, ...]:
        """Do the handshake and ask for the tools; the stack closes what this opens."""
        stream = Metered(incoming, tools_changed=self._note_change, over=lambda: self.end("it hung up"))
        info = Implementation(name="holdfast", version=__version__)
        session = await stack.enter_async_context(ClientSession(stream, outgoing, client_info=info))
        self._session = session
        await _greeted(session)
        tools = await self.listed()
        capabilities = session.server_capabilities
        changing = capabilities and capabilities.tools and capabilities.tools.list_changed
        if changing and session.protocol_version in MODERN_PROTOCOL_VERSIONS:
            # A server of this era tells of changes only where somebody listens; `Metered` hears them.
            await stack.enter_async_context(listen(session, tools_list_changed=True))
        self.entered = True
        return tools

    def end(self, why: str) -> None:
        """Mark it as over; the first reason is kept."""
        self.over = self.over or why
        self.news.set()

    def bury(self, why: str) -> None:
        """Set how it ended, now that everything is known."""
        self.over = why
        self._buried.set()

    async def epitaph(self, *, within_s: float) -> str:
        """Why it is over, as far as known within that time; empty if it is not over."""
        if self.over:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self._buried.wait()
        return self.over

    def _note_change(self) -> None:
        self.tools_changed = True
        self.news.set()

    async def listed(self) -> tuple[Tool, ...]:
        """The server's tools from all pages, up to a limit."""
        session = self._entered()
        tools: list[Tool] = []
        cursor: str | None = None
        for _ in range(PAGES_MAX):
            params = PaginatedRequestParams(cursor=cursor) if cursor is not None else None
            with self._noting_the_end():
                page = await session.list_tools(params=params)
            tools += page.tools
            cursor = page.next_cursor
            if cursor is None or len(tools) >= TOOLS_MAX:
                break
        return tuple(tools[:TOOLS_MAX])

    async def answers(self) -> bool:
        """Whether the server responds at all."""
        try:
            await self._entered().send_ping()
        except MCPError as error:
            return error.code not in {NOT_SENT, CUT_OFF, CONNECTION_CLOSED}
        except ValueError:
            return True  # nonsense is an answer too
        return True

    def call(self, tool: str, args: Mapping[str, object], *, progress: ProgressFnT) -> asyncio.Task[Answer]:
        """Start a call; its task raises MCPError, or ValueError for an invalid response."""
        task = asyncio.create_task(self._called(tool, args, progress=progress), name=f"mcp call {tool[:40]}")
        self.calls.add(task)
        task.add_done_callback(self.calls.discard)
        return task

    async def give_up(self, call: asyncio.Task[Answer], *, within_s: float) -> None:
        """Cancel the call by protocol, and wait up to a limit until the server is told."""
        call.cancel()
        self.suspect = True
        self.news.set()
        await settle(call, within_s=within_s)

    async def _called(self, tool: str, args: Mapping[str, object], *, progress: ProgressFnT) -> Answer:
        if self.over:
            raise MCPError(NOT_SENT, self.over)
        # Not session.call_tool: that checks the result against the server's own schema, on this loop, with
        # whatever regular expressions are in it.
        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=dict(args)))
        with self._noting_the_end():
            return await self._entered().send_request(request, _ANSWER, progress_callback=progress)

    @contextmanager
    def _noting_the_end(self) -> Generator[None]:
        try:
            yield
        except MCPError as error:
            if error.code == NOT_SENT:
                self.end(error.message)
            raise

    def _entered(self) -> ClientSession:
        assert self._session is not None, "it is entered first"
        return self._session


async def _greeted(session: ClientSession) -> None:
    try:
        await session.initialize()
    except MCPError as error:
        # Old servers take a first message that is not this greeting badly, so the newer one comes second.
        if error.code not in {METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION}:
            raise
        await session.discover()
