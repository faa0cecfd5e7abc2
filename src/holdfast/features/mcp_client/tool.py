"""A tool of an MCP server as a Holdfast tool."""

import asyncio
import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec
from mcp import MCPError
from mcp.types.jsonrpc import CONNECTION_CLOSED, PARSE_ERROR
from msgspec.structs import replace
from typing_extensions import override

from holdfast.config.mcp_servers import McpServerConfig
from holdfast.features.mcp_client.connection import Answer, McpConnection, WantedCall
from holdfast.features.mcp_client.flow import CUT_OFF, DROPPED, NOT_SENT
from holdfast.features.mcp_client.open_call import OpenCall
from holdfast.features.mcp_client.results import tool_result
from holdfast.features.mcp_client.server import McpServer
from holdfast.features.mcp_client.tool_specs import plain, written_out
from holdfast.interfaces.tool import Tool, ToolCall, ToolResult, ToolTraits
from holdfast.messages import ToolSpec
from holdfast.racing import race
from holdfast.tools.arguments import arguments_hash, canonical
from holdfast.values import Action

PROGRESS_GAP_S = 0.25
_SAID_CHARS = 300
_PROGRESS_CHARS = 500
_LONGER_S = 15.0  # to cancel by protocol and to store the result
_EPITAPH_S = 2.0
_MAYBE = "Its effect is unknown."


class _NotSent(Exception):
    """The server has not seen the call, so it may be repeated."""


class _Progress:
    """The latest progress; of updates that come too fast, only the last is kept."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self._text = ""

    async def take(self, progress: float, total: float | None, message: str | None) -> None:
        """Called by the SDK in a task for each notification, so it must not wait."""
        of = f"{progress:g} of {total:g}" if total else f"{progress:g}"
        self._text = plain(f"{of} {message or ''}", chars_max=_PROGRESS_CHARS)
        self.news.set()

    def newest(self) -> str:
        """Progress that was not shown yet."""
        text, self._text = self._text, ""
        self.news.clear()
        return text


class McpTool(Tool):
    """One tool of one server; its claims about effects are not trusted."""

    def __init__(self, server: McpServer, tool: str, *, spec: ToolSpec, as_task: bool = False) -> None:
        self.spec = spec
        self._as_task = as_task
        # The digest covers the text that the model sees, because hidden text can't mislead anyone.
        self._definition = definition_of(tool, spec, server.config)
        self._server = server
        self._tool = tool
        self._patience_s = server.config.patience_for_s(tool)
        waits_s = 2 * server.patience.wait_s + server.patience.cancel_s
        self.traits = ToolTraits(patience_s=self._patience_s + waits_s + _LONGER_S)

    def note_outage(self) -> None:
        """Update whether calls fail now, because the server was tried and isn't connected."""
        server = self._server
        is_down = server.settled.is_set() and server.state != "connected"
        why = f"the MCP server {server.config.name} isn't connected" if is_down else ""
        if why != self.traits.unavailable:
            self.traits = replace(self.traits, unavailable=why)

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        config = self._server.config
        named = plain(f"{config.name}: {plain(self._tool, chars_max=100)}", chars_max=_SAID_CHARS)
        given = written_out(canonical(args).decode("utf-8", "replace"))
        return Action(
            tool=self.spec.name,
            summary=f"{named}({given})",
            host=config.host,
            digest=arguments_hash(self.spec.name, args),
            definition=self._definition,
        )

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        why = ""
        for _ in range(2):
            connection = await self._server.connection()
            if connection is None:
                break
            try:
                return await self._called(connection, args, call)
            except _NotSent as error:
                why = str(error)
        return self._not_there(why or self._server.why)

    async def _called(
        self, connection: McpConnection, args: Mapping[str, object], call: ToolCall
    ) -> ToolResult:
        progress, opened = _Progress(), OpenCall(self._server.config.name, call)
        wanted = WantedCall(self._tool, args, as_task=self._as_task)
        request = connection.call(wanted, opened, progress=progress.take)
        deadline = None
        try:
            async with opened.timer.until(opened.timer.now_s() + self._patience_s) as deadline:
                await _answered(request, progress, call)
        except TimeoutError:
            # A timer may ring a moment before its time, so the clock doesn't say whose error this is.
            if deadline is None or not deadline.expired():
                raise
        finally:
            # Even if this task is cancelled, the cancellation is sent, within the time limit.
            await opened.close()
            if not request.done():
                await connection.give_up(request, within_s=self._server.patience.cancel_s)
        if not request.done() or request.cancelled():
            return self._cancelled(late=deadline.expired())
        return await self._result(request, connection, call=call)

    def _cancelled(self, *, late: bool) -> ToolResult:
        name = self._server.config.name
        why = f"didn't respond within {self._patience_s:g} s" if late else "was closed"
        return ToolResult(f"Cancelled: the MCP server {name} {why}. {_MAYBE}", ok=False, ending="killed")

    async def _result(
        self, request: asyncio.Task[Answer], connection: McpConnection, *, call: ToolCall
    ) -> ToolResult:
        try:
            answer = request.result()
        except MCPError as error:
            return await self._failed(error, connection)
        except (ValueError, RuntimeError, OSError) as error:
            return self._unreadable(str(error))
        return await tool_result(answer, call.blobs)

    async def _failed(self, error: MCPError, connection: McpConnection) -> ToolResult:
        name, said = self._server.config.name, _shortened(error.message)
        if error.code == NOT_SENT:
            raise _NotSent(said) from error
        if error.code == PARSE_ERROR:
            return self._unreadable(said)
        if error.code in {CONNECTION_CLOSED, CUT_OFF}:
            why = await connection.epitaph(within_s=_EPITAPH_S)
            text = f"The MCP server {name} stopped during the call: {why or said}. {_MAYBE}"
            return ToolResult(f"{text} It is being restarted; try again.", ok=False, ending="unknown")
        if error.code == DROPPED:
            return ToolResult(f"The MCP server {name} completed the call, but {said}.", ok=False)
        return ToolResult(f"The MCP server {name} rejected the call: {said}", ok=False)

    def _unreadable(self, why: str) -> ToolResult:
        name = self._server.config.name
        text = f"The MCP server {name} returned an invalid response: {_shortened(why)}. {_MAYBE}"
        return ToolResult(text, ok=False, ending="unknown")

    def _not_there(self, why: str) -> ToolResult:
        text = f"The MCP server {self._server.config.name} isn't available: {why or 'it is still starting'}."
        text = f"{text} It is being restarted; try again later, or do without it."
        return ToolResult(text, ok=False, ending="not_started")


async def _answered(request: asyncio.Task[Answer], progress: _Progress, call: ToolCall) -> None:
    """Show progress until the response is there."""
    while not request.done():
        news = asyncio.ensure_future(progress.news.wait())
        await race(news, watched=[request])
        text = progress.newest()
        if text and not request.done():
            await call.say(f"{text}\n", stream="progress")
            await asyncio.wait([request], timeout=PROGRESS_GAP_S)


def definition_of(tool: str, spec: ToolSpec, config: McpServerConfig) -> str:
    """A digest of the server, the tool's own name, its description and its schema."""
    told = [*config.command, config.url, tool, spec.description, canonical(spec.schema).decode()]
    return hashlib.sha256(msgspec.json.encode(told)).hexdigest()[:32]


def _shortened(text: str) -> str:
    return plain(text, chars_max=_SAID_CHARS)
