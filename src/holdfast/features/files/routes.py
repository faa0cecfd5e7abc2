"""The routes about the files of a session's workspace."""

import asyncio
import errno
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from pathlib import Path
from threading import Event
from typing import Final, TypeVar
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from holdfast.features.files.bodies import FileStored
from holdfast.features.files.downloads import (
    PIECE_BYTES,
    FileResponse,
    OpenedFile,
    headers_of,
    open_file,
    range_in,
)
from holdfast.features.files.folders import PAGE_MAX, BadCursor, PageRequest, folder_page
from holdfast.features.files.paths import (
    SecretRefused,
    display_name,
    insist_on_file,
    normal_path,
    public_spot,
)
from holdfast.policy.autorun_files import is_autorun
from holdfast.safe_text import shown_path
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import Problem, bad_request
from holdfast.server.sessions.sessions import session_of
from holdfast.server.transport.bodies import flag, has_already, json_response, read_body, whole_number
from holdfast.tools.files.contents import ChangedMeanwhile, Stamp, replace_whole
from holdfast.tools.files.workspace import PathMissing, PathRefused, Workspace
from holdfast.tools.offload import offload

T = TypeVar("T")

_UNKNOWN: Final = "\N{REPLACEMENT CHARACTER}"
_DISK_S: Final = 20.0
_LISTINGS_MAX: Final = 2  # at once: sorting the names of huge folders would leave no time for anything else
_FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_NO_PLACE: Final = frozenset((errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EINVAL))


class AlreadyThere(PathRefused):
    """There is a file of this name."""


class ProtectedRefused(PathRefused):
    """Other programs would load or run the file automatically."""


class FileRoutes:
    """The routes under /api/sessions/{session_id}/files."""

    def __init__(self, parts: RouteParts) -> None:
        self._deps = parts.deps
        self._listings = asyncio.Semaphore(_LISTINGS_MAX)

    async def list(self, request: Request) -> Response:
        """GET /api/sessions/{session_id}/files."""
        if (elsewhere := await self._elsewhere(request)) is not None:
            return elsewhere
        workspace, query = await self._workspace(request), request.query_params
        page_request = PageRequest(
            _text(request, "path"),
            query.get("cursor", ""),
            whole_number(request, "limit", default=500, most=PAGE_MAX),
        )
        give_up = Event()
        try:
            work = partial(folder_page, workspace, page_request, give_up=give_up)
            page = await _within(work, give_up=give_up, slots=self._listings)
        except BadCursor as error:
            raise bad_request(
                "'cursor' is invalid; use next_cursor from the previous page of this folder", param="cursor"
            ) from error
        return json_response(page)

    async def read(self, request: Request) -> Response:
        """GET /api/sessions/{session_id}/files/content."""
        if (elsewhere := await self._elsewhere(request)) is not None:
            return elsewhere
        workspace, path = await self._workspace(request), _path(request)
        opened = await _within(partial(open_file, workspace, path), undo=OpenedFile.close)
        try:
            response = await self._response(request, opened)
        except BaseException:
            opened.close()
            raise
        if not isinstance(response, FileResponse):
            opened.close()
        return response

    async def _response(self, request: Request, opened: OpenedFile) -> Response:
        headers = headers_of(opened, as_download=flag(request, "download"))
        if has_already(request, opened.etag):
            return Response(None, 304, {"ETag": opened.etag})
        part, status = (0, opened.size), 200
        asked = range_in(request.headers.get("range", ""), opened.size)
        if asked is not None and request.headers.get("if-range", opened.etag) == opened.etag:
            begin, end = asked
            if begin == end:
                raise Problem(
                    416,
                    f"Range not satisfiable: the file has {opened.size} bytes",
                    code="no_such_range",
                    param="Range",
                    headers={"Content-Range": f"bytes */{opened.size}"},
                )
            part, status = asked, 206
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{opened.size}"
        begin, end = part
        redactor = self._deps.redactor
        if request.method == "HEAD":
            return Response(None, status, {**headers, "Content-Length": str(end - begin)})
        if end - begin <= PIECE_BYTES:
            # A short one is read before it is promised, so a file that is just being written is no error.
            data = await _within(partial(opened.read, begin, end, redactor=redactor))
            return Response(data, status, headers)
        return FileResponse(opened, part, status=status, headers=headers, redactor=redactor)

    async def write(self, request: Request) -> Response:
        """PUT /api/sessions/{session_id}/files/content."""
        workspace, path = await self._workspace(request), _path(request)
        overwrite = flag(request, "overwrite")
        limits = self._deps.limits
        data = await read_body(request, limits, bytes_max=limits.blob_bytes_max)
        if (elsewhere := await self._elsewhere(request, data)) is not None:
            return elsewhere
        stored = await _within(partial(store_file, workspace, path, data, overwrite=overwrite))
        return json_response(stored, 200 if stored.replaced else 201)

    async def _elsewhere(self, request: Request, body: bytes = b"") -> Response | None:
        """The answer of the server that has the session's files, if that is another one."""
        session_id = (await session_of(self._deps, request)).row.session_id
        return await self._deps.peers.elsewhere(request, session_id, body)

    async def _workspace(self, request: Request) -> Workspace:
        agent = self._deps.agent
        row = (await session_of(self._deps, request)).row
        folder = await self._deps.workspaces.of_session(row)
        return agent.workspaces(Path(folder or agent.workspace))


