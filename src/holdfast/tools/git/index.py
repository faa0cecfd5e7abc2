"""The submodules that a repository's index names, read without git."""

import os
import struct
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from holdfast.tools.files.regular_files import read_regular

INDEX_BYTES_MAX = 256 * 1024 * 1024
NAMES_MAX = 10_000
SHARED_MAX = 8
_LINK_MODE = 0o160000
_LINK_BYTES = struct.pack(">I", _LINK_MODE)
_KINDS = frozenset((0o100000, 0o120000, 0o160000, 0o040000))
_HEADER_BYTES = 12
_FIXED_BYTES = 40  # times, device, inode, mode, owner and size of an entry
_EXTENDED = 0x4000
_LONG_NAME = 0xFFF
_HASH_BYTES = (20, 32)


class BadIndex(ValueError):
    """An index that cannot be read here; the text says why."""


def submodules_of(git_dir: Path) -> tuple[str, ...]:
    """The paths of submodules; raises BadIndex or OSError."""
    found: list[str] = []
    for file in (git_dir / "index", *_shared(git_dir)):
        try:
            data = read_regular(file, bytes_max=INDEX_BYTES_MAX)
        except FileNotFoundError:
            continue
        # Most repositories have no submodule, and then these bytes are hardly ever there.
        if _LINK_BYTES in data:
            found += _links(data)
    return tuple(dict.fromkeys(found))


def _shared(git_dir: Path) -> list[Path]:
    """The shared parts of a split index."""
    with os.scandir(git_dir) as entries:
        names = [entry.name for entry in islice(entries, NAMES_MAX + 1)]
    shared = [git_dir / name for name in names if name.startswith("sharedindex.")]
    if len(names) > NAMES_MAX or len(shared) > SHARED_MAX:
        raise BadIndex("there are too many files beside it")
    return shared


def _links(data: bytes) -> list[str]:
    """The submodules among the entries, for either length of object names."""
    if data[:4] != b"DIRC" or len(data) < _HEADER_BYTES:
        raise BadIndex("it does not begin like an index")
    found: list[str] = []
    problems: list[str] = []
    for hash_bytes in _HASH_BYTES:
        try:
            found += list(_Entries(data, hash_bytes).links())
        except (BadIndex, struct.error, IndexError) as error:
            problems.append(str(error))
    if len(problems) == len(_HASH_BYTES):
        raise BadIndex(problems[0])
    return found


class _Entries:
    """Goes through the entries once; `at` is the next byte."""

    def __init__(self, data: bytes, hash_bytes: int) -> None:
        self._data = data
        self._before_flags = _FIXED_BYTES + hash_bytes
        self._at = _HEADER_BYTES
        self._path = b""

    def links(self) -> Iterator[str]:
        version, entries = struct.unpack_from(">II", self._data, 4)
        if version not in {2, 3, 4}:
            raise BadIndex(f"its version is {version}")
        for _ in range(entries):
            (mode,) = struct.unpack_from(">I", self._data, self._at + 24)
            if mode & 0o170000 not in _KINDS:
                raise BadIndex("an entry has an unknown type")
            if version == 4:  # noqa: PLR2004 - names are told by what differs from the one before
                self._shared_name()
            else:
                self._padded_name()
            if mode == _LINK_MODE:
                if not self._path:
                    raise BadIndex("a submodule has no name")
                yield self._path.decode("utf-8", "surrogateescape")

    def _flags(self) -> int:
        """The flags of the entry; moves on to its name."""
        (flags,) = struct.unpack_from(">H", self._data, self._at + self._before_flags)
        self._at += self._before_flags + (4 if flags & _EXTENDED else 2)
        return int(flags)

    def _padded_name(self) -> None:
        start = self._at
        told = self._flags() & _LONG_NAME
        end = self._data.find(b"\0", self._at)
        if end < 0 or (told < _LONG_NAME and end - self._at != told):
            raise BadIndex("a name's length is wrong")
        self._path = self._data[self._at : end]
        self._at = start + (end - start + 8) // 8 * 8

    def _shared_name(self) -> None:
        self._flags()
        byte = self._data[self._at]
        cut = byte & 127
        while byte & 128:
            self._at += 1
            byte = self._data[self._at]
            cut = ((cut + 1) << 7) | (byte & 127)
        end = self._data.find(b"\0", self._at + 1)
        if end < 0 or cut > len(self._path):
            raise BadIndex("a name has no end, or no beginning")
        self._path = self._path[: len(self._path) - cut] + self._data[self._at + 1 : end]
        self._at = end + 1
