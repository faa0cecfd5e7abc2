"""The bodies of responses about the files of a session's workspace."""

from typing import Annotated

import msgspec

from holdfast.api.body import ResponseBody, one_of


def _says(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


class FolderEntry(ResponseBody, frozen=True):
    """A file or folder; in its name, a byte that isn't UTF-8 is shown as its number."""

    name: str
    kind: Annotated[str, one_of("folder", "file", "other"), _says("Of a link, what it leads to.")]
    bytes: int = 0
    changed_ms: Annotated[int, _says("When its contents last changed, in milliseconds of Unix time.")] = 0
    link: bool = False
    ignored: Annotated[bool, _says("Whether git ignores it, or it belongs to git or holds a cache.")] = False
    refused: Annotated[str, _says("Why it can't be opened here.")] = ""


class FolderListing(ResponseBody, frozen=True):
    """A page of a folder: folders first, then by name."""

    path: str
    entries: tuple[FolderEntry, ...]
    entries_total: int
    incomplete: Annotated[bool, _says("Whether the folder has more entries than are counted.")] = False
    next_cursor: str | None = None


class FileStored(ResponseBody, frozen=True):
    """The file is on disk."""

    path: str
    bytes: int
    replaced: bool = False
