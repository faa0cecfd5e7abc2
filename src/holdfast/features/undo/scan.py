"""Reads a workspace as it is now: every file that is covered, with its contents' name, and what is not.

Folders are opened from their opened parents without following links, and only regular files are read. A file
whose size, times and inode are those of the last scan is not read again. Blocks.
"""

import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Literal, TypeAlias

from msgspec import Struct, field

from holdfast.features.undo.packs import FOLDER_MODE, Entry, Kind, object_name, tree_data
from holdfast.interfaces.workspace_paths import is_within
from holdfast.policy.secret_names import is_secret
from holdfast.tools.files.ignore_rules import CACHES, IgnoreRules, parse_rules

WhyNot: TypeAlias = Literal["ignored", "secret", "too large", "git", "not a file", "unreadable", "too deep"]

DEPTH_MAX: Final = 100
NOT_COVERED_MAX: Final = 10_000
IGNORE_FILE_BYTES_MAX: Final = 256 * 1024
_SETTLED_NS: Final = 100_000_000  # a file that changed this recently may change again without new times
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_READ_BYTES: Final = 1024 * 1024
# Files and folders that don't exist yet are left out by their names alone.
_NO_FILE: Final = os.stat_result((stat.S_IFREG, *[0] * 9))
_NO_FOLDER: Final = os.stat_result((stat.S_IFDIR, *[0] * 9))


class ScanStopped(Exception):
    """The scan was ended early; the text says why."""


class TooMuch(ScanStopped):
    """The workspace is beyond a limit, and will be the next time too."""


class ScanLimits(Struct, frozen=True):
    """How much of a workspace is stored, and how long that may take."""

    seconds: float = 20.0
    files: int = 100_000
    file_bytes: int = 10_000_000
    total_bytes: int = 2_000_000_000


Stamp: TypeAlias = tuple[int, int, int, int, int]  # mode, size, mtime, ctime, inode
Known: TypeAlias = dict[str, tuple[Stamp, bytes]]  # by path; only of files that had settled


class NotCovered(Struct, frozen=True):
    """A file or folder that is not stored; `mark` changes if a file does, as far as its times tell."""

    path: str
    why: WhyNot
    mark: str = ""


def _nothing_known() -> Known:
    return {}


class Scanned(Struct):
    """A workspace at one time."""

    root: bytes = b""  # the name of its tree
    files: int = 0
    bytes: int = 0
    read: int = 0  # files whose contents were read
    not_covered: list[NotCovered] = field(default_factory=list[NotCovered])
    not_covered_count: int = 0
    known: Known = field(default_factory=_nothing_known)


Put: TypeAlias = Callable[[Kind, bytes, bytes], None]  # kind, data, name


