"""Puts files of a workspace back: a plan that can be carried out again after a crash, as often as needed.

Every folder is opened from its opened parent without following links. New contents are first written to a
staging folder in the workspace, and then renamed into place. A file that is neither as the plan expects it
nor as the plan wants it is left alone. Blocks.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from holdfast.features.undo.packs import Entry, object_name

T = TypeVar("T")

STAGING: Final = ".holdfast-undo-"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_THERE: Final = (FileNotFoundError, NotADirectoryError)
_THREADS: Final = 16
_BATCH: Final = 256
_SYNCED_ALONE_MAX: Final = 100  # more files or folders are synced at once, with the whole file system
_COMPARED_BYTES_MAX: Final = 64 * 1024 * 1024  # nothing larger is ever stored

Reach = Callable[[str], None]  # told before each step, so that tests can stop there


class FileStep(msgspec.Struct, frozen=True, array_like=True):
    """One file: how it is now, and how it is to be; (0, b"") is no file."""

    path: bytes
    expected: tuple[int, bytes]
    target: tuple[int, bytes]


class Plan(msgspec.Struct, frozen=True, array_like=True):
    """Everything that one restoration does.

    `folders` are removed if they are empty then; `new_folders` are those that it makes.
    """

    steps: tuple[FileStep, ...]
    folders: tuple[bytes, ...] = ()
    new_folders: tuple[bytes, ...] = ()

    @property
    def encoded(self) -> bytes:
        """The plan as it is stored."""
        return msgspec.msgpack.encode(self)

    @property
    def digest(self) -> str:
        """Return the digest that identifies the plan."""
        return sha256(self.encoded).hexdigest()

    def inverse(self) -> "Plan":
        """The plan that takes this one back."""
        steps = tuple(FileStep(one.path, one.target, one.expected) for one in self.steps)
        return Plan(steps, self.new_folders, self.folders)


def decode_plan(data: bytes) -> Plan:
    """A stored plan."""
    return msgspec.msgpack.decode(data, type=Plan)


def state_of(entry: Entry | None) -> tuple[int, bytes]:
    """An entry as a step writes it."""
    return (0, b"") if entry is None else (entry.mode, entry.name)


class Restored(Struct, frozen=True):
    """The result of a plan: `done` files are restored; the others are named with the reason."""

    done: int
    left: tuple[tuple[bytes, str], ...] = ()


class CannotStage(Exception):
    """The workspace can't take the files; nothing was changed. The text says why."""


