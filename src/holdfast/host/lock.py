"""The lock of a data directory: one server at a time, and whoever comes second learns who is there."""

import fcntl
import logging
import os
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

BYTES_MAX = 4_096
HOLDER_BYTES = 128
_log = logging.getLogger(__name__)


class LockHolder(msgspec.Struct):
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
        self._said = b""
        self._is_shared = False

    def __enter__(self) -> Self:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
        self._write(b"")
        os.close(self._file)

    def announce(self, url: str) -> None:
        """Say who holds the directory and where to reach them."""
        self._said = msgspec.json.encode(LockHolder(os.getpid(), url))
        self._write(self._said)

    def _write(self, text: bytes) -> None:
        """Blanks stay behind it, so that the next one to write needs no room on a full disk."""
        try:
            os.pwrite(self._file, text.ljust(HOLDER_BYTES), 0)
            os.ftruncate(self._file, max(len(text), HOLDER_BYTES))
        except OSError as error:
            _log.warning("other commands cannot find this server: %s: %s", self._path, error.strerror)

    def keep(self) -> None:
        """Take the lock again if someone removed its file: another server would start beside this one."""
        try:
            if os.path.samestat(self._path.stat(), os.fstat(self._file)):
                if self._path.stat().st_size < len(self._said):
                    self._write(self._said)
                return
        except FileNotFoundError:
            pass
        self._take_again()

    def _take_again(self) -> None:
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return  # the directory is gone: the store says so
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            if not self._is_shared:
                self._is_shared = True
                _log.error("%s was removed, and another Holdfast works on this directory now", self._path)
            return
        _log.warning("another program removed or replaced %s; it is there again", self._path)
        os.close(self._file)
        self._file = file
        self._write(self._said)

    def _who(self) -> str:
        holder = read_holder(self._path.parent)
        who = f"pid {holder.pid}, {holder.url}" if holder else "it is just starting"
        return f"another Holdfast works on {self._path.parent} ({who}); stop it, or use another --data-dir"


def read_holder(folder: Path) -> LockHolder | None:
    """Who announced themselves in the directory's lock, if anyone."""
    try:
        return msgspec.json.decode((folder / "lock").read_bytes()[:BYTES_MAX], type=LockHolder)
    except (OSError, msgspec.MsgspecError):
        return None
