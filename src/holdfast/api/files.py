"""Response bodies for files in a session's workspace."""

from typing import Annotated

import msgspec

from holdfast.api.body import ResponseBody, one_of


def _says(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


class FolderEntry(ResponseBody, frozen=True):
    """A file or folder. Bytes in its name that aren't UTF-8 are shown as numbers."""

    name: str
    kind: Annotated[str, one_of("folder", "file", "other"), _says("For a link, the type of its target.")]
    bytes: int = 0
    changed_ms: Annotated[int, _says("Last modification, in milliseconds of Unix time.")] = 0
    link: bool = False
    ignored: Annotated[bool, _says("Whether it's ignored by git, part of git's own data, or a cache.")] = (
        False
    )
    refused: Annotated[str, _says("Why it can't be opened here.")] = ""


class FolderListing(ResponseBody, frozen=True):
    """A page of a folder: folders first, then by name."""

    path: str
    entries: tuple[FolderEntry, ...]
    entries_total: int
    incomplete: Annotated[bool, _says("Whether the folder has more entries than were counted.")] = False
    next_cursor: str | None = None


class FileStored(ResponseBody, frozen=True):
    """The file is stored."""

    path: str
    bytes: int
    replaced: bool = False
