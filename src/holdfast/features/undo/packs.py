"""Git pack files without deltas: written once, read at random.

Git itself is never run: nothing that a workspace or a user configured for git (filters, hooks, attributes)
can take part, and there is no process to wait for. Git can read the files.

Stored folders: git's tree objects, and what differs between two of them.
"""

import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha1
from pathlib import Path
from stat import S_IFDIR, S_IFLNK, S_IFMT, S_IFREG
from typing import BinaryIO, Final, Literal, TypeAlias

from msgspec import Struct, field

Kind: TypeAlias = Literal["tree", "blob"]

NAME_BYTES: Final = 20
_NUMBERS: Final[dict[Kind, int]] = {"tree": 2, "blob": 3}
_KINDS: Final[dict[int, Kind]] = {number: kind for kind, number in _NUMBERS.items()}
_IDX_MAGIC: Final = b"\xfftOc\x00\x00\x00\x02"
_FANOUT_BYTES: Final = 256 * 4
_NAMES_AT: Final = len(_IDX_MAGIC) + _FANOUT_BYTES
_HEADER_BYTES: Final = 12
_FAR: Final = 0x80000000  # an offset that does not fit in 31 bits is in a table of its own
_READ_BYTES: Final = 64 * 1024
_LEVEL: Final = 1  # of compression: time counts for more than space here


class DamagedPack(Exception):
    """A pack file can't be read; the text says which and why."""


def object_name(kind: Kind, data: bytes) -> bytes:
    """The name that git gives to an object."""
    return sha1(b"%s %d\0" % (kind.encode(), len(data)) + data, usedforsecurity=False).digest()


