"""Finds the secret and the protected files of a folder by their names, again before each command.

A second look at the same folder only reads the folders that changed meanwhile, so it costs one `stat` per
folder. Of folders of dependencies only the first level is searched, of caches nothing: packages are published
anyway, and searching them before each command would take longer than most commands.
"""

import os
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator

from msgspec import Struct, field

from holdfast.policy.autorun_files import GIT_PROTECTED, is_protected
from holdfast.policy.secret_names import MAY_BE_PLAIN, holds_token, is_secret
from holdfast.sandbox.profile import MOUNTS_MAX

ENTRIES_MAX = 200_000
SCAN_S = 10.0
_ROOTS_MAX = 16
_PLAIN_BYTES_MAX = 256 * 1024
# A folder that changed this recently may change again without another time stamp.
_SETTLED_NS = 100_000_000
# fmt: off
# Packages and version control data: only their first level can contain people's own files.
_DEPENDENCIES = frozenset((
    "node_modules", "bower_components", ".venv", "venv", ".tox", ".nox", ".hg", ".svn",
))
_CACHES = frozenset((
    "site-packages", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis",
))
# fmt: on


class Found(Struct, frozen=True, kw_only=True):
    """The secret and the protected paths of a folder, absolute and without links."""

    secret: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()  # Unix sockets, whoever listens on them
    unmasked: int = 0  # how many more secret files and sockets there are than can be masked
    searched: bool = True  # False: there may be more
    known: bool = True  # False: this isn't all


class _Folder(Struct):
    stamp: tuple[int, int, int]
    settled: bool
    entries: int = 0
    secret: list[str] = field(default_factory=list[str])
    protected: list[str] = field(default_factory=list[str])
    sockets: list[str] = field(default_factory=list[str])
    linked: list[str] = field(default_factory=list[str])  # targets of links with secret names
    below: list[str] = field(default_factory=list[str])


class _Root(Struct):
    """The remembered state of a scanned folder.

    Targets of links with secret names stay in it: without the link, their own names don't show the secret.
    """

    folders: dict[str, _Folder] = field(default_factory=dict[str, _Folder])
    linked: dict[str, None] = field(default_factory=dict[str, None])


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
        self._seen: OrderedDict[str, _Root] = OrderedDict()

    def look(self, root: str) -> Found:
        """Return the secret and the protected paths below a folder, which must not be a link."""
        with self._lock:
            known = self._seen.pop(root, None) or _Root()
            known.folders, complete = self._walked(root, known.folders)
            self._seen[root] = known
            while len(self._seen) > _ROOTS_MAX:
                self._seen.popitem(last=False)
            folders = known.folders.values()
            known.linked.update((path, None) for folder in folders for path in folder.linked)
            linked = [path for path in known.linked if os.path.isfile(path)]  # noqa: PTH113 - a text
        kinds = (
            {*linked, *(path for folder in folders for path in folder.secret)},
            {path for folder in folders for path in folder.protected},
            {path for folder in folders for path in folder.sockets},
        )
        secret, protected, sockets = (sorted(kind, key=_shallow_first)[:MOUNTS_MAX] for kind in kinds)
        left_out = [max(0, len(kind) - MOUNTS_MAX) for kind in kinds]
        return Found(
            secret=tuple(secret),
            protected=tuple(protected),
            sockets=tuple(sockets),
            unmasked=left_out[0] + left_out[2],
            searched=complete,
            known=complete and not any(left_out),
        )

    def _walked(self, root: str, known: dict[str, _Folder]) -> tuple[dict[str, _Folder], bool]:
        deadline_s = time.monotonic() + self._scan_s
        fresh: dict[str, _Folder] = {}
        ahead, entries = [root], 0
        for here in ahead:  # the shallow first
            folder = self._folder(here, root, known.get(here))
            if folder is None:
                continue  # it's gone
            fresh[here] = folder
            entries += folder.entries
            if entries > self._entries_max or time.monotonic() > deadline_s:
                return fresh, False
            if here != root and here.rpartition("/")[2] in _DEPENDENCIES:
                continue
            if self._depth_max is None or here[len(root) :].count("/") < self._depth_max:
                ahead.extend(folder.below)
        return fresh, True

    def _folder(self, path: str, root: str, earlier: _Folder | None) -> _Folder | None:
        try:
            found = os.lstat(path)
            stamp = found.st_ino, found.st_mtime_ns, found.st_ctime_ns
            if earlier is not None and earlier.settled and earlier.stamp == stamp:
                return earlier
            if path != root and not os.access(path, os.R_OK | os.X_OK):
                # A command could make our own folder readable again, so all of it is masked.
                return _Folder(stamp, settled=False, secret=[path])
            folder = _Folder(stamp, settled=self._now_ns() - found.st_ctime_ns > _SETTLED_NS)
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
        _sort_file_in(folder, entry, relative)
    elif entry.name.lower() == ".git":
        folder.protected.extend(_of_git(entry.path))
        # Whatever is added to these is seen, because it changes this folder's own entry.
        folder.settled = False
    elif is_secret(f"{relative}/x"):
        folder.secret.append(entry.path)
    elif is_protected(f"{relative[1:]}/x"):
        folder.protected.append(entry.path)
    elif entry.name not in _CACHES:
        folder.below.append(entry.path)


def _sort_file_in(folder: _Folder, entry: os.DirEntry[str], relative: str) -> None:
    may_be_plain = entry.name.lower() in MAY_BE_PLAIN
    folder.settled &= not may_be_plain  # a token can be added without changing the folder
    if is_secret(relative) and not (may_be_plain and _is_plain(entry)):
        folder.secret.append(entry.path)
    elif is_protected(relative[1:]):
        folder.protected.append(entry.path)
    elif not entry.is_file(follow_symlinks=False) and stat.S_ISSOCK(
        entry.stat(follow_symlinks=False).st_mode
    ):
        folder.sockets.append(entry.path)


def _sort_link_in(folder: _Folder, entry: os.DirEntry[str], relative: str) -> None:
    """A link is not masked, but what a secret's name leads to is."""
    if is_secret(relative):
        folder.settled = False
        target = os.path.realpath(entry.path)
        if os.path.isfile(target) and target != os.devnull:  # noqa: PTH113 - a text, not a path
            folder.linked.append(target)


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
    """Whether a file that often holds no secret really holds none; one that can't be read isn't plain."""
    if not os.access(entry.path, os.R_OK):
        return False
    return not holds_token(beginning_of(entry.path, bytes_max=_PLAIN_BYTES_MAX))


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
