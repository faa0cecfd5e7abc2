"""Reads files of unknown origin: only regular files, without blocking on a FIFO, up to a limit."""

import os
import stat
from pathlib import Path

# Without waiting for the other end of a FIFO, and without taking a terminal for our own.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class RefusedFile(OSError):
    """A file that we refuse to read ourselves, so there is no errno."""

    def __str__(self) -> str:
        return f"{self.strerror}"


class NotRegular(RefusedFile):
    """A path that is not a regular file: a folder, a FIFO, a socket or a device."""


class TooLarge(RefusedFile):
    """A file with more bytes than its reader takes."""


def open_regular(path: str | Path) -> int:
    """Open a regular file for reading, wherever links lead; raises OSError. The caller closes it."""
    found = os.stat(path)  # noqa: PTH116  # a look first: to open some devices is to do something with them
    _insist(path, found)
    descriptor = os.open(path, _FLAGS)
    try:
        _insist(path, os.fstat(descriptor))
    except NotRegular:
        os.close(descriptor)
        raise
    return descriptor


def read_regular(path: str | Path, *, bytes_max: int) -> bytes:
    """All bytes of a regular file; raises OSError, also if there are more than `bytes_max`."""
    with os.fdopen(open_regular(path), "rb") as file:
        data = file.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise TooLarge(0, f"it has more than {bytes_max:,} bytes", str(path))
    return data


def _insist(path: str | Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise NotRegular(0, "it is not a regular file", str(path))
