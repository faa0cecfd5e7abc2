"""Reads files: numbered lines of text, images as images, and a note about anything else."""

import os
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from typing_extensions import override

from holdfast.interfaces.tool import Tool, ToolCall, ToolResult, ToolTraits
from holdfast.policy.tool_names import READ_FILE
from holdfast.tools.arguments import arguments_hash, parsed, spec_of
from holdfast.tools.files.contents import WHOLE_BYTES_MAX, FilesSeen, Stamp, byte_count, read_whole
from holdfast.tools.files.workspace import PathRefused, Spot, Workspace, Workspaces
from holdfast.tools.offload import offload
from holdfast.values import Action, ImagePart

CHARS_MAX = 50_000
LINE_CHARS_MAX = 2_000
IMAGE_BYTES_MAX = 5 * 1024 * 1024
_CHUNK_BYTES = 256 * 1024
_LOOK_BYTES = 8 * 1024


class ReadFileArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file to read."""

    path: Annotated[str, Meta(min_length=1)]
    first_line: Annotated[int, Meta(ge=1)] = 1
    lines: Annotated[int, Meta(ge=1, le=10_000)] = 2_000
    numbered: bool = True


class Picture(Struct, frozen=True):
    """An image file."""

    data: bytes
    media_type: str


class Lines(Struct, frozen=True, kw_only=True):
    """Some lines of a file; `total` is 0 if the file was too large to count."""

    lines: list[str]
    first: int
    total: int


class ReadFile(Tool):
    """Reads a file of the workspace."""

    args_type = ReadFileArgs
    spec = spec_of(
        READ_FILE,
        "Read a text file or part of it, or view an image.",
        args=ReadFileArgs,
    )
    traits = ToolTraits(
        read_only=True, idempotent=True, parallel_safe=True, patience_s=60.0, place="workspace"
    )

    def __init__(self, seen: FilesSeen, *, workspaces: Workspaces = Workspace) -> None:
        self._seen = seen
        self._workspaces = workspaces

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        """Resolves links, so it blocks."""
        given = parsed(ReadFileArgs, args)
        return Action(
            tool=READ_FILE,
            summary=f"read {given.path}",
            paths=(self._workspaces(workspace).resolved(given.path),),
            digest=arguments_hash(READ_FILE, args),
        )

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        given = parsed(ReadFileArgs, args)
        give_up = Event()
        try:
            found, stamp, inside = await offload(
                lambda: _read(self._workspaces(call.workspace).bound_to(call.judged_paths), given, give_up),
                give_up=give_up,
            )
        except PathRefused as refused:
            return ToolResult(str(refused), ok=False)
        self._seen.note(call.session_id, f"{call.workspace}/{inside}", stamp=stamp)
        if isinstance(found, Picture):
            blob = await call.blobs.put_blob(found.data)
            part = ImagePart(blob=blob, media_type=found.media_type, name=Path(inside).name)
            return ToolResult(f"{inside}: {found.media_type}, {byte_count(len(found.data))}.", parts=(part,))
        return ToolResult(_text(found, given))


def _read(workspace: Workspace, given: ReadFileArgs, give_up: Event) -> tuple[Lines | Picture, Stamp, str]:
    with workspace.spot(given.path) as spot:
        found = spot.look()
        if found is not None and found.st_size > WHOLE_BYTES_MAX:
            stamp = Stamp(found.st_mtime_ns, found.st_size, "")
            return _lines_of_a_large_file(spot, given, give_up), stamp, spot.inside
        data, stamp = read_whole(spot, give_up=give_up)
        media_type = image_type(data)
        if media_type and len(data) <= IMAGE_BYTES_MAX:
            return Picture(data, media_type), stamp, spot.inside
        _insist_on_text(spot, data)
        lines = data.decode("utf-8", "replace").split("\n")
        if lines and not lines[-1]:
            lines.pop()  # what follows the last line's end is no line
        start = given.first_line - 1
        chosen = lines[start : start + given.lines]
        return Lines(lines=chosen, first=given.first_line, total=len(lines)), stamp, spot.inside


def _lines_of_a_large_file(spot: Spot, given: ReadFileArgs, give_up: Event) -> Lines:
    with os.fdopen(spot.open_file(), "rb", buffering=0) as file:
        chunk = file.read(_CHUNK_BYTES)
        _insist_on_text(spot, chunk)
        to_skip = given.first_line - 1
        while chunk and to_skip > chunk.count(b"\n"):
            to_skip -= chunk.count(b"\n")
            chunk = file.read(_CHUNK_BYTES)
            if give_up.is_set():
                raise PathRefused("Stopped.")
        chunk = chunk.split(b"\n", to_skip)[to_skip] if chunk else b""
        # The shown part is small, so a few chunks contain it, however long the lines are.
        while chunk.count(b"\n") <= given.lines and len(chunk) < 4 * CHARS_MAX + _CHUNK_BYTES:
            more = file.read(_CHUNK_BYTES)
            if not more:
                break
            chunk += more
    lines = chunk.decode("utf-8", "replace").split("\n")[: given.lines] if chunk else []
    return Lines(lines=lines, first=given.first_line, total=0)


def _text(found: Lines, given: ReadFileArgs) -> str:
    if not found.lines and found.total:
        return f"(no line {found.first}: the file has {found.total:,} lines)"
    if not found.lines:
        return "(empty)" if found.first == 1 else f"(no line {found.first:,}: the file ends before)"
    shown: list[str] = []
    chars = 0
    for number, line in enumerate(found.lines, found.first):
        text = _line(line.removesuffix("\r"))
        shown.append(f"{number:>6}\t{text}" if given.numbered else text)
        chars += len(shown[-1]) + 1
        if chars > CHARS_MAX:
            break
    last = found.first + len(shown) - 1
    if last == found.total and found.first == 1:
        return "\n".join(shown)
    whole = f" of {found.total:,}" if found.total else ""
    further = "" if last == found.total else f"; continue with first_line={last + 1}"
    return "\n".join([*shown, f"[lines {found.first:,} to {last:,}{whole}{further}]"])


def _line(line: str) -> str:
    if len(line) <= LINE_CHARS_MAX:
        return line
    return f"{line[:LINE_CHARS_MAX]} [… {len(line) - LINE_CHARS_MAX:,} more characters on this line]"


def _insist_on_text(spot: Spot, data: bytes) -> None:
    if b"\0" in data[:_LOOK_BYTES]:
        media_type = image_type(data)
        kind = f"an image ({media_type}) that is too large to show" if media_type else "a binary file"
        raise PathRefused(
            f"{spot.inside} is {kind}, not text; it begins with the bytes {data[:16].hex(' ')}."
        )


def image_type(data: bytes) -> str:
    """The media type of an image that models and chats show; empty if it is none."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return ""
