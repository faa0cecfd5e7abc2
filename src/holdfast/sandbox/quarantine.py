"""The quarantine: what a command changed that nobody approved, kept where no program looks for it."""

import errno
import json
import os
import shutil
import stat
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

COPY_BYTES_MAX = 64 * 1024 * 1024
COPY_ENTRIES_MAX = 10_000
_ABOUT, _ASIDE = "about.json", "replaced"
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

ChangeKind: TypeAlias = Literal["created", "changed", "removed"]


class NotInQuarantine(Exception):
    """Nothing in quarantine has this id, or it can't go back; the text says why."""


class QuarantinedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder in quarantine."""

    id: str
    path: str  # where it was
    kept: str  # where it is
    taken_at: float

    def readable(self) -> "QuarantinedFile":
        """The same for people and JSON: a byte of a name that isn't UTF-8 is shown as its number."""
        return msgspec.structs.replace(self, path=readable(self.path), kept=readable(self.kept))


class QuarantinedChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change that nobody approved: what it was, where it is kept now, and what stands in its place."""

    path: str  # relative to the workspace
    kind: ChangeKind
    kept: str = ""  # where it is kept; empty if there was nothing to keep
    restored: bool = False  # whether the earlier state is back

    def sentence(self) -> str:
        """The change, for the model and for people."""
        said = f"The command {self.kind} {readable(self.path)}, which other programs run or obey later"
        kept = f"; it was moved to {readable(self.kept)}" if self.kept else ""
        back = ", and the earlier version is back" if self.restored else ""
        way = "in the page's settings or with `holdfast quarantine restore`"
        command = f" (a person can bring it back {way})" if self.kept else ""
        return f"{said}{kept}{back}{command}."


def readable(path: str) -> str:
    """A path as people and JSON read it: a byte that isn't UTF-8 is shown as its number."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


class Quarantine(Struct, frozen=True):
    """A folder in the data directory; each change gets a folder of its own. All methods block."""

    folder: Path

    def take(self, parent_fd: int, name: str, *, change_id: str, path: str, budget: "CopyBudget") -> str:
        """Move an entry of an opened folder here and return where it is; raises OSError.

        If it is on another disk it is copied, and if it is too much for that it stays in its folder under
        a name that no program knows.
        """
        _make_movable(parent_fd, name)
        place = self.folder / change_id
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = place / name
        # With escapes, because a name may hold bytes that are no text.
        (place / _ABOUT).write_text(json.dumps({"path": path}), encoding="ascii")
        try:
            os.rename(name, kept, src_dir_fd=parent_fd)
        except OSError as error:
            if error.errno not in {errno.EXDEV, errno.EPERM, errno.EACCES}:
                raise
            return self._copied(parent_fd, name, kept, budget=budget)
        return str(kept)

    def files(self) -> tuple[QuarantinedFile, ...]:
        """Return the entries, newest first, without unreadable ones."""
        try:
            names = os.listdir(self.folder)  # noqa: PTH208 - names, not paths
        except OSError:
            return ()
        found = [each for name in names if (each := self._entry(name)) is not None]
        return tuple(sorted(found, key=lambda each: (-each.taken_at, each.id)))

    def restore(self, file_id: str) -> QuarantinedFile:
        """Put it back, and what is there now in its place here; raises NotInQuarantine or OSError."""
        file = self.file(file_id)
        parent, _, name = file.path.rpartition("/")
        try:
            parent_fd = _opened(parent)
        except OSError as error:
            raise NotInQuarantine(
                f"{readable(parent)} is gone or leads elsewhere now. Copy {readable(file.kept)} yourself."
            ) from error
        own_fd = os.open(self.folder / file.id, _FOLDER_FLAGS)
        try:
            was_there = _exchanged(own_fd, parent_fd, name)
        finally:
            os.close(own_fd)
            os.close(parent_fd)
        if not was_there:
            shutil.rmtree(self.folder / file.id)
        return file

    def drop(self, file_id: str) -> QuarantinedFile:
        """Delete it for good. Raises NotInQuarantine, OSError."""
        file = self.file(file_id)
        shutil.rmtree(self.folder / file.id)
        return file

    def file(self, file_id: str) -> QuarantinedFile:
        """Return the entry with this id; raises NotInQuarantine."""
        file = next((each for each in self.files() if each.id == file_id), None)
        if file is None:
            raise NotInQuarantine(f"Nothing in quarantine has the id {file_id}.")
        return file

    def _entry(self, name: str) -> QuarantinedFile | None:
        place = self.folder / name
        try:
            path = str(json.loads((place / _ABOUT).read_bytes())["path"])
            kept = place / path.rpartition("/")[2]
            if not os.path.lexists(kept):
                return None
            taken_at = (place / _ABOUT).stat().st_mtime
        except (OSError, ValueError, LookupError, TypeError):
            return None
        return QuarantinedFile(id=name, path=path, kept=str(kept), taken_at=taken_at)

    def _copied(self, parent_fd: int, name: str, kept: Path, *, budget: "CopyBudget") -> str:
        defused = f"quarantined-{kept.parent.name}"
        os.rename(name, defused, src_dir_fd=parent_fd, dst_dir_fd=parent_fd)
        try:
            _Copy(budget).entry(parent_fd, defused, kept)
        except (_TooMuch, OSError):
            if kept.is_dir() and not kept.is_symlink():
                shutil.rmtree(kept, ignore_errors=True)
            else:
                kept.unlink(missing_ok=True)
            return defused
        _remove(parent_fd, defused)
        return str(kept)


