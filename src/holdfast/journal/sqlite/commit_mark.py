"""The last published arrival, stored beside the database so that a truncated write-ahead log is noticed."""

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
_NUMBER = struct.Struct("<Q")  # the older form, without a CRC
# Before this schema, each commit counted itself.
ARRIVALS_SINCE = 5


def arrivals(db: apsw.Connection) -> int:
    """The last arrival that is readable in the store, in any schema; 0 in an empty file."""
    schema = int(db.pragma("user_version"))
    if not schema:
        return 0
    sql = queries()["arrivals" if schema >= ARRIVALS_SINCE else "commits"]
    ((found,),) = cast("list[tuple[int]]", db.execute(sql).fetchall())
    return found


def number_in(data: bytes) -> int:
    """The number in a commit mark; 0 if there is none or if it isn't valid."""
    if len(data) == _NUMBER.size:
        return _NUMBER.unpack(data)[0]
    if len(data) < _FORM.size:
        return 0
    number, crc = _FORM.unpack_from(data)
    return number if crc == crc32(data[: _NUMBER.size]) else 0


class CommitMark:
    """A number in a file.

    If a write-ahead log is damaged in the middle, SQLite treats that as its end. The mark is written without
    fsync, after the commit's own fsync and before the commit is published. After a crash or a power cut it
    can be too low, which hides some damage, but never too high, which would report damage that isn't there.
    """

    def __init__(self, path: Path, *, renew_s: float) -> None:
        self._path = path
        self._renew_s = renew_s
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
                "are readable; the write-ahead log was truncated or damaged, or the file was replaced by an "
                f"older one. {how_to_restore(store)}; to continue with what is readable, remove {self._path}"
            )

    def write(self, arrival: int) -> None:
        """Record that this arrival and all earlier ones are about to be published."""
        self._arrival = arrival
        number = _NUMBER.pack(arrival)
        try:
            os.pwrite(self._file, _FORM.pack(arrival, crc32(number)), 0)
        except OSError as error:
            # The commit itself is safe. With a mark that is too low, less damage is noticed.
            _log.warning("could not write %s: %s", self._path, error.strerror)

    def keep(self, arrival: int) -> None:
        """Write the mark, and now and then check that its file hasn't been replaced."""
        self.write(arrival)
        now_s = time.monotonic()
        if now_s >= self._renew_at_s:
            self._renew_at_s = now_s + self._renew_s
            self.renew()

    def renew(self) -> None:
        """Write the mark again if its file was removed or overwritten."""
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
        """Close the file."""
        os.close(self._file)
