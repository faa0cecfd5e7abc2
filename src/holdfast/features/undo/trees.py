"""Stored folders: git's tree objects, and what differs between two of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from stat import S_IFDIR, S_IFLNK, S_IFMT, S_IFREG
from typing import Final, TypeAlias

from msgspec import Struct

from holdfast.features.undo.packs import NAME_BYTES, object_name


class Entry(Struct, frozen=True):
    """A file, a link or a folder: its type with its permissions, and the name of its contents."""

    mode: int
    name: bytes

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return S_IFMT(self.mode) == S_IFDIR

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return S_IFMT(self.mode) == S_IFLNK

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return S_IFMT(self.mode) == S_IFREG


Tree: TypeAlias = Mapping[bytes, Entry]
Difference: TypeAlias = tuple[bytes, Entry | None, Entry | None]  # path, before, after

EMPTY_TREE: Final = object_name("tree", b"")
FOLDER_MODE: Final = S_IFDIR


def tree_data(entries: Iterable[tuple[bytes, Entry]]) -> bytes:
    """The tree object with these entries."""
    # Git sorts a folder as if its name ended with a slash.
    ordered = sorted(entries, key=lambda item: item[0] + b"/" if item[1].is_folder else item[0])
    return b"".join(b"%o %s\0%s" % (entry.mode, name, entry.name) for name, entry in ordered)


def parse_tree(data: bytes) -> dict[bytes, Entry]:
    """The entries of a tree object."""
    entries: dict[bytes, Entry] = {}
    at = 0
    while at < len(data):
        space = data.index(b" ", at)
        end = data.index(b"\0", space)
        entries[data[space + 1 : end]] = Entry(int(data[at:space], 8), data[end + 1 : end + 1 + NAME_BYTES])
        at = end + 1 + NAME_BYTES
    return entries


def differences(
    before: bytes, after: bytes, *, read: Callable[[bytes], Tree], prefix: bytes = b""
) -> Iterator[Difference]:
    """The files and links that differ between two trees; folders that are equal are not read."""
    if before == after:
        return
    old, new = read(before), read(after)
    for name in sorted(old.keys() | new.keys()):
        was, now = old.get(name), new.get(name)
        if was == now:
            continue
        path = prefix + name
        was_folder, now_folder = was is not None and was.is_folder, now is not None and now.is_folder
        if was_folder or now_folder:
            inner_before = was.name if was is not None and was_folder else EMPTY_TREE
            inner_after = now.name if now is not None and now_folder else EMPTY_TREE
            yield from differences(inner_before, inner_after, read=read, prefix=path + b"/")
        was, now = None if was_folder else was, None if now_folder else now
        if was is not None or now is not None:
            yield path, was, now
