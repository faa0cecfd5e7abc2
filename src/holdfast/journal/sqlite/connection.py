"""Connections to the SQLite file: the writer's, with migrations, and those of readers; SQLite's errors."""

import errno
import logging
import os
import queue
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import apsw

from holdfast.interfaces.journal import (
    JournalError,
    StoreDamaged,
    StoreFailed,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
)
from holdfast.journal.sqlite.queries import Migration, migrations
from holdfast.values import Durability

# A lock held longer than this is reported; a checkpoint or a short backup step doesn't take that long.
BUSY_MS = 1_000
CACHE_KIB = 16_384
# After a burst, the write-ahead log is truncated to this size.
WAL_BYTES_KEPT_MAX = 64 * 1024 * 1024


# Errors about the disk or the file, not about what was being written.
OF_THE_DISK = (
    apsw.BusyError,
    apsw.CantOpenError,
    apsw.CorruptError,
    apsw.FullError,
    apsw.IOError,
    apsw.LockedError,
    apsw.NoMemError,
    apsw.NotADBError,
    apsw.PermissionsError,
    apsw.ReadOnlyError,
)
_FULL = {errno.EFBIG, errno.ENOSPC, errno.EDQUOT}
OUT_OF_FILES = {errno.EMFILE, errno.ENFILE}

_log = logging.getLogger(__name__)


@contextmanager
def sqlite_errors_named(path: Path) -> Generator[None]:
    """Turn SQLite's errors into JournalErrors, whose texts say what to do."""
    try:
        yield
    except apsw.Error as error:
        raise named(error, path) from error


def named(error: apsw.Error, path: Path, *, system_errno: int = 0) -> JournalError:
    """The JournalError that says what `error` means for the store at `path`."""
    match error:
        case apsw.FullError():
            return _full(error, path)
        case apsw.IOError() if system_errno in _FULL:
            return _full(error, path)
        case apsw.CantOpenError() if system_errno in OUT_OF_FILES:
            return StoreFailed(
                f"can't open {path}: {os.strerror(system_errno)} (ulimit -n); nothing was accepted"
            )
        case apsw.BusyError() | apsw.LockedError():
            return StoreLocked(
                f"another process holds the write lock of {path} (a backup, a database browser?): "
                f"end it, or wait until it is done ({error})"
            )
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            return StoreReadOnly(
                f"can't write {path}: check that the directory exists, that this user may write to it, "
                f"and that the disk is not mounted read-only ({error})"
            )
        case apsw.CorruptError() | apsw.NotADBError():
            return StoreDamaged(f"integrity check failed at {path}: {error}. {how_to_restore(path)}")
        case apsw.IOError() if _detail(error) == apsw.SQLITE_IOERR_SHORT_READ:
            return StoreDamaged(
                f"integrity check failed at {path}: the file ends too early. {how_to_restore(path)}"
            )
        case apsw.IOError() if _detail(error) == apsw.SQLITE_IOERR_READ:
            return StoreFailed(f"reading {path} failed ({error}): check the disk")
        case _:
            return StoreFailed(f"writing {path} failed ({error}): check the disk; nothing was accepted")


def _detail(error: apsw.Error) -> int:
    return getattr(error, "extendedresult", 0)


def how_to_restore(path: Path) -> str:
    """Return advice for a damaged store; data saved by Holdfast is newer than any backup."""
    saved = sorted(path.parent.glob(f"{path.name}.saved-*"))
    if not saved:
        return "Restore a backup"
    return f"Holdfast saved its data in {saved[-1]} when another program removed its files: move it to {path}"


def _full(error: apsw.Error, path: Path) -> StoreFull:
    return StoreFull(f"no room left to write {path}: free some space; nothing was lost ({error})")


def connect_for_writing(
    path: Path, *, durability: Durability, vfs: str | None, lock_s: float
) -> apsw.Connection:
    """A writable connection in WAL mode; closing it leaves the write-ahead log alone."""
    _make_private(path)
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    connection = apsw.Connection(os.fspath(path), flags=flags, vfs=vfs)
    try:
        # A damaged log is evidence: closing the connection must not checkpoint it into the file.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.set_busy_timeout(int(lock_s * 1_000))
        mode = connection.pragma("journal_mode", "wal")
        if mode != "wal":
            raise StoreReadOnly(
                f"{path} can't have a write-ahead log here (journal mode {mode}): "
                "move it to a local disk that this user may write to"
            )
        connection.pragma("synchronous", "FULL" if durability == "power" else "NORMAL")
        if sys.platform == "darwin":
            connection.pragma("fullfsync", True)
        connection.pragma("secure_delete", True)
        connection.pragma("cache_size", -CACHE_KIB)
        connection.pragma("journal_size_limit", WAL_BYTES_KEPT_MAX)
    except apsw.Error as error:
        failure = named(error, path, system_errno=connection.system_errno)
        connection.close()
        raise failure from error
    except BaseException:
        connection.close()
        raise
    return connection


