"""Keeps the write-ahead log's file longer than its contents, so that commits don't have to extend it.

When a commit extends the file, the file system must also save the new length. A commit that writes into
existing space takes about half the time.
"""

import logging
import os
from pathlib import Path

from holdfast.journal.sqlite.store_files import FRAME_HEADER_BYTES, LOG_HEADER_BYTES

_log = logging.getLogger(__name__)

STEP_BYTES = 256 * 1024
# The space to have before a commit; a larger commit extends the file on its own.
LEFT_BYTES_MIN = 32 * 1024


class WalReserve:
    """Spare room in the log of one store, made by its writer while it holds the write lock.

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
