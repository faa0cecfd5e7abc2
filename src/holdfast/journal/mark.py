"""The last arrival that was published, kept beside the store so that a cut write-ahead log is noticed."""

import logging
import os
import struct
from pathlib import Path
from typing import cast

import apsw

from holdfast.interfaces import StoreDamaged
from holdfast.journal.queries import queries

_log = logging.getLogger(__name__)
_FORM = struct.Struct("<Q")
# Before this schema each commit counted itself.
ARRIVALS_SINCE = 5


def arrivals(db: apsw.Connection) -> int:
    """The last arrival that is readable in the store, of whatever schema; 0 in an empty file."""
    schema = int(db.pragma("user_version"))
    if not schema:
        return 0
    sql = queries()["arrivals" if schema >= ARRIVALS_SINCE else "commits"]
    ((found,),) = cast("list[tuple[int]]", db.execute(sql).fetchall())
    return found


class CommitMark:
    """A number in a file.

    SQLite takes a write-ahead log that is damaged in the middle for one that ends there. The mark is written
    without fsync, after the commit's own fsync and before the commit is published: after a crash or a power
    cut it may be too low, which hides some damage, never too high, which would invent it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def check(self, found: int, store: Path) -> None:
        """Raise StoreDamaged if fewer arrivals are readable than were published."""
        data = os.pread(self._file, _FORM.size, 0)
        published = _FORM.unpack(data)[0] if len(data) == _FORM.size else 0
        if found < published:
            raise StoreDamaged(
                f"integrity check failed at {store}: {published} writes were published, but only {found} "
                "are readable; the write-ahead log was cut or damaged, or an older file was put in its "
                "place. Restore a backup; to go on with what is readable, remove "
                f"{self._path}"
            )

    def write(self, arrival: int) -> None:
        """Remember that this arrival, and all before it, is about to be published."""
        try:
            os.pwrite(self._file, _FORM.pack(arrival), 0)
        except OSError as error:
            # The commit itself is safe: a mark that is too low only notices less.
            _log.warning("could not write %s: %s", self._path, error.strerror)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)
