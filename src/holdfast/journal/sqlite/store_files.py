"""The files of an open store: whether they are still the ones that SQLite opened, and room in the log.

SQLite keeps writing to a file that was removed, and the next start then finds none of it. So the writer
checks before each commit: by name, because closing a descriptor of our own would release SQLite's locks. It
looks inside the directory that it opened, wherever that is now, so a directory that is moved during a check
isn't mistaken for one whose files are gone.
"""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import apsw
from msgspec import Struct

LOG_HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24
_COMMIT, _SALT = slice(4, 8), slice(8, 16)  # in a frame's header: non-zero if a commit ends there; its log
_LOG_SALT = slice(16, 24)  # in the log's own header

Kind: TypeAlias = Literal["removed", "replaced", "overwritten", "moved", "unreachable", "index"]

_log = logging.getLogger(__name__)

STEP_BYTES = 256 * 1024
# The space to have before a commit; a larger commit extends the file on its own.
LEFT_BYTES_MIN = 32 * 1024


class Identity(NamedTuple):
    """The identity of a file, whatever its name."""

    device: int
    inode: int


class FileFault(Struct, frozen=True):
    """Another program's change to a file; `detail` is its new path, or why it can't be read."""

    kind: Kind
    path: Path
    detail: str = ""


class StoreFiles:
    """The database, its write-ahead log and the log's index, as they are when this is created.

    Used by the writer's thread, outside its transactions. `saw_foreign_write` tells whether another process
    has written since; then the log may end elsewhere.
    """

    def __init__(
        self,
        connection: apsw.Connection,
        store: Path,
        *,
        page_bytes: int,
        saw_foreign_write: Callable[[], bool],
    ) -> None:
        self._connection = connection
        self._saw_foreign_write = saw_foreign_write
        self.db = Path(os.path.realpath(store))  # the others are beside the file, not beside a link to it
        self.log = self.db.with_name(f"{self.db.name}-wal")
        self.index = self.db.with_name(f"{self.db.name}-shm")
        self._frame_bytes = FRAME_HEADER_BYTES + page_bytes
        self._pages = 0
        self._is_torn = False
        self._anchor: tuple[int, bytes] | None = None  # where the last commit ends in the log, and its header
        self._log_file = os.open(self.log, os.O_RDONLY | os.O_CLOEXEC)
        self._folder = os.open(self.db.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._folder_name = os.fspath(self.db.parent)
        self._folder_identity = _of(os.fstat(self._folder))
        self._log_identity = _of(os.fstat(self._log_file))
        self._index_identity = _of(self.index.stat())
        db = self.db.stat()
        self._db_identity, self._db_state = _of(db), (db.st_size, db.st_mtime_ns)
        self._moved_pages: int = self._pages_moved()

    def fault(self) -> FileFault | None:
        """Return the change to a file, if any; raises apsw.Error."""
        try:
            return self._db_fault() or self._log_fault() or self._index_fault() or self._folder_fault()
        except OSError as error:
            # For example, a network share went away. Files that can't be checked aren't trusted.
            return FileFault("unreachable", self.db, error.strerror or repr(error))

    def _db_fault(self) -> FileFault | None:
        try:
            found = os.stat(self.db.name, dir_fd=self._folder)
        except FileNotFoundError:
            return self._moved() or FileFault("removed", self.db)
        if _of(found) != self._db_identity:
            return self._moved() or FileFault("replaced", self.db)
        state = (found.st_size, found.st_mtime_ns)
        if state != self._db_state:
            moved_pages = self._pages_moved()
            if moved_pages == self._moved_pages:
                return FileFault("overwritten", self.db)
            self._db_state, self._moved_pages = state, moved_pages  # another process checkpointed
        return None

    def _log_fault(self) -> FileFault | None:
        try:
            found = os.stat(self.log.name, dir_fd=self._folder)
        except FileNotFoundError:
            return FileFault("removed", self.log)
        if _of(found) != self._log_identity:
            return FileFault("replaced", self.log)
        if self._is_torn:
            return FileFault("overwritten", self.log)
        if self._anchor is None:
            return None
        at, frame = self._anchor
        if found.st_size >= at + self._frame_bytes and os.pread(self._log_file, len(frame), at) == frame:
            return None
        self._anchor = None
        return None if self._saw_foreign_write() else FileFault("overwritten", self.log)

    def _index_fault(self) -> FileFault | None:
        try:
            found = os.stat(self.index.name, dir_fd=self._folder)
        except FileNotFoundError:
            return FileFault("index", self.index)
        return None if _of(found) == self._index_identity else FileFault("index", self.index)

    def _folder_fault(self) -> FileFault | None:
        """Whether the directory, with all its files intact, is still at its path."""
        try:
            if _of(os.stat(self._folder_name)) == self._folder_identity:  # noqa: PTH116  # quicker
                return None
        except (FileNotFoundError, NotADirectoryError):
            pass
        try:
            place = Path(f"/proc/self/fd/{self._folder}").readlink()
        except OSError:
            return FileFault("removed", self.db)  # this system doesn't say where it is now
        return None if place == self.db.parent else FileFault("moved", self.db, str(place))

    def committed(self, pages: int) -> None:
        """Note that the log now has this many pages; the last one identifies it."""
        if not pages:
            self._anchor = None
            return
        before = self._anchor
        at = LOG_HEADER_BYTES + (pages - 1) * self._frame_bytes
        frame = os.pread(self._log_file, FRAME_HEADER_BYTES, at)
        if pages <= self._pages or (before is not None and self._is_restarted(frame, before[1])):
            self._moved_pages, before = 0, None
        self._pages, self._anchor = pages, (at, frame)
        if not self._follows(frame, before):
            self._is_torn = True

    def _is_restarted(self, frame: bytes, known: bytes) -> bool:
        """Whether SQLite began the log again after the commit that ended with `known`.

        It does so once everything in the log is checkpointed, and the first commit may be longer than the
        whole log was before. It then adds one to the first salt and writes the salts to the log's header. An
        older copy of the log or another file doesn't have that salt.
        """
        salt = frame[_SALT]
        if salt == known[_SALT] or salt != os.pread(self._log_file, LOG_HEADER_BYTES, 0)[_LOG_SALT]:
            return False
        return salt[:4] == _next_salt(known[_SALT][:4])

    def _follows(self, frame: bytes, before: tuple[int, bytes] | None) -> bool:
        """Whether a commit ends there, after the previous one; someone may have overwritten both."""
        if len(frame) < FRAME_HEADER_BYTES or not any(frame[_COMMIT]):
            return False
        if before is None:
            return True
        at, known = before
        return frame[_SALT] == known[_SALT] and os.pread(self._log_file, len(known), at) == known

    def unsure(self) -> None:
        """Forget where the log ends: a commit failed, it was emptied, or another process wrote to it."""
        self._anchor = None

    def db_written(self) -> None:
        """Note that the database was just written by us, or found intact."""
        try:
            found = self.db.stat()
        except OSError:
            return  # the next check reports it
        if _of(found) == self._db_identity:
            self._db_state, self._moved_pages = (found.st_size, found.st_mtime_ns), self._pages_moved()

    def is_ours(self, path: Path) -> bool:
        """Whether the file at this path is one of those that were opened."""
        try:
            found = _of(path.stat())
        except OSError:
            return False
        return found in {self._db_identity, self._log_identity, self._index_identity}

    def _moved(self) -> FileFault | None:
        """Where the database and log are now, if both were moved together."""
        places = {
            identity: place for place in _open_places() if (identity := _identity(place)) in self._identities
        }
        db, log = places.get(self._db_identity), places.get(self._log_identity)
        if db is None or log is None or log != db.with_name(f"{db.name}-wal"):
            return None
        return FileFault("moved", self.db, str(db.parent))

    @property
    def _identities(self) -> tuple[Identity, Identity]:
        return self._db_identity, self._log_identity

    def _pages_moved(self) -> int:
        """How much of the log is checkpointed; every SQLite process updates this along with the database."""
        _, moved = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        return moved

    def close(self) -> None:
        """Close what was opened for checking."""
        os.close(self._log_file)
        os.close(self._folder)


def _of(found: os.stat_result) -> Identity:
    return Identity(found.st_dev, found.st_ino)


def _next_salt(salt: bytes) -> bytes:
    return ((int.from_bytes(salt, "big") + 1) % (1 << 32)).to_bytes(4, "big")


def _identity(path: Path) -> Identity | None:
    try:
        return _of(path.stat())
    except OSError:
        return None


def _open_places() -> list[Path]:
    """Where this process's open files are now, as far as the system tells; a removed file is nowhere."""
    places: list[Path] = []
    try:
        files = os.listdir("/proc/self/fd")  # noqa: PTH208
    except OSError:
        return places
    for file in files:
        try:
            places.append(Path(f"/proc/self/fd/{file}").readlink())
        except OSError:
            continue  # closed meanwhile
    return places


class WalReserve:
    """Spare room in the log of one store, so that commits don't have to extend the file.

    When a commit extends the file, the file system must also save the new length. A commit that writes into
    existing space takes about half the time. The writer makes room while it holds the write lock.

    Without the lock, another process might be writing at the end of the file. SQLite takes zeros for the end
    of its log.
    """

    def __init__(self, store: Path, *, page_bytes: int, pages_max: int) -> None:
        real = Path(os.path.realpath(store))  # the log is beside the file itself, not beside a link to it
        self._path = real.with_name(f"{real.name}-wal")
        self._frame_bytes = FRAME_HEADER_BYTES + page_bytes
        self._bytes_max = LOG_HEADER_BYTES + pages_max * self._frame_bytes
        self._length = 0
        self._file: int | None = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)  # it exists
        self._is_given_up = False

    def make(self, pages: int) -> None:
        """Extend the file if fewer than `pages` are left."""
        needed = LOG_HEADER_BYTES + pages * self._frame_bytes + LEFT_BYTES_MIN
        if needed <= self._length or needed > self._bytes_max or self._is_given_up:
            return
        try:
            self._lengthen(needed)
        except OSError as error:
            # The commit will report a full disk; this only makes it faster.
            self._is_given_up = True
            _log.info("can't reserve space in %s: %s", self._path, error.strerror)

    def _lengthen(self, needed: int) -> None:
        assert self._file is not None, "room is made before the end"
        self._length = os.fstat(self._file).st_size
        if needed > self._length:
            self._length += os.pwrite(self._file, bytes(STEP_BYTES), self._length)

    def forget(self) -> None:
        """Note that the file may have been truncated."""
        self._length = 0

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