def open_frozen(path: Path) -> apsw.Connection:
    """A connection to a file that has no log and no writer; it needs no space on the disk."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return apsw.Connection(f"{path.absolute().as_uri()}?immutable=1", flags=flags)


def open_for_reading(path: Path, *, vfs: str | None) -> apsw.Connection:
    """A read-only connection."""
    connection = apsw.Connection(os.fspath(path), flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs)
    # Only the writer checkpoints the log, even if a reader closes last.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.set_busy_timeout(BUSY_MS)
    connection.pragma("query_only", True)
    return connection


def _make_private(path: Path) -> None:
    """Create the file so that only its owner can read it.

    An existing file isn't opened: closing it would release the locks that this process's other connections
    hold on it, and another process that opens the file could then remove its log.
    """
    try:
        os.close(os.open(os.path.realpath(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        if not os.access(path, os.R_OK | os.W_OK):
            is_fixed = os.statvfs(path).f_flag & os.ST_RDONLY
            why = errno.EROFS if is_fixed else errno.EACCES
            denied = OSError(why, os.strerror(why))
            raise not_writable(path, denied) from None
    except OSError as error:
        raise not_writable(path, error) from error


def not_writable(path: Path, error: OSError) -> JournalError:
    """The JournalError that says why a file of the store can't be created."""
    if error.errno in _FULL:
        return StoreFull(f"no room left to write {path}: free some space ({error.strerror})")
    if error.errno in OUT_OF_FILES:
        return StoreFailed(f"can't open {path}: {error.strerror}; nothing was accepted")
    return StoreReadOnly(
        f"can't write {path}: {error.strerror}; check that the directory exists and that this user "
        "may write to it"
    )


def migrate(connection: apsw.Connection, path: Path) -> None:
    """Bring the schema up to date."""
    connection.execute("BEGIN IMMEDIATE")
    # Read under the lock, because two processes may be migrating at the same time.
    for step in steps_to_take(connection, path):
        connection.execute(step.sql)
        connection.pragma("user_version", step.number)
    connection.execute("COMMIT")


def steps_to_take(connection: apsw.Connection, path: Path) -> Sequence[Migration]:
    """The migrations that are missing before our queries work."""
    steps = migrations()
    version = int(connection.pragma("user_version"))
    if version > len(steps):
        raise StoreReadOnly(
            f"{path} was written by a newer Holdfast (schema {version}, this one knows {len(steps)}): upgrade"
        )
    return steps[version:]


class Connections:
    """Reading connections to one file, opened on demand: one for each thread that reads at the same time.

    If another file takes its name, the open connections are shared instead of opening more, because they can
    still read the old contents. Used by the reading threads, except for `thaw` and `close`.
    """

    def __init__(self, path: Path, *, vfs: str | None) -> None:
        self._path = path
        self._vfs = vfs
        self._free: queue.LifoQueue[apsw.Connection] = queue.LifoQueue()
        self._open: set[apsw.Connection] = set()
        self._frozen: set[apsw.Connection] = set()
        self._first: os.stat_result | None = None  # of the file when it was first opened
        self._changing = threading.Lock()

    @contextmanager
    def one(self) -> Generator[apsw.Connection]:
        """A connection for exclusive use."""
        connection = self._taken()
        try:
            yield connection
        finally:
            with self._changing:
                is_current = connection in self._open
                if is_current:
                    self._free.put(connection)
            if not is_current:
                connection.close()

    def _taken(self) -> apsw.Connection:
        try:
            return self._free.get_nowait()
        except queue.Empty:
            pass
        if self._open and self._is_other_file():
            return self._free.get()
        try:
            return self._opened()
        except apsw.CantOpenError:
            # If no more files can be opened, readers take turns.
            if not self._open:
                raise
            return self._free.get()

    def _is_other_file(self) -> bool:
        assert self._first is not None, "something was opened"
        try:
            return not os.path.samestat(self._first, self._path.stat())
        except OSError:
            return True

    def _opened(self) -> apsw.Connection:
        connection = self._connected()
        with self._changing:
            self._open.add(connection)
        return connection

    def _connected(self) -> apsw.Connection:
        connection: apsw.Connection | None = None
        try:
            connection = open_for_reading(self._path, vfs=self._vfs)
            self._check(connection)
        except (apsw.FullError, apsw.IOError, apsw.CantOpenError) as error:
            if connection is not None:
                connection.close()
            if not self._has_no_log():
                raise
            # SQLite needs two more files to read this one, and there is no space for them.
            _log.info("reading %s without a write-ahead log: %s", self._path, error)
            connection = open_frozen(self._path)
            self._check(connection)
            with self._changing:
                self._frozen.add(connection)
        return connection

    def _check(self, connection: apsw.Connection) -> None:
        try:
            is_older = bool(steps_to_take(connection, self._path))
        except BaseException:
            connection.close()
            raise
        if is_older:
            connection.close()
            raise StoreFailed(
                f"{self._path} was written by an older Holdfast: start `holdfast serve` once to "
                "bring it up to date"
            )
        try:
            self._first = self._first or self._path.stat()
        except OSError as error:
            connection.close()
            raise StoreFailed(
                f"{self._path} went away while it was opened ({error.strerror}): check the disk"
            ) from error

    def _has_no_log(self) -> bool:
        """Whether the whole store is in its main file."""
        if self._vfs is not None:
            return False
        log = self._path.with_name(f"{self._path.name}-wal")
        try:
            return self._path.stat().st_size > 0 and (not log.exists() or not log.stat().st_size)
        except OSError:
            return False

    def thaw(self) -> None:
        """Reopen connections that ignore the write-ahead log: from now on the file is written to."""
        with self._changing:
            self._open -= self._frozen
            self._frozen.clear()
            free: list[apsw.Connection] = []
            while not self._free.empty():
                free.append(self._free.get_nowait())
            for connection in free:
                if connection in self._open:
                    self._free.put(connection)
                else:
                    connection.close()

    def close(self) -> None:
        """Close the file when nobody reads any more."""
        while self._open:
            self._open.pop().close()