class Restorer:
    """Carries out one plan in one workspace."""

    def __init__(
        self, root: str, plan: Plan, *, undo_id: str, blob: Callable[[bytes], bytes], reach: Reach
    ) -> None:
        self._root = root
        self._plan = plan
        self._staging = STAGING + undo_id
        self._blob = blob
        self._reach = reach

    def stage(self) -> None:
        """Write all new contents beside the workspace's files; raises CannotStage and leaves nothing then."""
        with _opened(self._root) as root_fd:
            try:
                self._clear(root_fd)
                self._check_folders(root_fd)
                self._write_staged(root_fd)
            except OSError as error:
                self._clear(root_fd)
                where = f" ({os.fsdecode(error.filename)})" if error.filename else ""
                raise CannotStage(f"{error.strerror or error}{where}") from error

    def _check_folders(self, root_fd: int) -> None:
        """Raise OSError if a folder whose entries must change can't be written."""
        for folder in sorted({_parent(step.path) for step in self._plan.steps}):
            with suppress(*_NOT_THERE), _walked(root_fd, folder) as fd:
                if not os.access(".", os.W_OK | os.X_OK, dir_fd=fd, effective_ids=True):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), folder or b".")

    def _write_staged(self, root_fd: int) -> None:
        os.mkdir(self._staging, 0o700, dir_fd=root_fd)
        fd = os.open(self._staging, _FOLDER, dir_fd=root_fd)
        try:
            coming = [(nth, step) for nth, step in enumerate(self._plan.steps) if step.target[0]]
            one_by_one = len(coming) <= _SYNCED_ALONE_MAX

            def write(nth: int, step: FileStep) -> None:
                data = self._blob(step.target[1])
                _write_file(fd, str(nth), data=data, mode=step.target[0], durable=one_by_one)

            for _ in self._in_threads("stage", (partial(write, nth, step) for nth, step in coming)):
                pass
            if not one_by_one:
                _sync_file_system(fd)
            os.fsync(fd)
        finally:
            os.close(fd)

    def _in_threads(self, step: str, calls: Iterable[Callable[[], T]]) -> Iterator[T]:
        """The results of calls, in order: while one waits for the disk, others go on."""
        ahead = iter(calls)
        with ThreadPoolExecutor(_THREADS) as pool:
            while batch := list(islice(ahead, _BATCH)):
                under_way: list[Future[T]] = []
                for call in batch:
                    self._reach(step)
                    under_way.append(pool.submit(call))
                yield from [one.result() for one in under_way]

    def apply(self) -> Restored:
        """Put the staged files in place and remove what is not wanted; can be repeated after a crash."""
        with _opened(self._root) as root_fd:
            if not self._is_staged(root_fd):
                self._clear(root_fd)
                self._write_staged(root_fd)
            numbered = list(enumerate(self._plan.steps))
            # First what goes, the deepest first: it may be in the way of what comes.
            going = sorted(
                (item for item in numbered if not item[1].target[0]),
                key=lambda item: -item[1].path.count(b"/"),
            )
            coming = [item for item in numbered if item[1].target[0]]
            left = self._each(root_fd, going)
            self._remove_folders(root_fd)
            left += self._each(root_fd, coming)
            self._reach("clear")
            self._clear(root_fd)
            self._sync(root_fd)
        return Restored(len(self._plan.steps) - len(left), tuple(left))

    def _each(self, root_fd: int, items: Sequence[tuple[int, FileStep]]) -> list[tuple[bytes, str]]:
        """Carry out these steps; which were not, and why."""
        calls = (partial(self._one, root_fd, nth, step) for nth, step in items)
        outcomes = zip(items, self._in_threads("apply", calls), strict=True)
        return [(step.path, why) for (_, step), why in outcomes if why]

    def discard(self) -> None:
        """Remove the staging folder: the plan is not carried out."""
        with suppress(*_NOT_THERE), _opened(self._root) as root_fd:
            self._clear(root_fd)

    def _one(self, root_fd: int, nth: int, step: FileStep) -> str:
        """Carry out one step; returns why it was not."""
        try:
            current = current_state(root_fd, step.path)
            if current == step.target:
                return ""
            if current != step.expected:
                return "it has changed in the meantime"
            if not step.target[0]:
                with _walked(root_fd, _parent(step.path)) as fd:
                    os.unlink(_last(step.path), dir_fd=fd)
                return ""
            with _walked(root_fd, _parent(step.path), make=True) as fd:
                staged = f"{self._staging}/{nth}"
                os.rename(staged, _last(step.path), src_dir_fd=root_fd, dst_dir_fd=fd)
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def _remove_folders(self, root_fd: int) -> None:
        for folder in sorted(self._plan.folders, key=lambda path: -path.count(b"/")):
            self._reach("folder")
            with suppress(OSError), _walked(root_fd, _parent(folder)) as fd:
                os.rmdir(_last(folder), dir_fd=fd)  # fails, and stays, if it is not empty

    def _is_staged(self, root_fd: int) -> bool:
        """Whether each step that is still to be done has its file in the staging folder."""
        try:
            fd = os.open(self._staging, _FOLDER, dir_fd=root_fd)
        except OSError:
            return False
        try:
            there = _names(fd)
        finally:
            os.close(fd)
        return all(
            str(nth) in there or current_state(root_fd, step.path) == step.target
            for nth, step in enumerate(self._plan.steps)
            if step.target[0]
        )

    def _clear(self, root_fd: int) -> None:
        try:
            fd = os.open(self._staging, _FOLDER, dir_fd=root_fd)
        except FileNotFoundError:
            return
        except OSError:
            os.unlink(self._staging, dir_fd=root_fd)  # someone put a link or a file there
            return
        try:
            for name in _names(fd):
                os.unlink(name, dir_fd=fd)
        finally:
            os.close(fd)
        os.rmdir(self._staging, dir_fd=root_fd)

    def _sync(self, root_fd: int) -> None:
        folders = {_parent(step.path) for step in self._plan.steps}
        if len(folders) > _SYNCED_ALONE_MAX:
            _sync_file_system(root_fd)
            return
        for folder in folders:
            with suppress(OSError), _walked(root_fd, folder) as fd:
                os.fsync(fd)


