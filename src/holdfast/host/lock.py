"""The lock of a data directory: one server at a time, and others can find out where it listens."""

import fcntl
import logging
import os
import uuid
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from msgspec.structs import replace

BYTES_MAX = 4_096
HOLDER_BYTES = 128
_log = logging.getLogger(__name__)


class LockHolder(msgspec.Struct, omit_defaults=True):
    """The process that holds the lock, its URL, and its configuration file if it has one.

    `socket` is the Unix socket that it listens on, and `certificate` the file with its certificate, if any.
    """

    pid: int
    url: str
    config: str = ""
    socket: str = ""
    certificate: str = ""

    @property
    def shown(self) -> str:
        """The address for people."""
        return self.socket or self.url


class DirectoryBusy(Exception):
    """Another server uses the directory."""


class DirectoryLock:
    """A context manager that holds the lock; the system releases it even after kill -9."""

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
                f"can't write to {self._path.parent} ({error.strerror}): check the disk and the permissions, "
                "or use another --data-dir"
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

    def announce(
        self, url: str, *, config: Path | None = None, socket: str = "", certificate: str = ""
    ) -> None:
        """Write down our pid, URL and configuration file, so that other commands find the server."""
        holder = LockHolder(os.getpid(), url, socket=socket, certificate=certificate)
        file = "" if config is None else str(config.resolve())
        self._said = msgspec.json.encode(replace(holder, config=file))
        if len(self._said) > BYTES_MAX:
            self._said = msgspec.json.encode(holder)
        self._write(self._said)

    def _write(self, text: bytes) -> None:
        """Pad with blanks, so that the next server needs no room on a full disk."""
        try:
            os.pwrite(self._file, text.ljust(HOLDER_BYTES), 0)
            os.ftruncate(self._file, max(len(text), HOLDER_BYTES))
        except OSError as error:
            _log.warning("other commands can't find this server: %s: %s", self._path, error.strerror)

    def keep(self) -> None:
        """Take the lock again if someone removed its file, so that no second server can start."""
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
            return  # the directory is gone, which the store reports
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            if not self._is_shared:
                self._is_shared = True
                _log.error("%s was removed, and another Holdfast now uses this directory", self._path)
            return
        _log.warning("another program removed or replaced %s; Holdfast restored it", self._path)
        os.close(self._file)
        self._file = file
        self._write(self._said)

    def _who(self) -> str:
        holder = read_holder(self._path.parent)
        who = f"pid {holder.pid}, {holder.shown}" if holder else "still starting"
        return f"another Holdfast is using {self._path.parent} ({who}); stop it, or use another --data-dir"


def identity_of(folder: Path) -> str:
    """A name for the lock of this directory on this machine, which one living process can hold; blocks.

    It changes when the machine is started again, and when the directory is copied or replaced.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = f"{uuid.getnode():x}"  # not Linux
    found = (folder / "lock").stat()
    named = f"{boot} {os.path.realpath(folder)} {found.st_dev} {found.st_ino}"
    return sha256(named.encode("utf-8", "surrogateescape")).hexdigest()


def read_holder(folder: Path) -> LockHolder | None:
    """Return the holder of the directory's lock, if it's known."""
    try:
        return msgspec.json.decode((folder / "lock").read_bytes()[:BYTES_MAX], type=LockHolder)
    except (OSError, msgspec.MsgspecError):
        return None
