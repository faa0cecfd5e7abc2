"""Saves what an open store holds after another program took its files away or wrote over them.

A file that lost its name lives as long as somebody has it open. So everything that SQLite can still read goes
into a new file, which is read back whole before it gets a name that anyone looks for.
"""

import logging
import os
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import apsw

from holdfast.journal.safe_files import sync_folder
from holdfast.journal.sqlite.commit_mark import arrivals
from holdfast.journal.sqlite.connection import open_frozen
from holdfast.journal.sqlite.integrity import is_whole
from holdfast.journal.sqlite.store_files import FileFault, StoreFiles

_log = logging.getLogger(__name__)

_LOST = (apsw.CorruptError, apsw.NotADBError)
_UNREAD = {apsw.SQLITE_IOERR_SHORT_READ, apsw.SQLITE_IOERR_READ, apsw.SQLITE_IOERR_CORRUPTFS}


@dataclass(frozen=True, slots=True)
class Saved:
    """Everything is in this file; `aside` is where a foreign log went that lay beside it."""

    path: Path
    is_in_place: bool
    aside: Path | None = None


class NotReadable(Exception):
    """Some of what was accepted is nowhere to be read any more."""


class NotSaved(Exception):
    """It can be read, but not be written down; the text says why."""


def describe(fault: FileFault) -> str:
    """What happened, in a sentence without its end."""
    match fault.kind:
        case "removed":
            return f"another program removed {fault.path} while Holdfast was using it"
        case "replaced":
            return f"another program replaced {fault.path} while Holdfast was using it"
        case "overwritten":
            return f"another program wrote over {fault.path}, or cut it, while Holdfast was using it"
        case "moved":
            return f"{fault.path.parent} was moved to {fault.detail} while Holdfast was using it"
        case "index":
            return f"another program removed, replaced or wrote over {fault.path} while Holdfast was using it"
        case "unreachable":
            return f"cannot look at {fault.path} ({fault.detail})"


def save(connection: apsw.Connection, files: StoreFiles, *, arrival: int) -> Saved:
    """Put all that the connection can read into a file; raises NotReadable or NotSaved.

    It takes the place of the database unless somebody else's file is there. Then the log that belongs to what
    is saved is removed, so that nobody takes it for the log of the other file.
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
    """Page by page, so that a log which is found beside it changes nothing."""
    path.unlink(missing_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            _back_up(connection, path)
        except apsw.Error as error:
            _log.warning("cannot copy the store to %s: %s", path, error)
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
        # Whoever opens the file now would take this for a description of its log.
        files.index.unlink(missing_ok=True)
    return saved


def _is_free(files: StoreFiles, arrival: int) -> bool:
    """Whether nothing stands at the database's path but what we had, or nothing at all."""
    if not files.db.exists() or not files.db.stat().st_size:
        return True
    if not files.is_ours(files.db):
        return False
    try:
        connection = open_frozen(files.db)
    except apsw.Error:
        return True  # ours, and not readable any more
    try:
        return arrivals(connection) <= arrival  # else someone has gone on with it
    except apsw.Error:
        return True
    finally:
        connection.close()


def _named_free(path: Path, what: str) -> Path:
    names = (path.with_name(f"{path.name}.{what}-{number}") for number in count(1))
    return next(name for name in names if not os.path.lexists(name))
