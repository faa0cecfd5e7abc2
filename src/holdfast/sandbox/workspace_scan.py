"""Finds the secret and the protected files of a folder by their names, again before each command.

A second look at the same folder only reads the folders that changed meanwhile, so it costs one `stat` per
folder. Folders of dependencies and caches are left out: what they hold is published anyway.
"""

import os
import re
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from holdfast.policy.autorun_files import GIT_PROTECTED, is_protected
from holdfast.policy.secret_names import MAY_BE_PLAIN, is_secret
from holdfast.sandbox.profile import MOUNTS_MAX

ENTRIES_MAX = 200_000
SCAN_S = 3.0
_ROOTS_MAX = 16
_PLAIN_BYTES_MAX = 256 * 1024
_TOKEN = re.compile(rb"_auth|_password|token|//[^/\s]*@", re.IGNORECASE)
# A folder that changed this recently may change again without another time stamp.
_SETTLED_NS = 100_000_000
# fmt: off
LEFT_OUT = frozenset((
    "node_modules", "bower_components", "site-packages", "__pycache__", ".venv", "venv", ".tox", ".nox",
    ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".hg", ".svn",
))
# fmt: on


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What of a folder is secret and what is protected: absolute paths, without links."""

    secret: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    known: bool = True  # False: there may be more


@dataclass(slots=True)
class _Folder:
    stamp: tuple[int, int, int]
    settled: bool
    entries: int = 0
    secret: list[str] = field(default_factory=list[str])
    protected: list[str] = field(default_factory=list[str])
    below: list[str] = field(default_factory=list[str])


class WorkspaceScan:
    """Scans folders, and remembers what it saw. Blocks; any thread may call it."""

    def __init__(
        self,
        *,
        entries_max: int = ENTRIES_MAX,
        scan_s: float = SCAN_S,
        depth_max: int | None = None,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._entries_max = entries_max
        self._scan_s = scan_s
        self._depth_max = depth_max
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._seen: OrderedDict[str, dict[str, _Folder]] = OrderedDict()

    def look(self, root: str) -> Found:
        """What is secret and what is protected below a folder, which must not be a link."""
        with self._lock:
            known = self._seen.pop(root, {})
            fresh, complete = self._walked(root, known)
            self._seen[root] = fresh
            while len(self._seen) > _ROOTS_MAX:
                self._seen.popitem(last=False)
        secret = [path for folder in fresh.values() for path in folder.secret]
        protected = [path for folder in fresh.values() for path in folder.protected]
        fits = len(secret) <= MOUNTS_MAX and len(protected) <= MOUNTS_MAX
        return Found(
            secret=tuple(sorted(secret, key=_shallow_first)[:MOUNTS_MAX]),
            protected=tuple(sorted(protected, key=_shallow_first)[:MOUNTS_MAX]),
            known=complete and fits,
        )

    def _walked(self, root: str, known: dict[str, _Folder]) -> tuple[dict[str, _Folder], bool]:
        deadline_s = time.monotonic() + self._scan_s
        fresh: dict[str, _Folder] = {}
        ahead, entries = [root], 0
        for here in ahead:  # the shallow first
            folder = self._folder(here, root, known.get(here))
            if folder is None:
                continue  # gone, or not ours to read: then a command can't read it either
            fresh[here] = folder
            entries += folder.entries
            if entries > self._entries_max or time.monotonic() > deadline_s:
                return fresh, False
            if self._depth_max is None or here[len(root) :].count("/") < self._depth_max:
                ahead.extend(folder.below)
        return fresh, True

    def _folder(self, path: str, root: str, earlier: _Folder | None) -> _Folder | None:
        try:
            found = os.lstat(path)
            stamp = found.st_ino, found.st_mtime_ns, found.st_ctime_ns
            if earlier is not None and earlier.settled and earlier.stamp == stamp:
                return earlier
            folder = _Folder(stamp, settled=self._now_ns() - found.st_mtime_ns > _SETTLED_NS)
            with os.scandir(path) as entries:
                for entry in entries:
                    folder.entries += 1
                    _sort_in(folder, entry, entry.path[len(root.rstrip("/")) :])
        except OSError:
            return None
        return folder


def _shallow_first(path: str) -> tuple[int, str]:
    return path.count("/"), path


def _sort_in(folder: _Folder, entry: os.DirEntry[str], relative: str) -> None:
    """`relative` starts with a slash, and what is above the scanned folder is not in it."""
    if entry.is_symlink():
        _sort_link_in(folder, entry, relative)
    elif not entry.is_dir(follow_symlinks=False):
        may_be_plain = entry.name.lower() in MAY_BE_PLAIN
        folder.settled &= not may_be_plain  # it can get a token without a change of the folder
        if is_secret(relative) and not (may_be_plain and _is_plain(entry)):
            folder.secret.append(entry.path)
        elif is_protected(relative[1:]):
            folder.protected.append(entry.path)
    elif entry.name.lower() == ".git":
        folder.protected.extend(_of_git(entry.path))
        # Whatever is added to these is seen, because it changes this folder's own entry.
        folder.settled = False
    elif is_secret(f"{relative}/x"):
        folder.secret.append(entry.path)
    elif is_protected(f"{relative[1:]}/x"):
        folder.protected.append(entry.path)
    elif entry.name not in LEFT_OUT:
        folder.below.append(entry.path)


def _sort_link_in(folder: _Folder, entry: os.DirEntry[str], relative: str) -> None:
    """A link is not masked, but what a secret's name leads to is."""
    if is_secret(relative):
        folder.settled = False
        target = os.path.realpath(entry.path)
        if os.path.isfile(target) and target != os.devnull:  # noqa: PTH113 - a text, not a path
            folder.secret.append(target)


def _of_git(folder: str) -> Iterator[str]:
    for name in GIT_PROTECTED:
        path = f"{folder}/{name}"
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            continue
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            yield path


def _is_plain(entry: os.DirEntry[str]) -> bool:
    """Whether a file that often holds no secret really holds none; what can't be read can't be leaked."""
    return not _TOKEN.search(beginning_of(entry.path, bytes_max=_PLAIN_BYTES_MAX))


def beginning_of(path: str, *, bytes_max: int) -> bytes:
    """The first bytes of a regular file; empty for anything else, and for what can't be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, bytes_max) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(descriptor)
