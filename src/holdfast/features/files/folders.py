"""One page of a folder of a workspace, whatever the folder's size: folders first, then by name. Blocks."""

import os
import stat
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Iterator
from heapq import nsmallest
from threading import Event
from typing import Final, TypeAlias

from msgspec import Struct

from holdfast.features.files.bodies import FolderEntry, FolderListing
from holdfast.features.files.paths import (
    NAME_NOT_TEXT,
    NO_FILE,
    NOT_SHOWN,
    SecretRefused,
    is_secret_path,
    joined,
    normal_path,
    parent_of,
    public_spot,
)
from holdfast.safe_text import shown_path
from holdfast.tools.files.globs import NOT_LISTED
from holdfast.tools.files.ignore_rules import IgnoreRules, parse_rules
from holdfast.tools.files.workspace import Folder, PathRefused, Workspace

PAGE_MAX: Final = 2_000
NAMES_MAX: Final = 1_000_000  # of one folder; further ones are not counted
_IGNORE_FILE_BYTES_MAX: Final = 256 * 1024
_LOOK_EVERY: Final = 1_000

_Key: TypeAlias = tuple[bytes, bytes, bytes]  # folder or not, the name without capitals, the name
_BEFORE_ALL: Final = (b"", b"", b"")


class BadCursor(Exception):
    """An invalid cursor."""


class PageRequest(Struct, frozen=True):
    """A request for a page of a folder."""

    path: str = ""
    cursor: str = ""
    limit: int = 500


def folder_page(workspace: Workspace, request: PageRequest, *, give_up: Event) -> FolderListing:
    """A page of a folder; raises PathRefused or BadCursor."""
    after = _decoded(request.cursor)
    path = normal_path(request.path)
    with public_spot(workspace, path), workspace.folder(path) as folder:
        names = _Names(folder.fd, after, give_up)
        page = nsmallest(request.limit + 1, names)
        ignored = _Ignored.at(workspace, path)
        shown_keys = page[: request.limit]
        listed = tuple(_entry(workspace, path, folder, key=key, ignored=ignored) for key in shown_keys)
    return FolderListing(
        path=path,
        entries=listed,
        entries_total=names.count,
        incomplete=names.count >= NAMES_MAX,
        next_cursor=_encoded(shown_keys[-1]) if len(page) > request.limit else None,
    )


class _Names:
    """The entries of a folder that come after a cursor; counts all of them on the way."""

    def __init__(self, fd: int, after: _Key, give_up: Event) -> None:
        self._fd = fd
        self._after = after
        self._give_up = give_up
        self.count = 0

    def __iter__(self) -> Iterator[_Key]:
        with os.scandir(self._fd) as entries:
            for entry in entries:
                if self.count % _LOOK_EVERY == 0 and self._give_up.is_set():
                    raise PathRefused("Stopped.")
                if self.count >= NAMES_MAX:
                    return
                self.count += 1
                key = _key(os.fsencode(entry.name), is_folder=_is_folder(entry))
                if key > self._after:
                    yield key


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _key(name: bytes, *, is_folder: bool) -> _Key:
    return (b"d" if is_folder else b"f", name.lower(), name)


def _encoded(key: _Key) -> str:
    return urlsafe_b64encode(key[0] + key[2]).decode()


def _decoded(cursor: str) -> _Key:
    if not cursor:
        return _BEFORE_ALL
    try:
        data = urlsafe_b64decode(cursor.encode("ascii"))
    except (NotBase64, ValueError) as error:
        raise BadCursor(cursor) from error
    if data[:1] not in {b"d", b"f"}:
        raise BadCursor(cursor)
    return _key(data[1:], is_folder=data[:1] == b"d")


def _entry(workspace: Workspace, path: str, folder: Folder, *, key: _Key, ignored: "_Ignored") -> FolderEntry:
    raw = key[2]
    name = os.fsdecode(raw)
    is_text = shown_path(raw) == name
    try:
        found = os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
    except OSError:
        return FolderEntry(name=shown_path(raw), kind="other", refused="Missing or unreadable.")
    refused = "" if is_text else NAME_NOT_TEXT
    is_link = stat.S_ISLNK(found.st_mode)
    if is_link:
        target, why = _behind(workspace, joined(path, name))
        found, refused = target or found, refused or why
    elif is_secret_path(folder.real, name):
        refused = NOT_SHOWN
    elif name in folder.kept_out:
        refused = "This belongs to Holdfast."
    kind = "folder" if stat.S_ISDIR(found.st_mode) else "file" if stat.S_ISREG(found.st_mode) else "other"
    return FolderEntry(
        name=shown_path(raw),
        kind=kind,
        bytes=found.st_size if kind == "file" else 0,
        changed_ms=found.st_mtime_ns // 1_000_000,
        link=is_link,
        ignored=ignored.covers(name, is_folder=kind == "folder" and not is_link),
        refused=refused or (NO_FILE if kind == "other" else ""),
    )


def _behind(workspace: Workspace, path: str) -> tuple[os.stat_result | None, str]:
    """Return the status of a link's target, and why it can't be opened."""
    try:
        with public_spot(workspace, path) as spot:
            found = spot.look()
            return found, "" if found is not None else "Broken link."
    except SecretRefused:
        return None, NOT_SHOWN
    except PathRefused:
        return None, "This link is broken or leads out of the workspace."


class _Ignored(Struct, frozen=True):
    """The rules for the entries of one folder."""

    path: str
    rules: tuple[tuple[int, IgnoreRules], ...]  # where the path below the rules' folder begins
    all_of_it: bool

    @classmethod
    def at(cls, workspace: Workspace, path: str) -> "_Ignored":
        """The rules that git would read for this folder."""
        rules: list[tuple[int, IgnoreRules]] = []
        if text := _small_text(workspace, ".git/info/exclude"):
            rules.append((0, parse_rules(text)))
        if text := _small_text(workspace, ".gitignore"):
            rules.append((0, parse_rules(text)))
        all_of_it = False
        parts = path.split("/") if path else []
        for depth, _ in enumerate(parts, 1):
            folder = "/".join(parts[:depth])
            above = cls(parent_of(folder), tuple(rules), all_of_it)
            all_of_it = above.covers(parts[depth - 1], is_folder=True)
            if text := _small_text(workspace, f"{folder}/.gitignore"):
                rules.append((len(folder) + 1, parse_rules(text)))
        return cls(path, tuple(rules), all_of_it)

    def covers(self, name: str, *, is_folder: bool) -> bool:
        """Whether an entry of the folder is ignored."""
        if self.all_of_it or name in NOT_LISTED:
            return True
        inside = joined(self.path, name)
        for start, one in reversed(self.rules):
            if (verdict := one.verdict(inside[start:], is_folder=is_folder)) is not None:
                return verdict
        return False


def _small_text(workspace: Workspace, path: str) -> str:
    """The beginning of a file of rules; empty if there is none, or none that may be read."""
    try:
        with workspace.spot(path) as spot:
            descriptor = spot.open_file()
            try:
                return os.read(descriptor, _IGNORE_FILE_BYTES_MAX).decode("utf-8", "surrogateescape")
            finally:
                os.close(descriptor)
    except (PathRefused, OSError):
        return ""
