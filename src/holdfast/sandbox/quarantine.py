"""The quarantine: what a command changed that nobody approved, kept where no program looks for it."""

import errno
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

COPY_BYTES_MAX = 64 * 1024 * 1024
COPY_ENTRIES_MAX = 10_000
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

ChangeKind: TypeAlias = Literal["created", "changed", "removed"]


class QuarantinedChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change that nobody approved: what it was, where it is kept now, and what stands in its place."""

    path: str  # relative to the workspace
    kind: ChangeKind
    kept: str = ""  # where it is kept; empty if there was nothing to keep
    restored: bool = False  # whether the earlier state is back

    def sentence(self) -> str:
        """The change, for the model and for people."""
        said = f"The command {self.kind} {self.path}, which other programs run or obey later"
        kept = f"; it was moved to {self.kept}" if self.kept else ""
        back = ", and the earlier version is back" if self.restored else ""
        return f"{said}{kept}{back}."


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A folder in the data directory; each change gets a folder of its own. All methods block."""

    folder: Path

    def take(self, parent_fd: int, name: str, *, change_id: str, path: str) -> str:
        """Move an entry of an opened folder here and return where it is; raises OSError.

        If it is on another disk it is copied, and if it is too much for that it stays in its folder under
        a name that no program knows.
        """
        place = self.folder / change_id
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = place / name
        (place / "about.json").write_bytes(msgspec.json.encode({"path": path}))
        try:
            os.rename(name, kept, src_dir_fd=parent_fd)
        except OSError as error:
            if error.errno not in {errno.EXDEV, errno.EPERM, errno.EACCES}:
                raise
            return self._copied(parent_fd, name, kept)
        return str(kept)

    def _copied(self, parent_fd: int, name: str, kept: Path) -> str:
        defused = f"{name}.quarantined-{kept.parent.name}"
        os.rename(name, defused, src_dir_fd=parent_fd, dst_dir_fd=parent_fd)
        try:
            _Copy().entry(parent_fd, defused, kept)
        except (_TooMuch, OSError):
            if kept.is_dir() and not kept.is_symlink():
                shutil.rmtree(kept, ignore_errors=True)
            else:
                kept.unlink(missing_ok=True)
            return defused
        _remove(parent_fd, defused)
        return str(kept)


class _TooMuch(Exception):
    """More than is copied to another disk."""


class _Copy:
    """Copies files, folders and links without following any; other kinds are left out."""

    def __init__(self) -> None:
        self._bytes = 0
        self._entries = 0

    def entry(self, parent_fd: int, name: str, to: Path) -> None:
        self._entries += 1
        found = os.stat(name, dir_fd=parent_fd, follow_symlinks=False)
        self._bytes += found.st_size
        if self._entries > COPY_ENTRIES_MAX or self._bytes > COPY_BYTES_MAX:
            raise _TooMuch
        if stat.S_ISLNK(found.st_mode):
            to.symlink_to(os.readlink(name, dir_fd=parent_fd))
        elif stat.S_ISREG(found.st_mode):
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with os.fdopen(os.open(name, flags, dir_fd=parent_fd), "rb") as source, to.open("xb") as target:
                shutil.copyfileobj(source, target)
        elif stat.S_ISDIR(found.st_mode):
            to.mkdir(mode=0o700)
            self._folder(parent_fd, name, to)

    def _folder(self, parent_fd: int, name: str, to: Path) -> None:
        descriptor = os.open(name, _FOLDER_FLAGS, dir_fd=parent_fd)
        try:
            with os.scandir(descriptor) as entries:
                names = [entry.name for entry in entries]
            for each in names:
                self.entry(descriptor, each, to / each)
        finally:
            os.close(descriptor)


def _remove(parent_fd: int, name: str) -> None:
    """Remove an entry and everything below it, without following links."""
    found = os.stat(name, dir_fd=parent_fd, follow_symlinks=False)
    if stat.S_ISDIR(found.st_mode):
        shutil.rmtree(name, dir_fd=parent_fd)
    else:
        os.unlink(name, dir_fd=parent_fd)