async def _within(
    work: Callable[[], T],
    *,
    give_up: Event | None = None,
    undo: Callable[[T], None] | None = None,
    slots: AbstractAsyncContextManager[None] | None = None,
) -> T:
    """The result of work with files; raises a Problem if it is refused or the disk doesn't answer."""
    try:
        async with asyncio.timeout(_DISK_S), slots or nullcontext():
            return await offload(work, linger_s=0.0, give_up=give_up, undo=undo)
    except TimeoutError:
        text = f"The disk didn't respond within {_DISK_S:g} s. Try again"
        raise Problem(503, text, code="disk_slow", headers={"Retry-After": "5"}) from None
    except PathRefused as refused:
        raise _problem(refused) from refused
    except OSError as error:
        raise _of_disk(error) from error


def store_file(workspace: Workspace, path: str, data: bytes, *, overwrite: bool) -> FileStored:
    """Write the file; it is on disk when this returns. Raises PathRefused. Blocks."""
    path = normal_path(path)
    if not path or path.rpartition("/")[2] == "..":
        raise PathRefused("Enter a file name.")
    with public_spot(workspace, path) as spot:
        if is_autorun(path) or is_autorun(spot.inside):
            raise ProtectedRefused(
                f"{display_name(path)} is protected: other programs load or run it automatically. Copy it "
                "there yourself."
            )
        was = None
        if spot.look() is not None:
            found = insist_on_file(spot, path)
            if not overwrite:
                raise AlreadyThere(f"{display_name(path)} already exists.")
            was = Stamp(found.st_mtime_ns, found.st_size, "")
        replace_whole(spot, data, was=was)
        os.fsync(spot.folder_fd)
    return FileStored(path=path, bytes=len(data), replaced=was is not None)


def _of_disk(error: OSError) -> Problem:
    if error.errno in _FULL:
        text = "The disk is full, so nothing was written. Free some space and try again"
        return Problem(507, text, code="disk_full")
    return Problem(409, f"The file can't be used: {error.strerror}", code="file_unusable")


def _text(request: Request, name: str) -> str:
    """A text of the query; raises a Problem if it isn't UTF-8, which would name another file."""
    given = request.query_params.get(name, "")
    if _UNKNOWN in given and _UNKNOWN not in unquote(request.url.query, errors="ignore"):
        raise bad_request(f"'{name}' isn't valid UTF-8", param=name)
    return given


def _path(request: Request) -> str:
    path = normal_path(_text(request, "path"))
    if not path:
        raise bad_request("'path' is required: the path of a file in the workspace", param="path")
    return path


def _problem(refused: PathRefused) -> Problem:
    text = shown_path(os.fsencode(str(refused)))  # a link may lead to a name that isn't text
    cause = refused.__cause__
    if isinstance(cause, OSError) and cause.errno not in _NO_PLACE:
        return _of_disk(cause)
    match refused:
        case PathMissing():
            return Problem(404, text, code="file_not_found", param="path")
        case SecretRefused():
            return Problem(403, text, code="file_secret", param="path")
        case ProtectedRefused():
            return Problem(403, text, code="file_protected", param="path")
        case AlreadyThere() | ChangedMeanwhile():
            return Problem(409, text, code="file_exists", param="path")
        case _:
            return Problem(400, text, code="path_refused", param="path")
