"""The lock of a data directory: one server at a time, and whoever comes second learns who is there."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

BYTES_MAX = 4_096


class Holder(msgspec.Struct):
    """Who holds the directory."""

    pid: int
    url: str


class DirectoryBusy(Exception):
    """Another server works on the directory."""


class DirectoryLock:
    """Held as long as the process lives; a context manager. The system lets go of it even after kill -9."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lock"
        self._file = -1

    def __enter__(self) -> Self:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise OSError(
                f"cannot write to {self._path.parent} ({error.strerror}): check the disk and that this user "
                "may write there, or use another --data-dir"
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._file)
            raise DirectoryBusy(self._who()) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.ftruncate(self._file, 0)
        os.close(self._file)

    def announce(self, url: str) -> None:
        """Say who holds the directory and where to reach them."""
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, msgspec.json.encode(Holder(os.getpid(), url)), 0)

    def _who(self) -> str:
        holder = holder_of(self._path.parent)
        who = f"pid {holder.pid}, {holder.url}" if holder else "it is just starting"
        return f"another Holdfast works on {self._path.parent} ({who}); stop it, or use another --data-dir"


def holder_of(folder: Path) -> Holder | None:
    """Who announced themselves in the directory's lock, if anyone."""
    try:
        return msgspec.json.decode((folder / "lock").read_bytes()[:BYTES_MAX], type=Holder)
    except (OSError, msgspec.MsgspecError):
        return None
