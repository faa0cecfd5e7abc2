"""A file of a workspace as bytes, whole or in part, with a media type that is ours to decide.

A file is what its first bytes say, never what its name says. A browser shows texts as plain text, and
pictures and PDFs, which cannot hold a script of ours; all else is a download.
"""

import os
import re
import threading
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from io import BufferedReader
from typing import Final
from urllib.parse import quote

from msgspec import Struct
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from holdfast.features.files.paths import insist_on_file, public_spot
from holdfast.redaction import Redactor
from holdfast.tools.files.workspace import Workspace
from holdfast.tools.offload import offload

TEXT: Final = "text/plain; charset=utf-8"
PDF: Final = "application/pdf"
BYTES: Final = "application/octet-stream"
PIECE_BYTES: Final = 1024 * 1024
_LOOK_BYTES: Final = 8_000
_SIGNATURES: Final = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "image/webp"),
    (re.compile(rb"%PDF-"), PDF),
)
_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
# Nothing in a file may load or run anything, wherever a browser shows it.
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'"
# A browser's PDF viewer needs its own scripts, which a sandbox can block. Only the page can embed it.
_PDF_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"


def media_type_of(beginning: bytes) -> str:
    """Return the media type of a file from its first bytes."""
    for signature, kind in _SIGNATURES:
        if signature.match(beginning):
            return kind
    if b"\0" in beginning:
        return BYTES
    try:
        beginning.decode()
    except UnicodeDecodeError as error:
        # The last character may be cut off.
        is_cut = error.end == len(beginning) >= _LOOK_BYTES and error.start >= len(beginning) - 3
        return TEXT if is_cut else BYTES
    return TEXT


class OpenedFile(Struct, frozen=True):
    """An open file and what it was when it was opened."""

    file: BufferedReader
    name: str
    size: int
    media_type: str
    etag: str

    def close(self) -> None:
        """Close it after any pending read in a thread, without waiting for that."""
        threading.Thread(target=self.file.close, name="holdfast-close", daemon=True).start()

    def read(self, begin: int, end: int, *, redactor: Redactor) -> bytes:
        """The bytes from `begin` to `end`, with asterisks in place of secrets. Blocks."""
        margin = max((len(text.encode()) for text in redactor.texts), default=1) - 1
        start = max(0, begin - margin)
        self.file.seek(start)
        data = self.file.read(end + margin - start)
        for text in redactor.texts:
            secret = text.encode()
            data = data.replace(secret, b"*" * len(secret))
        return data[begin - start : end - start]


def open_file(workspace: Workspace, path: str) -> OpenedFile:
    """Open a file as tools do; raises PathRefused. Blocks."""
    with public_spot(workspace, path) as spot:
        insist_on_file(spot, path)
        file = os.fdopen(spot.open_file(), "rb")
        found = os.fstat(file.fileno())
    try:
        beginning = file.read(_LOOK_BYTES)
    except OSError:
        file.close()
        raise
    etag = f'"{found.st_ino:x}-{found.st_size:x}-{found.st_mtime_ns:x}"'
    name = path.rpartition("/")[2]
    return OpenedFile(file, name, found.st_size, media_type_of(beginning), etag)


def range_in(header: str, size: int) -> tuple[int, int] | None:
    """The part that a Range header asks for as (begin, end); None if it asks for none that we know.

    A part that the file doesn't have is (size, size).
    """
    found = _RANGE.fullmatch(header.replace(" ", ""))
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        return max(0, size - int(found[2])), size
    begin = int(found[1])
    end = min(size, int(found[2]) + 1) if found[2] else size
    if found[2] and int(found[2]) < begin:
        return None
    return (begin, end) if begin < size else (size, size)


def headers_of(opened: OpenedFile, *, as_download: bool) -> dict[str, str]:
    """The headers that say what the bytes are, and what a browser may do with them."""
    is_pdf = opened.media_type == PDF
    is_shown = not as_download and opened.media_type != BYTES
    name = quote(opened.name, safe="", errors="replace")
    headers = {
        "Content-Type": opened.media_type,
        "Content-Disposition": f"{'inline' if is_shown else 'attachment'}; filename*=UTF-8''{name}",
        "Content-Security-Policy": _PDF_POLICY if is_pdf and is_shown else _POLICY,
        "Cache-Control": "private, no-cache",
        "ETag": opened.etag,
        "X-Holdfast-Bytes": str(opened.size),
    }
    return {**headers, "X-Frame-Options": "SAMEORIGIN"} if is_pdf and is_shown else headers


class FileResponse(StreamingResponse):
    """Bytes of an open file, which is closed however the response ends."""

    def __init__(
        self,
        opened: OpenedFile,
        part: tuple[int, int],
        *,
        status: int,
        headers: Mapping[str, str],
        redactor: Redactor,
    ) -> None:
        begin, end = part
        length = {"Content-Length": str(end - begin)}
        super().__init__(_pieces(opened, part, redactor), status, {**headers, **length})
        self._opened = opened

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._opened.close()


async def _pieces(opened: OpenedFile, part: tuple[int, int], redactor: Redactor) -> AsyncGenerator[bytes]:
    at, end = part
    while at < end:
        piece = await offload(partial(opened.read, at, min(end, at + PIECE_BYTES), redactor=redactor))
        if not piece:
            raise OSError(f"{opened.name} became shorter while it was sent")
        yield piece
        at += len(piece)
