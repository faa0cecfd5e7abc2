"""Keeps the file of the write-ahead log longer than what is in it, so that commits need not lengthen it.

A commit that lengthens the file has the file system write down its new length too, before it counts as saved.
One that writes into room that is there already takes about half the time.
"""

import logging
import os
from pathlib import Path

from holdfast.journal.sqlite.store_files import FRAME_HEADER_BYTES, LOG_HEADER_BYTES

_log = logging.getLogger(__name__)

STEP_BYTES = 256 * 1024
# So much must be left before a commit; a larger one lengthens the file by itself.
LEFT_BYTES_MIN = 32 * 1024


class WalReserve:
    """Room in the log of one store, made by its writer while it holds the write lock.

    Without the lock someone else might just be writing where the file ends. SQLite takes zeros for the end of
    its log.
    """

    def __init__(self, store: Path, *, page_bytes: int, pages_max: int) -> None:
        real = Path(os.path.realpath(store))  # the log is kept beside the file, not beside a link to it
        self._path = real.with_name(f"{real.name}-wal")
        self._frame_bytes = FRAME_HEADER_BYTES + page_bytes
        self._bytes_max = LOG_HEADER_BYTES + pages_max * self._frame_bytes
        self._length = 0
        self._file: int | None = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)  # just written to
        self._is_given_up = False

    def make(self, pages: int) -> None:
        """Lengthen the file if it ends soon behind so many pages."""
        needed = LOG_HEADER_BYTES + pages * self._frame_bytes + LEFT_BYTES_MIN
        if needed <= self._length or needed > self._bytes_max or self._is_given_up:
            return
        try:
            self._lengthen(needed)
        except OSError as error:
            # A full disk is the commit's to report: this only made it faster.
            self._is_given_up = True
            _log.info("no room is kept in %s: %s", self._path, error.strerror)

    def _lengthen(self, needed: int) -> None:
        assert self._file is not None, "room is made before the end"
        self._length = os.fstat(self._file).st_size
        if needed > self._length:
            self._length += os.pwrite(self._file, bytes(STEP_BYTES), self._length)

    def forget(self) -> None:
        """The file may have been cut."""
        self._length = 0

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
