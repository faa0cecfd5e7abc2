"""Saves the contents of an open store after another program removed or overwrote its files.

A removed file exists as long as some process has it open. So everything that SQLite can still read is copied
into a new file, which is verified before it gets its final name.
"""

import logging
import os
from contextlib import suppress
from itertools import count
from pathlib import Path

import apsw
from msgspec import Struct

from holdfast.journal.safe_files import sync_folder
from holdfast.journal.sqlite.commit_mark import arrivals
from holdfast.journal.sqlite.connection import open_frozen
from holdfast.journal.sqlite.integrity import is_whole
from holdfast.journal.sqlite.store_files import FileFault, StoreFiles

_log = logging.getLogger(__name__)

_LOST = (apsw.CorruptError, apsw.NotADBError)
_UNREAD = {apsw.SQLITE_IOERR_SHORT_READ, apsw.SQLITE_IOERR_READ, apsw.SQLITE_IOERR_CORRUPTFS}


class Saved(Struct, frozen=True):
    """Everything is in this file; `aside` is where a foreign write-ahead log beside it was moved to."""

    path: Path
    is_in_place: bool
    aside: Path | None = None


class NotReadable(Exception):
    """Some accepted data can no longer be read anywhere."""


class NotSaved(Exception):
    """The data can be read but not written; the text says why."""


def describe(fault: FileFault) -> str:
    """Describe the result, without a full stop."""
    match fault.kind:
        case "removed":
            return f"another program removed {fault.path} while Holdfast was using it"
        case "replaced":
            return f"another program replaced {fault.path} while Holdfast was using it"
        case "overwritten":
            return f"another program overwrote or truncated {fault.path} while Holdfast was using it"
        case "moved":
            return f"{fault.path.parent} was moved to {fault.detail} while Holdfast was using it"
        case "index":
            return f"another program removed, replaced or overwrote {fault.path} while Holdfast was using it"
        case "unreachable":
            return f"can't read {fault.path} ({fault.detail})"


def save(connection: apsw.Connection, files: StoreFiles, *, arrival: int) -> Saved:
    """Copy everything that the connection can read into a file; raises NotReadable or NotSaved.

    It becomes the database unless another program's file has that name. In that case the old write-ahead log
    is removed, so that it isn't mistaken for the log of the other file.
    """
    folder = files.db.parent
    unfinished = files.db.with_name(f".{files.db.name}.saving")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _copy(connection, unfinished)
        if not _is_whole(unfinished, arrival):
            raise NotReadable
        saved = _place(unfinished, files, arrival)
        sync_folder(folder)
    except OSError as error:
        raise NotSaved(f"{folder}: {error.strerror}") from error
    finally:
        for left in (unfinished, unfinished.with_name(f"{unfinished.name}-journal")):
            with suppress(OSError):
                left.unlink(missing_ok=True)
    return saved


def _copy(connection: apsw.Connection, path: Path) -> None:
    """Copy page by page, so that a log found beside the new file doesn't matter."""
    path.unlink(missing_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            _back_up(connection, path)
        except apsw.Error as error:
            _log.warning("can't copy the store to %s: %s", path, error)
            if isinstance(error, _LOST) or getattr(error, "extendedresult", 0) in _UNREAD:
                raise NotReadable from error
            raise NotSaved(str(error)) from error
        os.fsync(file)
    finally:
        os.close(file)


def _back_up(connection: apsw.Connection, path: Path) -> None:
    copy = apsw.Connection(os.fspath(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        with copy.backup("main", connection, "main") as backup:
            backup.step(-1)
    finally:
        copy.close(True)


def _is_whole(path: Path, arrival: int) -> bool:
    connection = open_frozen(path)
    try:
        return is_whole(connection, path, arrival=arrival)
    finally:
        connection.close()


def _place(unfinished: Path, files: StoreFiles, arrival: int) -> Saved:
    is_own_log = files.is_ours(files.log)
    if not _is_free(files, arrival):
        path = _named_free(files.db, "saved")
        unfinished.rename(path)
        saved = Saved(path, is_in_place=False)
    else:
        aside = None
        if not is_own_log and files.log.exists() and files.log.stat().st_size:
            aside = files.log.rename(_named_free(files.log, "foreign"))
        unfinished.rename(files.db)
        saved = Saved(files.db, is_in_place=True, aside=aside)
    sync_folder(files.db.parent)
    if is_own_log:
        files.log.unlink(missing_ok=True)
    if saved.is_in_place:
        # A process that opens the file now would take this for the index of its own log.
        files.index.unlink(missing_ok=True)
    return saved


def _is_free(files: StoreFiles, arrival: int) -> bool:
    """Whether the database's path is free or has only what we had there."""
    if not files.db.exists() or not files.db.stat().st_size:
        return True
    if not files.is_ours(files.db):
        return False
    try:
        connection = open_frozen(files.db)
    except apsw.Error:
        return True  # ours, but no longer readable
    try:
        return arrivals(connection) <= arrival  # otherwise someone has continued writing to it
    except apsw.Error:
        return True
    finally:
        connection.close()


def _named_free(path: Path, what: str) -> Path:
    names = (path.with_name(f"{path.name}.{what}-{number}") for number in count(1))
    return next(name for name in names if not os.path.lexists(name))
