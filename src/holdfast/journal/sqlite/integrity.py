"""Checks that everything ever written is still readable; the store may be in use meanwhile."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast
from zlib import crc32

import apsw
from msgspec import Struct, field

from holdfast.interfaces.journal import Record, StoreDamaged
from holdfast.journal.blobs import FileBlobs
from holdfast.journal.sqlite.commit_mark import ARRIVALS_SINCE, arrivals, number_in
from holdfast.journal.sqlite.connection import open_for_reading, sqlite_errors_named
from holdfast.journal.sqlite.histories import PIECES_SINCE, whole_body
from holdfast.journal.sqlite.queries import migrations, queries

_log = logging.getLogger(__name__)

FAULTS_MAX = 20
STEP = 5_000

COUNT = "SELECT count(*) FROM {log}"
NEWEST = "SELECT coalesce(max(updated_ms), 0) FROM sessions"
# Names come from scalar subqueries: a join with the log would materialize all of it first.
EVENTS = """
SELECT (SELECT session_id FROM sessions WHERE key = session), session, seq, crc, body, {length} FROM {log}
ORDER BY session, seq
"""
LENGTH = """
coalesce((SELECT length FROM spans WHERE spans.session = log.session AND spans.seq = log.seq), 1)
"""
SPANS_SINCE = 4
BLOBS = "SELECT DISTINCT blob FROM blob_refs ORDER BY blob"

Progress = Callable[[int, int], None]
FaultOf = Callable[[Record], str]  # empty if there's none


class Checked(Struct):
    """The number of checked items, and each fault with its location."""

    events: int = 0
    blobs: int = 0
    newest_ms: int = 0
    faults: list[str] = field(default_factory=list[str])

    def fault(self, place: str, why: str) -> None:
        """Add a fault, unless there's no reason for one; after too many, the rest are dropped."""
        if why and len(self.faults) < FAULTS_MAX:
            self.faults.append(f"integrity check failed at {place}: {why}")


def check_store(path: Path, *, on_progress: Progress, fault_of: FaultOf | None = None) -> Checked:
    """Read every page, event and blob; raises JournalError if the file can't be read at all.

    `fault_of` also checks each event, in the order of its log.
    """
    checked = Checked()
    published = published_arrival(path)  # before the store is read, since it may grow meanwhile
    with sqlite_errors_named(path):
        connection = open_for_reading(path, vfs=None)
        try:
            _check_file(connection, checked, path=path)
            if not checked.faults:
                _check_mark(connection, checked, path=path, published=published)
                _check_events(connection, checked, on_progress=on_progress, fault_of=fault_of)
                _check_blobs(connection, checked, path=path)
        finally:
            connection.close()
    return checked


def is_whole(connection: apsw.Connection, path: Path, *, arrival: int) -> bool:
    """Whether this arrival and all earlier ones are readable; blobs are not checked."""
    checked = Checked()
    try:
        _check_file(connection, checked, path=path)
        if checked.faults or arrivals(connection) < arrival:
            return False
        _check_events(connection, checked, on_progress=_in_silence)
    except apsw.Error as error:
        _log.warning("%s can't be read: %s", path, error)
        return False
    return not checked.faults


def _in_silence(done: int, of: int) -> None:
    """Report no progress."""
    del done, of


def _check_file(connection: apsw.Connection, checked: Checked, *, path: Path) -> None:
    version = int(connection.pragma("user_version"))
    if version > len(migrations()):
        checked.fault(str(path), f"it was written by a newer Holdfast (schema {version}): upgrade")
        return
    for (line,) in cast("Iterator[tuple[str]]", connection.execute(f"PRAGMA integrity_check({FAULTS_MAX})")):
        if line != "ok":
            checked.fault(str(path), line)


def published_arrival(path: Path) -> int:
    """The last published arrival according to the commit mark beside the store; 0 if there is none."""
    mark = path.with_name(f"{path.name}-mark")
    data = mark.read_bytes() if mark.exists() else b""
    return number_in(data)


def _check_mark(connection: apsw.Connection, checked: Checked, *, path: Path, published: int) -> None:
    found = arrivals(connection)
    if found < published:
        why = f"{published} writes were published, but only {found} are readable"
        checked.fault(
            str(path), f"{why}; the write-ahead log was truncated, or the file was replaced by an older one"
        )


def _check_events(
    connection: apsw.Connection, checked: Checked, *, on_progress: Progress, fault_of: FaultOf | None = None
) -> None:
    schema = int(connection.pragma("user_version"))
    names = {
        "log": "log" if schema >= ARRIVALS_SINCE else "events AS log",
        "length": LENGTH if schema >= SPANS_SINCE else "1",
    }
    counted = cast("tuple[int]", connection.execute(COUNT.format(**names)).fetchone())[0]
    checked.newest_ms = cast("tuple[int]", connection.execute(NEWEST).fetchone())[0]
    before, expected = 0, 1
    found = connection.execute(EVENTS.format(**names))
    rows = cast("Iterator[tuple[str | None, int, int, int, bytes, int]]", found)
    for session_id, session, seq, crc, body, length in rows:
        if session != before:
            before, expected = session, 1
        place = f"session {session_id or f'number {session}'} seq {seq}"
        if session_id is None:
            checked.fault(place, "the event belongs to no session")
        elif seq != expected:
            checked.fault(place, f"seq {expected} is missing before it")
        if schema >= PIECES_SINCE:
            body = whole_body(connection, queries(), body)  # noqa: PLW2901
        if crc32(body) != crc:
            checked.fault(place, "the stored event is not the one that was written")
        elif fault_of is not None and session_id is not None:
            checked.fault(place, fault_of(Record(session_id, seq, body=body)))
        expected = seq + length
        checked.events += 1
        if checked.events % STEP == 0:
            on_progress(checked.events, counted)


def _check_blobs(connection: apsw.Connection, checked: Checked, *, path: Path) -> None:
    blobs = FileBlobs(path.with_name("blobs"))
    for (name,) in cast("Iterator[tuple[str]]", connection.execute(BLOBS)):
        checked.blobs += 1
        try:
            if blobs.get(name) is None:
                checked.fault(f"blob {name}", "the file is missing")
        except StoreDamaged:
            checked.fault(f"blob {name}", "its bytes are not the ones that were written")
