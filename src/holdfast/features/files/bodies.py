"""The operations on files of a session's workspace, and their bodies."""

from typing import Annotated

from holdfast.api.body import ResponseBody, doc, one_of
from holdfast.api.operation import Operation


class FolderEntry(ResponseBody, frozen=True):
    """A file or folder. Bytes in its name that aren't UTF-8 are shown as numbers."""

    name: str
    kind: Annotated[str, one_of("folder", "file", "other"), doc("For a link, the type of its target.")]
    bytes: int = 0
    changed_ms: Annotated[int, doc("Last modification, in milliseconds of Unix time.")] = 0
    link: bool = False
    ignored: Annotated[bool, doc("Whether it's ignored by git, part of git's own data, or a cache.")] = False
    refused: Annotated[str, doc("Why it can't be opened here.")] = ""


class FolderListing(ResponseBody, frozen=True):
    """A page of a folder: folders first, then by name."""

    path: str
    entries: tuple[FolderEntry, ...]
    entries_total: int
    incomplete: Annotated[bool, doc("Whether the folder has more entries than were counted.")] = False
    next_cursor: str | None = None


class FileStored(ResponseBody, frozen=True):
    """The file is stored."""

    path: str
    bytes: int
    replaced: bool = False


_FILES = "/api/sessions/{session_id}/files"
_SLOW = "disk_slow, store_unavailable, store_overloaded, shutting_down"
_FILE = {
    "text/plain": None,
    "image/png": None,
    "image/jpeg": None,
    "image/gif": None,
    "image/webp": None,
    "application/pdf": None,
    "application/octet-stream": None,
}

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET",
        _FILES,
        "files.list",
        tag="Sessions",
        summary="List a folder in the session's workspace.",
        responses={200: FolderListing},
        errors={
            400: "invalid_request, path_refused",
            403: "workspace_not_allowed, file_secret",
            404: "session_not_found, file_not_found",
            409: "file_unusable, workspace_moved",
            503: _SLOW,
        },
        query={
            "path": "The folder, relative to the workspace. Default: the workspace itself.",
            "limit": "Page size, up to 2000.",
            "cursor": "`next_cursor` of the previous page.",
        },
    ),
    Operation(
        "GET",
        _FILES + "/content",
        "files.read",
        tag="Sessions",
        summary=(
            "Read a file. Its type is detected from its content: images, PDFs and UTF-8 text are shown; "
            "anything else is a download. Known secrets are replaced with asterisks. `X-Holdfast-Bytes` is "
            "the size of the whole file."
        ),
        by_ticket=True,
        responses={200: _FILE, 206: _FILE},
        errors={
            400: "invalid_request, path_refused",
            403: "workspace_not_allowed, file_secret",
            404: "session_not_found, file_not_found",
            409: "file_unusable, workspace_moved",
            416: "no_such_range",
            503: _SLOW,
        },
        required=frozenset({"path"}),
        query={
            "path": "The file, relative to the workspace.",
            "download": "true makes browsers save the file instead of showing it.",
        },
        headers={"Range": "Part of the file, such as `bytes=0-65535`."},
    ),
    Operation(
        "PUT",
        _FILES + "/content",
        "files.write",
        tag="Sessions",
        any_workspace="It checks the folder that it writes to.",
        summary=(
            "Upload a file to the workspace, atomically. Files that contain secrets, or that other "
            "programs load or run automatically, are refused."
        ),
        scopes=("approve",),
        raw_request="application/octet-stream",
        responses={200: FileStored, 201: FileStored},
        errors={
            400: "invalid_request, path_refused, body_cut_off",
            403: "workspace_not_allowed, file_secret, file_protected",
            404: "session_not_found, file_not_found",
            409: "file_exists, file_unusable, workspace_moved",
            503: _SLOW,
            507: "disk_full",
        },
        required=frozenset({"path"}),
        query={
            "path": "The file, relative to the workspace. Its folder must exist.",
            "overwrite": "true replaces an existing file.",
        },
        needs_request=True,
    ),
)
