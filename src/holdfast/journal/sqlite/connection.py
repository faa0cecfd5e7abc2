"""Opening the SQLite file, bringing its schema up to date, and naming what SQLite complains of."""

import errno
import os
import sys
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

# A foreign lock that is held longer than this is reported; a checkpoint or a short backup step is not.
BUSY_MS = 1_000
CACHE_KIB = 16_384
# After a burst the write-ahead log shrinks back to this.
WAL_BYTES_KEPT_MAX = 64 * 1024 * 1024


# Errors that say something about the disk or the file, not about what was to be written.
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


@contextmanager
def sqlite_errors_named(path: Path) -> Generator[None]:
    """Turn SQLite's errors into ours, whose texts say what to do."""
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
                f"cannot open {path}: {os.strerror(system_errno)} (ulimit -n); nothing was accepted"
            )
        case apsw.BusyError() | apsw.LockedError():
            return StoreLocked(
                f"another process holds the write lock of {path} (a backup, a database browser?): "
                f"end it, or wait until it is done ({error})"
            )
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            return StoreReadOnly(
                f"cannot write {path}: check that the directory exists, that this user may write to it, "
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
    """What to do about a damaged store; what was saved from it is newer than any backup."""
    saved = sorted(path.parent.glob(f"{path.name}.saved-*"))
    if not saved:
        return "Restore a backup"
    return (
        f"What Holdfast held when its files were taken away is in {saved[-1]}: put it in the place of {path}"
    )


def _full(error: apsw.Error, path: Path) -> StoreFull:
    return StoreFull(f"no room left to write {path}: free some space; nothing was lost ({error})")


def connect_for_writing(path: Path, *, durability: Durability, vfs: str | None) -> apsw.Connection:
    """A connection that may write, in WAL mode; closing it leaves the write-ahead log as it is."""
    _make_private(path)
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    connection = apsw.Connection(os.fspath(path), flags=flags, vfs=vfs)
    try:
        # A log that turns out to be damaged is evidence: closing must not fold it into the file.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.set_busy_timeout(BUSY_MS)
        mode = connection.pragma("journal_mode", "wal")
        if mode != "wal":
            raise StoreReadOnly(
                f"{path} cannot be kept with a write-ahead log here (journal mode {mode}): "
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
    """A connection to a file without a log that nobody writes to; it needs no room on the disk."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return apsw.Connection(f"{path.absolute().as_uri()}?immutable=1", flags=flags)


def open_for_reading(path: Path, *, vfs: str | None) -> apsw.Connection:
    """A connection that cannot write."""
    connection = apsw.Connection(os.fspath(path), flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs)
    # Moving the write-ahead log is the writer's business, also for whoever closes last.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.set_busy_timeout(BUSY_MS)
    connection.pragma("query_only", True)
    return connection


def _make_private(path: Path) -> None:
    """A conversation is nobody else's business: the file is created for its owner alone.

    One that is there is not opened: closing it would let go of the locks that other connections of this
    process have on it, and then whoever looks at the file from outside takes its log away.
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
    """The JournalError that says why a file of the store cannot be made."""
    if error.errno in _FULL:
        return StoreFull(f"no room left to write {path}: free some space ({error.strerror})")
    if error.errno in OUT_OF_FILES:
        return StoreFailed(f"cannot open {path}: {error.strerror}; nothing was accepted")
    return StoreReadOnly(
        f"cannot write {path}: {error.strerror}; check that the directory exists and that this user "
        "may write to it"
    )


def migrate(connection: apsw.Connection, path: Path) -> None:
    """Bring the schema up to date."""
    connection.execute("BEGIN IMMEDIATE")
    # Read under the lock: two processes may be at this at once.
    for step in steps_to_take(connection, path):
        connection.execute(step.sql)
        connection.pragma("user_version", step.number)
    connection.execute("COMMIT")


def steps_to_take(connection: apsw.Connection, path: Path) -> Sequence[Migration]:
    """What is missing to the schema that our queries are made for."""
    steps = migrations()
    version = int(connection.pragma("user_version"))
    if version > len(steps):
        raise StoreReadOnly(
            f"{path} has schema {version}, this one knows {len(steps)}: a newer Holdfast wrote it; upgrade"
        )
    return steps[version:]