def current_state(root_fd: int, path: bytes) -> tuple[int, bytes]:
    """The file or link that is at a path now, found without following links.

    Where there is none, or only a folder, it is (0, b""); a device or the like is (its type, b"").
    """
    try:
        with _walked(root_fd, _parent(path)) as fd:
            status = os.stat(_last(path), dir_fd=fd, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                return stat.S_IFLNK, object_name("blob", os.readlink(_last(path), dir_fd=fd))
            if stat.S_ISDIR(status.st_mode):
                return 0, b""
            if not stat.S_ISREG(status.st_mode):
                return stat.S_IFMT(status.st_mode), b""
            return _file_state(fd, _last(path))
    except _NOT_THERE:
        return 0, b""
    except OSError as error:
        if error.errno == errno.ELOOP:
            return 0, b""  # a folder on the way is a link now, so the path has no file of its own
        raise


def current_states(root: str, paths: Iterable[bytes]) -> dict[bytes, tuple[int, bytes]]:
    """The same for many paths; one that can't be read is (-1, b"")."""
    found: dict[bytes, tuple[int, bytes]] = {}
    with _opened(root) as root_fd:
        for path in paths:
            try:
                found[path] = current_state(root_fd, path)
            except OSError:
                found[path] = (-1, b"")
    return found


def missing_folders(root: str, paths: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return those paths that aren't folders now."""
    missing: list[bytes] = []
    with _opened(root) as root_fd:
        for path in paths:
            try:
                with _walked(root_fd, path):
                    pass
            except OSError:
                missing.append(path)
    return tuple(missing)


def contents_of(root: str, path: bytes) -> bytes:
    """The contents of a file, or the target of a link; raises OSError."""
    with _opened(root) as root_fd, _walked(root_fd, _parent(path)) as fd:
        name = _last(path)
        if stat.S_ISLNK(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
            return os.readlink(name, dir_fd=fd)
        with os.fdopen(os.open(name, _FILE, dir_fd=fd), "rb") as file:
            return file.read(_COMPARED_BYTES_MAX)


def _file_state(fd: int, name: bytes) -> tuple[int, bytes]:
    descriptor = os.open(name, _FILE, dir_fd=fd)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return stat.S_IFMT(status.st_mode), b""
        if status.st_size > _COMPARED_BYTES_MAX:
            return status.st_mode, b""
        return stat.S_IFREG | stat.S_IMODE(status.st_mode) & 0o777, object_name("blob", file.read())


def _sync_file_system(fd: int) -> None:
    """Bring everything on the file system of this descriptor to the disk; raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "syncfs"):
        os.sync()
    elif libc.syncfs(fd) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _write_file(fd: int, name: str, *, data: bytes, mode: int, durable: bool) -> None:
    if stat.S_ISLNK(mode):
        os.symlink(data, name, dir_fd=fd)
        return
    descriptor = os.open(name, _NEW, 0o600, dir_fd=fd)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(descriptor, stat.S_IMODE(mode))
        if durable:
            os.fsync(descriptor)


@contextmanager
def _opened(root: str) -> Generator[int]:
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _walked(root_fd: int, folder: bytes, *, make: bool = False) -> Generator[int]:
    """A folder below the root, opened step by step without following links."""
    fd = os.dup(root_fd)
    try:
        for part in folder.split(b"/") if folder else ():
            try:
                inner = os.open(part, _FOLDER, dir_fd=fd)
            except FileNotFoundError:
                if not make:
                    raise
                with suppress(FileExistsError):  # another thread has just made it
                    os.mkdir(part, dir_fd=fd)
                inner = os.open(part, _FOLDER, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def _names(fd: int) -> set[str]:
    with os.scandir(fd) as entries:
        return {entry.name for entry in entries}


def _parent(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]


def _last(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]