class _Scan(Struct):
    """One scan under way."""

    put: Put
    known: Known
    limits: ScanLimits
    stopping: Callable[[], bool]
    kept_out: frozenset[tuple[int, int]]  # device and inode of Holdfast's own folders
    only_counts: bool  # reads no file
    result: Scanned = field(default_factory=Scanned)
    started_s: float = field(default_factory=time.monotonic)

    def folder(self, fd: int, path: str, *, rules: list[tuple[int, IgnoreRules]], depth: int) -> bytes:
        """Store a folder and everything below it; returns the name of its tree."""
        self._check()
        if (own := self._rules(fd)) is not None:
            rules = [*rules, (len(path), own)]
        with os.scandir(fd) as listing:
            found = sorted(listing, key=lambda entry: entry.name)
        entries: list[tuple[bytes, Entry]] = []
        for entry in found:
            inside = path + entry.name
            try:
                status = entry.stat(follow_symlinks=False)
                why = self._left_out(entry.name, inside, status, rules)
                if why:
                    self._not_covered(inside, why, status)
                    continue
                stored = self._entry(fd, entry.name, inside, status=status, rules=rules, depth=depth)
            except FileNotFoundError:
                continue  # removed while we looked
            except OSError:
                self._not_covered(inside, "unreadable", None)
                continue
            if stored is not None:
                entries.append((os.fsencode(entry.name), stored))
        data = tree_data(entries)
        name = object_name("tree", data)
        self.put("tree", data, name)
        return name

    def _entry(
        self,
        fd: int,
        name: str,
        inside: str,
        *,
        status: os.stat_result,
        rules: list[tuple[int, IgnoreRules]],
        depth: int,
    ) -> Entry | None:
        if stat.S_ISREG(status.st_mode):
            return self._file(fd, name, inside, status)
        if stat.S_ISLNK(status.st_mode):
            target = os.fsencode(os.readlink(name, dir_fd=fd))
            blob = object_name("blob", target)
            self.put("blob", target, blob)
            self._count(status)
            return Entry(stat.S_IFLNK, blob)
        if depth >= DEPTH_MAX:
            self._not_covered(inside, "too deep", None)
            return None
        inner = os.open(name, _FOLDER, dir_fd=fd)
        try:
            tree = self.folder(inner, f"{inside}/", rules=rules, depth=depth + 1)
        finally:
            os.close(inner)
        return Entry(FOLDER_MODE, tree)

    def covers(self, fd: int, parts: Sequence[str], *, rules: list[tuple[int, IgnoreRules]]) -> bool:
        """Whether a file is stored, or would be if it existed; `parts` lead to it from the folder."""
        folder: int | None = fd  # None: it doesn't exist yet
        inside = ""
        with ExitStack() as opened:
            for depth, name in enumerate(parts):
                is_last = depth == len(parts) - 1
                if folder is not None and (own := self._rules(folder)) is not None:
                    rules = [*rules, (len(inside), own)]
                inside += name
                status = _status(folder, name) or (_NO_FILE if is_last else _NO_FOLDER)
                if depth > DEPTH_MAX or self._left_out(name, inside, status, rules):
                    return False
                if stat.S_ISREG(status.st_mode) is not is_last:
                    return False
                if not is_last:
                    folder = _opened(folder, name, status)
                    if folder is not None:
                        opened.callback(os.close, folder)
                    inside += "/"
        return True

    def _file(self, fd: int, name: str, inside: str, status: os.stat_result) -> Entry | None:
        if self.only_counts:
            self._count(status)
            return None
        stamp = _stamp(status)
        known = self.known.get(inside)
        if known is not None and known[0] == stamp:
            blob = known[1]
            self.result.known[inside] = known
        else:
            data, status = self._contents(fd, name)
            if data is None:
                self._not_covered(inside, "too large", status)
                return None
            blob, stamp = object_name("blob", data), _stamp(status)
            self.put("blob", data, blob)
            self.result.read += 1
            if max(status.st_mtime_ns, status.st_ctime_ns) + _SETTLED_NS < time.time_ns():
                self.result.known[inside] = (stamp, blob)
        self._count(status)
        return Entry(stat.S_IFREG | stat.S_IMODE(status.st_mode) & 0o777, blob)

    def _count(self, status: os.stat_result) -> None:
        self.result.files += 1
        self.result.bytes += status.st_size
        if self.result.files > self.limits.files:
            raise TooMuch(f"the workspace has more than {self.limits.files:,} files")
        if self.result.bytes > self.limits.total_bytes:
            raise TooMuch(f"the workspace is larger than {self.limits.total_bytes / 1e6:,.0f} MB")

    def _contents(self, fd: int, name: str) -> tuple[bytes | None, os.stat_result]:
        """A file's contents and its state before they were read; None if it is too large."""
        self._check()
        descriptor = os.open(name, _FILE, dir_fd=fd)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise FileNotFoundError(name)  # something else took its place
            pieces: list[bytes] = []
            size = 0
            while piece := os.read(descriptor, _READ_BYTES):
                size += len(piece)
                if size > self.limits.file_bytes:
                    return None, status
                pieces.append(piece)
            return b"".join(pieces), status
        finally:
            os.close(descriptor)

    def _left_out(
        self, name: str, inside: str, status: os.stat_result, rules: list[tuple[int, IgnoreRules]]
    ) -> WhyNot | None:
        """Why an entry is not covered; None if it is."""
        mode = status.st_mode
        is_folder = stat.S_ISDIR(mode)
        if name.lower() == ".git":
            return "git"
        if not (is_folder or stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            return "not a file"
        if (status.st_dev, status.st_ino) in self.kept_out:
            return "secret"
        for start, one in reversed(rules):
            if (verdict := one.verdict(inside[start:], is_folder=is_folder)) is not None:
                if verdict:
                    return "ignored"
                break
        # Names were judged when the file was first stored.
        if inside not in self.known and is_secret(f"/{inside}"):
            return "secret"
        if not is_folder and status.st_size > self.limits.file_bytes:
            return "too large"
        return None

    def _not_covered(self, path: str, why: WhyNot, status: os.stat_result | None) -> None:
        self.result.not_covered_count += 1
        if len(self.result.not_covered) < NOT_COVERED_MAX:
            is_folder = status is not None and stat.S_ISDIR(status.st_mode)
            mark = "" if status is None or is_folder else f"{status.st_size} {status.st_mtime_ns}"
            self.result.not_covered.append(NotCovered(f"{path}/" if is_folder else path, why, mark))

    def _rules(self, fd: int) -> IgnoreRules | None:
        text = _small_text(fd, ".gitignore")
        return parse_rules(text) if text else None

    def _check(self) -> None:
        if self.stopping():
            raise ScanStopped("it was stopped")
        if time.monotonic() - self.started_s > self.limits.seconds:
            raise TooMuch(f"reading the workspace takes longer than {self.limits.seconds:g} s")


def _status(folder: int | None, name: str) -> os.stat_result | None:
    if folder is None:
        return None
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _opened(folder: int | None, name: str, status: os.stat_result) -> int | None:
    return None if folder is None or status is _NO_FOLDER else os.open(name, _FOLDER, dir_fd=folder)


def covers(root: str, path: str, *, limits: ScanLimits, kept_out: tuple[str, ...] = ()) -> bool:
    """Return whether a scan of the workspace stores this file, or would if it existed. Blocks.

    Both paths have their links resolved.
    """
    if not is_within(path, root) or path == root:
        return False
    one = _Scan(_drop, {}, limits, lambda: False, frozenset(_identities(kept_out)), only_counts=True)
    try:
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return one.covers(fd, Path(path).relative_to(root).parts, rules=_rules_of(fd))
        finally:
            os.close(fd)
    except OSError:
        return False


def scan(
    root: str,
    *,
    put: Put,
    known: Known,
    limits: ScanLimits,
    stopping: Callable[[], bool] = lambda: False,
    kept_out: tuple[str, ...] = (),
) -> Scanned:
    """Read a workspace and hand every object to `put`; raises ScanStopped or OSError.

    A workspace of which nothing is known is counted first, so that one that is too large is not read in vain.
    """
    own = frozenset(_identities(kept_out))
    if not known:
        _walk(root, _Scan(_drop, known, limits, stopping, own, only_counts=True))
    return _walk(root, _Scan(put, known, limits, stopping, own, only_counts=False))


def _walk(root: str, one: _Scan) -> Scanned:
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        one.result.root = one.folder(fd, "", rules=_rules_of(fd), depth=0)
    finally:
        os.close(fd)
    return one.result


def _rules_of(fd: int) -> list[tuple[int, IgnoreRules]]:
    """The rules of a workspace that are in no `.gitignore`."""
    # A later rule wins, so a repository that keeps one of the caches can say so.
    return [(0, parse_rules(text)) for text in (CACHES, _excluded(fd)) if text]


def _drop(_kind: Kind, _data: bytes, _name: bytes) -> None:
    """Store nothing."""


def _excluded(fd: int) -> str:
    """The text of `.git/info/exclude`, whose patterns are this copy's own."""
    opened: list[int] = [fd]
    try:
        for name in (".git", "info"):
            opened.append(os.open(name, _FOLDER, dir_fd=opened[-1]))
        return _small_text(opened[-1], "exclude")
    except OSError:
        return ""
    finally:
        for one in opened[1:]:
            os.close(one)


def _small_text(fd: int, name: str) -> str:
    """The text of a small regular file; empty if there is none."""
    try:
        descriptor = os.open(name, _FILE, dir_fd=fd)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return os.read(descriptor, IGNORE_FILE_BYTES_MAX).decode("utf-8", "surrogateescape")
    finally:
        os.close(descriptor)


def _identities(paths: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    for path in paths:
        try:
            found = Path(path).stat()
        except OSError:
            continue
        yield found.st_dev, found.st_ino


def _stamp(status: os.stat_result) -> Stamp:
    return (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
