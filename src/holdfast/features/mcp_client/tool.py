"""A tool of an MCP server as a Holdfast tool.

Turns the result of an MCP call into a tool result: limited and safe.
"""

import asyncio
import base64
import binascii
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias, cast

import msgspec
from mcp import MCPError
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)
from mcp.types.jsonrpc import CONNECTION_CLOSED, PARSE_ERROR
from msgspec import Struct, field
from msgspec.structs import replace
from typing_extensions import override

from holdfast.config.mcp_servers import McpServerConfig
from holdfast.features.mcp_client.connection import Answer, McpConnection, WantedCall
from holdfast.features.mcp_client.flow import CUT_OFF, DROPPED, NOT_SENT
from holdfast.features.mcp_client.open_call import OpenCall
from holdfast.features.mcp_client.server import McpServer
from holdfast.features.mcp_client.tool_specs import plain, written_out
from holdfast.interfaces.journal import Blobs
from holdfast.interfaces.tool import Tool, ToolCall, ToolResult, ToolTraits
from holdfast.messages import ToolSpec
from holdfast.racing import race
from holdfast.tools.arguments import arguments_hash, canonical
from holdfast.tools.shell.output import Shown, cleaned, shorten
from holdfast.values import Action, FilePart, ImagePart

IMAGE_BYTES_MAX = 3 * 1024 * 1024  # as base64 it stays below what providers take
PARTS_MAX = 8
BLOCKS_MAX = 1000
_WORTH_A_THREAD_CHARS = 64 * 1024
_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}

_Part: TypeAlias = ImagePart | FilePart


class _Gathered(Struct):
    texts: list[str] = field(default_factory=list[str])
    binaries: list["_Binary"] = field(default_factory=list["_Binary"])


class _Binary(Struct, frozen=True):
    """Bytes with the media type that the server claims."""

    data: bytes
    media_type: str
    name: str


async def tool_result(result: CallToolResult, blobs: Blobs) -> ToolResult:
    """The result for the model; what is not shown is stored as a blob and mentioned."""
    size_chars = sum(_size_chars(block) for block in result.content)
    if size_chars > _WORTH_A_THREAD_CHARS:
        gathered = await asyncio.to_thread(_gathered, result)
    else:
        gathered = _gathered(result)
    parts = await _parts(gathered, blobs)
    text = "\n".join(gathered.texts)
    shown, left_out = shorten(text, Shown())
    blob = ""
    if left_out:
        blob = await blobs.put_blob(text.encode("utf-8", "replace"))
        shown = f"{shown}\n[{left_out}; the full text is stored as blob {blob}]"
    if not shown.strip() and not parts:
        shown = "(no output)"
    return ToolResult(shown, ok=not result.is_error, parts=parts, blob=blob)


def media_type_of(data: bytes) -> str:
    """An image's media type by its first bytes; empty if models do not accept it."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _SIGNATURES.items() if data.startswith(start)), "")


async def _parts(gathered: _Gathered, blobs: Blobs) -> tuple[_Part, ...]:
    parts: list[_Part] = []
    for binary in gathered.binaries:
        size = f"{plain(binary.media_type, chars_max=80) or 'data'}, {len(binary.data):,} bytes"
        if len(parts) == PARTS_MAX:
            gathered.texts.append(f"[{size}: omitted, there are more than {PARTS_MAX}]")
            continue
        blob = await blobs.put_blob(binary.data)
        # A provider rejects the whole request for an image with a wrong media type.
        kind = media_type_of(binary.data)
        name = plain(binary.name, chars_max=200)
        if kind and len(binary.data) <= IMAGE_BYTES_MAX:
            parts.append(ImagePart(blob=blob, media_type=kind, name=name))
        else:
            gathered.texts.append(f"[{size}: stored as blob {blob}, not shown]")
            parts.append(FilePart(blob=blob, media_type="application/octet-stream", name=name or "data"))
    return tuple(parts)


def _gathered(result: CallToolResult) -> _Gathered:
    gathered = _Gathered()
    for block in result.content[:BLOCKS_MAX]:
        _take(block, gathered)
    if len(result.content) > BLOCKS_MAX:
        gathered.texts.append(f"[{len(result.content) - BLOCKS_MAX:,} more parts omitted]")
    structured = result.structured_content
    if structured is not None and not _is_said(structured, gathered.texts):
        gathered.texts.append(msgspec.json.encode(structured).decode())
    return gathered


def _take(block: ContentBlock, gathered: _Gathered) -> None:
    match block:
        case TextContent():
            gathered.texts.append(cleaned(block.text))
        case ImageContent() | AudioContent():
            _take_binary(block.data, block.mime_type, name="", gathered=gathered)
        case ResourceLink():
            about = plain(block.description or "", chars_max=500)
            gathered.texts.append(f"[resource {plain(str(block.uri), chars_max=1000)}] {about}".strip())
        case EmbeddedResource():
            resource = block.resource
            name = plain(str(resource.uri), chars_max=1000)
            if isinstance(resource, BlobResourceContents):
                _take_binary(resource.blob, resource.mime_type or "", name=name, gathered=gathered)
            else:
                gathered.texts.append(f"[resource {name}]\n{cleaned(resource.text)}")


def _take_binary(encoded: str, media_type: str, *, name: str, gathered: _Gathered) -> None:
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        gathered.texts.append(f"[{plain(media_type, chars_max=80) or 'data'}: invalid base64]")
    else:
        gathered.binaries.append(_Binary(data, media_type, name))


def _is_said(structured: object, texts: list[str]) -> bool:
    """Return whether the texts already contain it: servers send both forms for different clients.

    Many wrap their text in a single field, since structured content must be an object.
    """
    inner: object = structured
    if isinstance(structured, dict) and len(named := cast("dict[str, object]", structured)) == 1:
        (inner,) = named.values()
    if inner == texts:
        return True
    for text in texts:
        if isinstance(inner, str) and cleaned(inner).strip() == text.strip():
            return True
        try:
            said: object = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            continue
        if said in (structured, inner):
            return True
    return False


def _size_chars(block: ContentBlock) -> int:
    match block:
        case TextContent():
            return len(block.text)
        case ImageContent() | AudioContent():
            return len(block.data)
        case EmbeddedResource():
            resource = block.resource
            return len(resource.blob if isinstance(resource, BlobResourceContents) else resource.text)
        case _:
            return 0


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
