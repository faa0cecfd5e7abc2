"""The last arrival that was published, kept beside the store so that a cut write-ahead log is noticed."""

import logging
import os
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import cast
from zlib import crc32

import apsw

from holdfast.interfaces.journal import StoreDamaged
from holdfast.journal.sqlite.connection import how_to_restore
from holdfast.journal.sqlite.queries import queries

_log = logging.getLogger(__name__)
_FORM = struct.Struct("<QI")  # the number and its CRC-32
_NUMBER = struct.Struct("<Q")  # alone, as it was written once
RENEW_S = 2.0
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


def number_in(data: bytes) -> int:
    """The number in a mark; 0 if there is none, or something that we did not write."""
    if len(data) == _NUMBER.size:
        return _NUMBER.unpack(data)[0]
    if len(data) < _FORM.size:
        return 0
    number, crc = _FORM.unpack_from(data)
    return number if crc == crc32(data[: _NUMBER.size]) else 0


class CommitMark:
    """A number in a file.

    SQLite takes a write-ahead log that is damaged in the middle for one that ends there. The mark is written
    without fsync, after the commit's own fsync and before the commit is published: after a crash or a power
    cut it may be too low, which hides some damage, never too high, which would invent it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._arrival = 0
        self._renew_at_s = 0.0
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def check(self, found: int, store: Path) -> None:
        """Raise StoreDamaged if fewer arrivals are readable than were published."""
        data = os.pread(self._file, _FORM.size + 1, 0)
        published = number_in(data)
        if data and not published:
            _log.warning("%s isn't readable, so a truncated write-ahead log wouldn't be noticed", self._path)
        if found < published:
            raise StoreDamaged(
                f"integrity check failed at {store}: {published} writes were published, but only {found} "
                "are readable; the write-ahead log was cut or damaged, or an older file was put in its "
                f"place. {how_to_restore(store)}; to go on with what is readable, remove {self._path}"
            )

    def write(self, arrival: int) -> None:
        """Remember that this arrival, and all before it, is about to be published."""
        self._arrival = arrival
        number = _NUMBER.pack(arrival)
        try:
            os.pwrite(self._file, _FORM.pack(arrival, crc32(number)), 0)
        except OSError as error:
            # The commit itself is safe: a mark that is too low only notices less.
            _log.warning("could not write %s: %s", self._path, error.strerror)

    def keep(self, arrival: int) -> None:
        """Write it, and from time to time see that the file is still the one that others would find."""
        self.write(arrival)
        now_s = time.monotonic()
        if now_s >= self._renew_at_s:
            self._renew_at_s = now_s + RENEW_S
            self.renew()

    def renew(self) -> None:
        """Write it again where someone took it away or wrote over it."""
        if not self._arrival:
            return
        try:
            with suppress(FileNotFoundError):
                if os.path.samestat(self._path.stat(), os.fstat(self._file)):
                    if number_in(os.pread(self._file, _FORM.size + 1, 0)) != self._arrival:
                        self.write(self._arrival)
                    return
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            _log.warning("could not write %s: %s", self._path, error.strerror)
            return
        os.close(self._file)
        self._file = file
        self.write(self._arrival)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)