def _make_movable(parent_fd: int, name: str) -> None:
    """A command can take away its own right to move an entry; raises OSError."""
    found = os.stat(name, dir_fd=parent_fd, follow_symlinks=False)
    own = os.geteuid()
    parent = os.fstat(parent_fd)
    if parent.st_uid == own and parent.st_mode & stat.S_IRWXU != stat.S_IRWXU:
        os.fchmod(parent_fd, stat.S_IMODE(parent.st_mode) | stat.S_IRWXU)
    if stat.S_ISDIR(found.st_mode) and found.st_uid == own and found.st_mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(name, stat.S_IMODE(found.st_mode) | stat.S_IRWXU, dir_fd=parent_fd)


def _opened(path: str) -> int:
    """Open a folder by its absolute path, one name at a time, without following links; raises OSError."""
    descriptor = os.open("/", _FOLDER_FLAGS)
    for name in path.split("/")[1:]:
        try:
            inner = os.open(name, _FOLDER_FLAGS, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


def _exchanged(own_fd: int, parent_fd: int, name: str) -> bool:
    """Put a kept entry into the folder, and what is there in its place; whether there was anything."""
    was_there = _is_in(parent_fd, name)
    if was_there:
        _move(parent_fd, name, own_fd, _ASIDE)
    try:
        _move(own_fd, name, parent_fd, name)
    except BaseException:
        if was_there:
            _move(own_fd, _ASIDE, parent_fd, name)
        raise
    if was_there:
        os.rename(_ASIDE, name, src_dir_fd=own_fd, dst_dir_fd=own_fd)
    return was_there


def _is_in(folder_fd: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _move(from_fd: int, name: str, to_fd: int, new: str) -> None:
    """Move an entry, to another disk by copying it; raises OSError or NotInQuarantine."""
    try:
        os.rename(name, new, src_dir_fd=from_fd, dst_dir_fd=to_fd)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy_and_remove(from_fd, name, to_fd, new)


def _copy_and_remove(from_fd: int, name: str, to_fd: int, new: str) -> None:
    try:
        _Copy(CopyBudget()).entry(from_fd, name, Path(f"/proc/self/fd/{to_fd}") / new)
    except BaseException as error:
        if _is_in(to_fd, new):
            _remove(to_fd, new)
        if isinstance(error, _TooMuch):
            raise NotInQuarantine(
                "This is too large to be moved to another disk. Copy it yourself."
            ) from error
        raise
    _remove(from_fd, name)


class _TooMuch(Exception):
    """More than is copied to another disk."""


class CopyBudget(Struct):
    """How much may still be copied to another disk: by one comparison, or to put one entry back."""

    entries: int = COPY_ENTRIES_MAX
    bytes: int = COPY_BYTES_MAX

    def spend(self, size: int) -> bool:
        """Take one entry of this size from it; False if it is too much."""
        if self.entries < 1 or self.bytes < size:
            return False
        self.entries -= 1
        self.bytes -= size
        return True


class _Copy(Struct, frozen=True):
    """Copies files, folders and links without following any; other kinds are left out."""

    budget: CopyBudget

    def entry(self, parent_fd: int, name: str, to: Path) -> None:
        found = os.stat(name, dir_fd=parent_fd, follow_symlinks=False)
        if not self.budget.spend(found.st_size):
            raise _TooMuch
        if stat.S_ISLNK(found.st_mode):
            to.symlink_to(os.readlink(name, dir_fd=parent_fd))
        elif stat.S_ISREG(found.st_mode):
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with os.fdopen(os.open(name, flags, dir_fd=parent_fd), "rb") as source, to.open("xb") as target:
                shutil.copyfileobj(source, target)
                os.fchmod(target.fileno(), stat.S_IMODE(found.st_mode) & 0o777)
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
