"""Blobs as files named by the SHA-256 of their bytes.

A blob is on disk before its name is returned. Every method blocks on the disk, so call none of them on the
event loop's thread.
"""

import errno
import hashlib
import math
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.interfaces.journal import StoreDamaged, StoreFailed, StoreFull, StoreReadOnly
from holdfast.journal.safe_files import sync_folder, write_whole
from holdfast.journal.sqlite.connection import OUT_OF_FILES

_NAME = re.compile(r"[0-9a-f]{64}\Z")
_UNFINISHED = re.compile(r"\.[0-9a-f]{64}\.[0-9a-f]{8}\Z")
_FULL = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}


class FileBlobs:
    """A directory of blobs, with a subdirectory for each first two letters of a name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Put or kept more often than events on disk name them, so an event is still to come. No purge removes
        # these.
        self._to_be_named: Counter[str] = Counter()
        # Uploaded more often than kept: an event may name these later.
        self._offered: Counter[str] = Counter()
        self._going = threading.Lock()

    def put(self, data: bytes) -> str:
        """Store the bytes for an event that is about to name them; return their name."""
        return self._put(data, self._to_be_named)

    def offer(self, data: bytes) -> str:
        """Store the bytes for an event that may name them later; return their name."""
        return self._put(data, self._offered)

    def _put(self, data: bytes, promises: Counter[str]) -> str:
        name = hashlib.sha256(data).hexdigest()
        path = self._path(name)
        with _disk_errors_named(path):
            with self._going:
                promises[name] += 1
                is_there = _holds(path, name)
                if is_there:
                    # Touched, so that a sweep doesn't remove it before its event is written.
                    os.utime(path)
            if not is_there:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_whole(path, data)
            # Even if the file exists: the process that wrote it may have died before its own sync.
            for folder in (path.parent, self._folder, self._folder.parent):
                sync_folder(folder)
        return name

    def keep(self, name: str) -> bool:
        """Reserve a stored blob for an event that is about to name it; False if it isn't stored."""
        if not _NAME.match(name):
            return False
        path = self._path(name)
        with _disk_errors_named(path), self._going:
            if not _holds(path, name):
                return False
            self._to_be_named[name] += 1
            self._offered -= Counter((name,))
            os.utime(path)
        return True

    def get(self, name: str) -> bytes | None:
        """The bytes, or None if there is no such blob; raises StoreDamaged if they don't match the name."""
        if not _NAME.match(name):
            return None
        path = self._path(name)
        with _disk_errors_named(path):
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                return None
        if hashlib.sha256(data).hexdigest() != name:
            raise StoreDamaged(
                f"integrity check failed at blob {name}: its bytes are not the ones written; restore "
                f"{path} from a backup"
            )
        return data

    def bytes_of(self, names: Iterable[str]) -> int:
        """How many bytes these blobs have together; a missing one has none."""
        found = 0
        for name in names:
            with suppress(FileNotFoundError), _disk_errors_named(path := self._path(name)):
                found += path.stat().st_size
        return found

    def named(self, names: Iterable[str]) -> None:
        """Record that events that name these blobs are on disk."""
        with self._going:
            # Subtracting counters keeps only positive counts.
            self._to_be_named -= Counter(names)

    def drop(self, name: str, is_named: Callable[[str], bool]) -> bool:
        """Remove a blob unless an event names it or an event is still to come."""
        if not _NAME.match(name):
            return False
        with self._going:
            if name in self._to_be_named or name in self._offered or is_named(name):
                return False
            self._path(name).unlink(missing_ok=True)
        return True

    def untouched_since(self, unix_s: float) -> list[str]:
        """Names of blobs not put since then; also removes unfinished files that a crash left before then."""
        names: list[str] = []
        with _disk_errors_named(self._folder / "any"):
            for file in self._folder.glob("??/*"):
                if _touched_unix_s(file) >= unix_s:
                    continue
                if _UNFINISHED.match(file.name):
                    file.unlink(missing_ok=True)
                elif _NAME.match(file.name):
                    names.append(file.name)
        return names

    def drop_untouched(self, name: str, since_unix_s: float, *, is_named: Callable[[str], bool]) -> bool:
        """Remove a blob that was not put since then and that no event names."""
        path = self._path(name)
        with _disk_errors_named(path), self._going:
            if _touched_unix_s(path) >= since_unix_s or is_named(name):
                return False
            self._to_be_named.pop(name, None)
            self._offered.pop(name, None)
            path.unlink(missing_ok=True)
        return True

    def _path(self, name: str) -> Path:
        return self._folder / name[:2] / name


def _holds(path: Path, name: str) -> bool:
    """Whether the file exists and its bytes match its name; another program may have truncated it."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == name
    except FileNotFoundError:
        return False


def _touched_unix_s(file: Path) -> float:
    """When the blob was last put; a file that no longer exists counts as new."""
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return math.inf


@contextmanager
def _disk_errors_named(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StoreFull(
                f"no room left for a blob in {path.parent}: free some space; nothing was lost"
            ) from error
        if error.errno in OUT_OF_FILES:
            raise StoreFailed(
                f"cannot open {path}: {error.strerror} (ulimit -n); nothing was accepted"
            ) from error
        if error.errno in _READ_ONLY:
            raise StoreReadOnly(
                f"cannot write {path.parent} ({error.strerror}): check that this user may write to it "
                "and that the disk is not mounted read-only"
            ) from error
        raise StoreFailed(
            f"the disk failed at {path} ({error.strerror}): check the disk; nothing was accepted"
        ) from error
