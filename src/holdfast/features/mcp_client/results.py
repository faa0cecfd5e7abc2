"""Turns the result of an MCP call into a tool result: limited and safe."""

import asyncio
import base64
import binascii
from typing import TypeAlias, cast

import msgspec
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
from msgspec import Struct, field

from holdfast.features.mcp_client.tool_specs import plain
from holdfast.interfaces.journal import Blobs
from holdfast.interfaces.tool import ToolResult
from holdfast.tools.shell.cleaning import cleaned
from holdfast.tools.shell.output import Shown, shorten
from holdfast.values import FilePart, ImagePart

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