class Pack:
    """One pack file and its index; the file is opened for each read, because there may be many."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._index = path.with_suffix(".idx").read_bytes()
        if self._index[: len(_IDX_MAGIC)] != _IDX_MAGIC:
            raise DamagedPack(f"{path} has no index that can be read")
        self._fanout = struct.unpack_from(">256I", self._index, len(_IDX_MAGIC))

    @property
    def file_bytes(self) -> int:
        """The size of the file."""
        return self.path.stat().st_size

    def remove(self) -> None:
        """Remove both files; the index first, because a pack without one is invisible."""
        self.path.with_suffix(".idx").unlink()
        self.path.unlink()

    def __len__(self) -> int:
        return self._fanout[255]

    def names(self) -> Iterator[bytes]:
        """The names of all its objects, sorted."""
        for at in range(_NAMES_AT, _NAMES_AT + len(self) * NAME_BYTES, NAME_BYTES):
            yield self._index[at : at + NAME_BYTES]

    def has(self, name: bytes) -> bool:
        """Whether the object is in this pack."""
        return self._find(name) is not None

    def _find(self, name: bytes) -> int | None:
        """The position of the name among the names."""
        low = self._fanout[name[0] - 1] if name[0] else 0
        high = self._fanout[name[0]]
        while low < high:
            middle = (low + high) // 2
            at = _NAMES_AT + middle * NAME_BYTES
            found = self._index[at : at + NAME_BYTES]
            if found == name:
                return middle
            low, high = (middle + 1, high) if found < name else (low, middle)
        return None

    def _offset(self, position: int) -> int:
        offsets_at = _NAMES_AT + len(self) * (NAME_BYTES + 4)
        (offset,) = struct.unpack_from(">I", self._index, offsets_at + 4 * position)
        if not offset & _FAR:
            return int(offset)
        far_at = offsets_at + 4 * len(self) + 8 * (offset & ~_FAR)
        return int(struct.unpack_from(">Q", self._index, far_at)[0])

    def read(self, name: bytes) -> tuple[Kind, bytes] | None:
        """The object, or None if it is not here; raises DamagedPack if it is not what its name says."""
        position = self._find(name)
        if position is None:
            return None
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return self._read(fd, self._offset(position), name)
        finally:
            os.close(fd)

    def _read(self, fd: int, offset: int, name: bytes) -> tuple[Kind, bytes]:
        head = os.pread(fd, 16, offset)
        try:
            number, size, at = (head[0] >> 4) & 7, head[0] & 15, 1
            shift = 4
            while head[at - 1] & 0x80:
                size |= (head[at] & 0x7F) << shift
                shift, at = shift + 7, at + 1
            kind = _KINDS[number]
            data = _inflated(fd, offset + at, size)
        except (IndexError, KeyError, zlib.error) as error:
            raise DamagedPack(f"{self.path} is damaged at byte {offset:,}") from error
        if object_name(kind, data) != name:
            raise DamagedPack(f"{self.path} is damaged at byte {offset:,}")
        return kind, data


def _inflated(fd: int, offset: int, size: int) -> bytes:
    stream = zlib.decompressobj()
    pieces: list[bytes] = []
    left = size + 1  # one more, to notice an object that is longer than it says
    while not stream.eof and left > 0:
        raw = os.pread(fd, _READ_BYTES, offset)
        if not raw:
            break
        offset += len(raw)
        piece = stream.decompress(raw, left)
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


class PackWriter(Struct):
    """Collects objects in a temporary file; `finish` makes a pack of it, and nothing is kept without that."""

    folder: Path
    temporary: Path
    _file: BinaryIO
    _entries: dict[bytes, tuple[int, int]] = field(default_factory=dict[bytes, tuple[int, int]])
    bytes_written: int = _HEADER_BYTES

    @classmethod
    def begin(cls, folder: Path, label: str) -> "PackWriter":
        """A new one; `label` tells its temporary file from others."""
        temporary = folder / f"tmp_{label}.pack"
        file = temporary.open("w+b")
        file.write(b"PACK" + struct.pack(">II", 2, 0))
        return cls(folder, temporary, file)

    def __contains__(self, name: bytes) -> bool:
        return name in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, kind: Kind, data: bytes) -> bytes:
        """Add an object, once; returns its name."""
        name = object_name(kind, data)
        if name not in self._entries:
            size, number = len(data), _NUMBERS[kind]
            byte, size = (number << 4) | (size & 15), size >> 4
            head = bytearray()
            while size:
                head.append(byte | 0x80)
                byte, size = size & 0x7F, size >> 7
            head.append(byte)
            raw = bytes(head) + zlib.compress(data, _LEVEL)
            self._file.write(raw)
            self._entries[name] = (self.bytes_written, zlib.crc32(raw))
            self.bytes_written += len(raw)
        return name

    def finish(self) -> Path:
        """Write the rest, bring it to the disk, and give both files their names."""
        self._file.seek(8)
        self._file.write(struct.pack(">I", len(self._entries)))
        self._file.seek(0)
        digest = sha1(usedforsecurity=False)
        while piece := self._file.read(1024 * 1024):
            digest.update(piece)
        checksum = digest.digest()
        self._file.write(checksum)
        _sync_and_close(self._file)
        # Named after its objects, as git does: the same objects make the same pack.
        final = (
            self.folder
            / f"pack-{sha1(b''.join(sorted(self._entries)), usedforsecurity=False).hexdigest()}.pack"
        )
        index = self.temporary.with_suffix(".idx")
        with index.open("wb") as file:
            file.write(self._index(checksum))
            file.flush()
            os.fsync(file.fileno())
        # A pack without an index is invisible, so the index gets its name last.
        self.temporary.replace(final)
        index.replace(final.with_suffix(".idx"))
        sync_folder(self.folder)
        return final

    def _index(self, checksum: bytes) -> bytes:
        names = sorted(self._entries)
        counts = [0] * 256
        for name in names:
            counts[name[0]] += 1
        fanout, total = bytearray(), 0
        for count in counts:
            total += count
            fanout += struct.pack(">I", total)
        crcs = b"".join(struct.pack(">I", self._entries[name][1]) for name in names)
        offsets, far = bytearray(), bytearray()
        for name in names:
            offset = self._entries[name][0]
            if offset < _FAR:
                offsets += struct.pack(">I", offset)
            else:
                offsets += struct.pack(">I", _FAR | (len(far) // 8))
                far += struct.pack(">Q", offset)
        index = b"".join([_IDX_MAGIC, fanout, b"".join(names), crcs, offsets, far, checksum])
        return index + sha1(index, usedforsecurity=False).digest()

    def abandon(self) -> None:
        """Keep nothing; does nothing after `finish`."""
        self._file.close()
        self.temporary.unlink(missing_ok=True)
        self.temporary.with_suffix(".idx").unlink(missing_ok=True)


def _sync_and_close(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()


def sync_folder(folder: Path) -> None:
    """Bring names that were made or removed in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
