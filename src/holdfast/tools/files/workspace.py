"""Keeps paths inside the workspace, however they are spelled and even if a link is swapped meanwhile.

Guaranteed: a path is walked from the opened workspace, one name at a time, each folder opened from
its opened parent without following links. Links are read and followed here, so one is followed only
if it stays inside; ".." returns to the folder that the walk came from. The file is then used through its
opened parent. A link that is swapped between check and use is therefore refused, not followed; and a path
that was judged leads where it led then, or is refused, even if both are inside. Only regular
files are opened; devices, FIFOs and sockets are refused before they are touched. So are `kept_out` paths,
Holdfast's own files: opening and closing its database here would release this process's locks on it.

Not guaranteed: a hard link to a file outside looks like any file inside, and a folder that someone
moves out of the workspace while it is in use is still used.
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TypeAlias

from msgspec import Struct

from holdfast.interfaces.workspace_paths import WorkspaceMoved, is_within, unmoved
from holdfast.tools.offload import offload
from holdfast.tools.shell.process_table import ON_LINUX

LINKS_MAX = 40
PATH_CHARS_MAX = 4_096
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link",
}


class PathRefused(Exception):
    """A path that the tools do not or cannot use; the text tells the model why."""


class PathMissing(PathRefused):
    """A path where nothing is."""


class Spot(Struct, frozen=True):
    """A name in an opened folder; it is not a link, and may not exist."""

    folder_fd: int
    name: str
    inside: str  # its path in the workspace, links resolved

    def look(self) -> os.stat_result | None:
        """Return the file's status, or None."""
        try:
            return os.stat(self.name, dir_fd=self.folder_fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open_file(self) -> int:
        """Open a regular file for reading; raises PathRefused for anything else."""
        found = self.look()
        if found is None:
            raise PathMissing(f"{self.inside} doesn't exist.")
        self.insist_on_a_file(found)
        # Not blocking, should a FIFO have taken its place since the look.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = os.open(self.name, flags, dir_fd=self.folder_fd)
        try:
            self.insist_on_a_file(os.fstat(descriptor))
        except PathRefused:
            os.close(descriptor)
            raise
        return descriptor

    def insist_on_a_file(self, found: os.stat_result) -> None:
        """Raise PathRefused if it is not a regular file."""
        if not stat.S_ISREG(found.st_mode):
            kind = _KINDS.get(stat.S_IFMT(found.st_mode), "a special file")
            hint = "; list it with list_files" if stat.S_ISDIR(found.st_mode) else ""
            raise PathRefused(f"{self.inside} is {kind}, not a file{hint}.")


class Folder(Struct):
    """An opened folder; closed at the end of its `with`."""

    fd: int
    inside: str
    real: str
    kept_out: tuple[str, ...] = ()  # what lies below it and is kept out, relative to it

    @property
    def path_for_children(self) -> str:
        """A path by which a child process reaches exactly this folder while it is open here."""
        return f"/proc/self/fd/{self.fd}" if ON_LINUX else self.real

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


class Workspace:
    """One folder and everything in it. All methods block except `open_folder`."""

    def __init__(self, root: Path, *, kept_out: tuple[str, ...] = (), only: tuple[str, ...] = ()) -> None:
        self._root = root
        self._kept_out = kept_out  # absolute and free of links
        self._only = only  # the same: where paths may lead, if it is not empty

    @property
    def root(self) -> Path:
        """The folder, as it was named."""
        return self._root

    def bound_to(self, places: tuple[str, ...]) -> "Workspace":
        """The same workspace, limited to paths that lead to one of these; with none, to anywhere inside."""
        return Workspace(self._root, kept_out=self._kept_out, only=places)

    @contextmanager
    def spot(self, path: str) -> Generator[Spot]:
        """Where a path leads; raises PathRefused if that is outside or a folder on the way is missing."""
        with _saying_why(path), _Walk(self._root, self._kept_out) as walk:
            spot = walk.to(path, missing=_no_folder)
            self._insist_on_place(spot)
            yield spot

    @contextmanager
    def spot_with_folders(self, path: str) -> Generator[Spot]:
        """The same, making the folders on the way."""
        with _saying_why(path), _Walk(self._root, self._kept_out) as walk:
            spot = walk.to(path, missing=self._make_folder)
            self._insist_on_place(spot)
            yield spot

    def _make_folder(self, folder_fd: int, inside: str) -> None:
        here = self._real(inside)
        if self._only and not any(is_within(place, here) for place in self._only):
            raise PathRefused(f"The path now resolves to {inside}, not to the file that was approved.")
        os.mkdir(inside.rpartition("/")[2], dir_fd=folder_fd)

    def _real(self, inside: str) -> str:
        return os.path.normpath(Path(os.path.abspath(self._root), inside))  # noqa: PTH100

    def _insist_on_place(self, spot: Spot) -> None:
        if self._only and self._real(spot.inside) not in self._only:
            raise PathRefused(f"The path now resolves to {spot.inside}, not to the file that was approved.")

    def folder(self, path: str) -> Folder:
        """Open a folder, for the caller to close."""
        with self.spot(path) as spot:
            if spot.look() is None:
                raise PathMissing(f"{spot.inside} doesn't exist.")
            descriptor = os.open(spot.name, _FOLDER_FLAGS, dir_fd=spot.folder_fd)
            real = self._real(spot.inside)
            below = tuple(os.path.relpath(own, real) for own in self._kept_out if is_within(own, real))
            return Folder(descriptor, spot.inside, real, below)

    async def open_folder(self, path: str) -> Folder:
        """The same, off the loop."""
        return await offload(lambda: self.folder(path), undo=lambda folder: os.close(folder.fd))

    def resolved(self, path: str) -> str:
        """The absolute path to show to people, with links resolved."""
        try:
            with self.spot(path) as spot:
                return self._real(spot.inside)
        except PathRefused:
            pass  # outside, or a folder is still missing, and behind that one there may be a link
        try:
            return os.path.realpath(self._root / path)
        except ValueError:
            return os.path.normpath(self._root / path)  # no path at all


Workspaces: TypeAlias = Callable[[Path], Workspace]


class _Walk:
    """The folders from the workspace down to where we are, all open."""

    def __init__(self, root: Path, kept_out: tuple[str, ...]) -> None:
        self._kept_out = kept_out
        self._real = unmoved(root)
        self._fds = [os.open(self._real, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
        self._names: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._fds:
            os.close(descriptor)

    def to(self, path: str, *, missing: Callable[[int, str], None]) -> Spot:
        if len(path) > PATH_CHARS_MAX or "\0" in path:
            raise PathRefused("Invalid path.")
        ahead = deque(self._parts(path))
        links = 0
        while ahead:
            name = ahead.popleft()
            if name == "..":
                self._up()
                continue
            target = _link(name, self._fds[-1])
            if target is not None:
                links += 1
                if links > LINKS_MAX:
                    raise PathRefused(f"{path} goes through too many links.")
                ahead.extendleft(reversed(self._parts(target)))
            elif ahead:
                self._down(name, missing)
            else:
                return Spot(self._fds[-1], name, self._inside(name))
        return Spot(self._fds[-1], ".", self._inside())

    def _inside(self, *names: str) -> str:
        """The path relative to the workspace; raises PathRefused if it is kept out."""
        inside = "/".join([*self._names, *names]) or "."
        real = str(Path(self._real, inside))
        if any(is_within(real, own) for own in self._kept_out):
            raise PathRefused(f"{inside} belongs to Holdfast, so tools can't access it.")
        return inside

    def _parts(self, path: str) -> list[str]:
        if path.startswith("/"):
            # Lexically: what ".." in it means is found out by the walk.
            if not f"{path}/".startswith(f"{self._real.rstrip('/')}/"):
                raise PathRefused(f"{path} is outside the workspace {self._real}.")
            path = path[len(self._real) :]
            while len(self._fds) > 1:
                self._up()
        return [part for part in path.split("/") if part not in {"", "."}]

    def _up(self) -> None:
        if not self._names:
            raise PathRefused(f"That path is outside the workspace {self._real}.")
        os.close(self._fds.pop())
        self._names.pop()

    def _down(self, name: str, missing: Callable[[int, str], None]) -> None:
        inside = self._inside(name)
        try:
            descriptor = os.open(name, _FOLDER_FLAGS, dir_fd=self._fds[-1])
        except FileNotFoundError:
            missing(self._fds[-1], inside)
            descriptor = os.open(name, _FOLDER_FLAGS, dir_fd=self._fds[-1])
        self._fds.append(descriptor)
        self._names.append(name)


def _link(name: str, folder_fd: int) -> str | None:
    try:
        return os.readlink(name, dir_fd=folder_fd)
    except OSError as error:
        if error.errno in {errno.EINVAL, errno.ENOENT}:
            return None  # no link, or nothing
        raise


def _no_folder(_folder_fd: int, inside: str) -> None:
    raise PathMissing(f"The folder {inside} doesn't exist.")


@contextmanager
def _saying_why(path: str) -> Generator[None]:
    try:
        yield
    except WorkspaceMoved as error:
        raise PathRefused(str(error)) from error
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR}:
            raise PathRefused(f"{path}: part of the path isn't a folder, or it just changed.") from error
        raise PathRefused(f"{path}: {error.strerror}.") from error
    except UnicodeEncodeError as error:
        raise PathRefused("Invalid path.") from error
