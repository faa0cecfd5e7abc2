"""Protected paths of a workspace, compared before and after what runs in the sandbox.

The sandbox makes protected files read-only where it can. It cannot do so for a file that does not exist yet,
and a command can rename the folder around one. So each command is watched: a protected path that it created,
changed or removed without approval goes to quarantine, and the earlier version comes back.

A look is cheap because a folder's change time says whether anything was put into it, taken out or renamed,
and no program can set that time. Only folders that changed are listed again. Folders of dependencies and
caches are not looked into.

No limit lets a change pass. Every change that is found is taken away, however many there are. In a workspace
with too many folders to look at, the earlier state stays the one to compare with, until all of it can be
looked at again; `is_complete` says so, and no command runs there without asking.
"""

import dataclasses
import errno
import logging
import os
import stat
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import TypeAlias

from msgspec import Struct, field

from holdfast.interfaces.workspace_paths import is_within
from holdfast.policy.autorun_files import (
    GIT_ALTERNATES,
    GIT_PROTECTED,
    HG_PROTECTED,
    WORKTREE_PROTECTED,
    is_protected,
    is_protected_link,
)
from holdfast.sandbox.quarantine import ChangeKind, CopyBudget, Quarantine, QuarantinedChange

_log = logging.getLogger(__name__)

FOLDERS_MAX = 200_000
PATHS_MAX = 50_000
FILE_BYTES_MAX = 256 * 1024
KEPT_BYTES_MAX = 8 * 1024 * 1024
WORKSPACES_MAX = 64
CHANGES_TOLD_MAX = 100
# Change times are as coarse as the system's tick. A second change within the same tick cannot be seen by it.
_TICK_NS = 50_000_000
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WORKTREES = "worktrees"
_OF_BARE_REPOSITORIES = frozenset(("HEAD", "objects", "refs"))
_SKIPPED = frozenset(
    (
        *(".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox"),
        *(".mypy_cache", ".pytest_cache", ".ruff_cache"),
    )
)


@dataclasses.dataclass(frozen=True, slots=True)
class _Entry:
    """A protected path as it is: what identifies it and its contents, as far as they are kept."""

    kind: int
    inode: int
    mode: int
    size: int
    changed_ns: int
    contents: bytes | None = dataclasses.field(
        default=None, compare=False
    )  # a link's target, or a file's bytes
    is_settled: bool = dataclasses.field(
        default=True, compare=False
    )  # its change time was past when it was looked at


_Names: TypeAlias = tuple[tuple[str, bool], ...]  # paths in a folder, and whether each is protected


class _Look(Struct):
    """The state of a workspace's protected paths at one time."""

    folders: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    entries: dict[str, _Entry] = field(default_factory=dict[str, _Entry])
    listed: dict[str, "_Names"] = field(default_factory=dict[str, "_Names"])
    at_ns: int = 0
    kept_bytes: int = 0
    complete: bool = True


_Change: TypeAlias = tuple[str, ChangeKind]


class _State(Struct):
    """A workspace under watch: how it should be, and who runs in it."""

    look: _Look
    watches: set["PathWatch"] = field(default_factory=set["PathWatch"])
    untold: list[QuarantinedChange] = field(default_factory=list[QuarantinedChange])
    untold_more: int = 0
    # Something ran while not every folder could be looked at: changes there are nobody's until they are seen.
    is_blind: bool = False
    approved_blind: set[str] = field(default_factory=set[str])
    # Changes that couldn't be taken away: the workspace isn't complete until they are.
    stuck: set[str] = field(default_factory=set[str])
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_complete(self) -> bool:
        """Whether every protected path was looked at, and is as it should be."""
        return self.look.complete and not self.stuck

    @property
    def is_settled(self) -> bool:
        """Whether a change that is found now was made by a person."""
        return not (self.watches or self.is_blind or self.stuck)


class WatchReport(Struct, frozen=True, kw_only=True):
    """How a command left the protected paths."""

    changes: tuple[QuarantinedChange, ...] = ()
    more: int = 0  # further changes, which are in quarantine too
    complete: bool = True  # False: there are more folders than can be looked at


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class PathWatch:
    """One command under watch; `approved` are the protected paths that it may change."""

    workspace: str
    approved: tuple[str, ...] = ()
    read_only: frozenset[str] | None = frozenset()  # None: it runs no program


class ProtectedPaths:
    """The protected paths of all workspaces; all methods block and may be called from any thread."""

    def __init__(
        self, quarantine: Quarantine, *, folders_max: int = FOLDERS_MAX, paths_max: int = PATHS_MAX
    ) -> None:
        self._quarantine = quarantine
        self._limits = folders_max, paths_max
        self._states: dict[str, _State] = {}
        self._lock = threading.Lock()

    def begin(
        self, workspace: Path | str, *, approved: Iterable[str] = (), read_only: Iterable[str] = ()
    ) -> PathWatch:
        """Look at a workspace before a command starts; the other paths are absolute and without links.

        `read_only` are the protected paths that the command cannot change by itself: if one changes while its
        folders stay in place, a person changed it.
        """
        root = os.path.realpath(workspace)
        watch = PathWatch(root, tuple(approved), frozenset(read_only))
        state = self._state(root)
        with state.lock:
            self._compare(root, state)
            state.watches.add(watch)
        return watch

    def end(self, watch: PathWatch) -> WatchReport:
        """Look again after the command has ended; changes that nobody approved are in quarantine now."""
        state = self._state(watch.workspace)
        with state.lock:
            self._compare(watch.workspace, state)
            state.watches.discard(watch)
            report = WatchReport(
                changes=tuple(state.untold), more=state.untold_more, complete=state.is_complete
            )
            state.untold.clear()
            state.untold_more = 0
        return report

    def look(self, workspace: Path | str) -> bool:
        """Look now if anything ran there since the last look: call it before reading a protected path.

        It is False if a command may have changed protected paths that couldn't be looked at or put right.
        Then none is to be obeyed.
        """
        if not self._states:
            return True
        root = os.path.realpath(workspace)
        state = self._states.get(root)
        if state is None:
            return True
        with state.lock:
            if not state.is_settled:
                self._compare(root, state)
            return not state.is_blind and not state.stuck

    @contextmanager
    def approving(self, workspace: Path | str, paths: Iterable[str]) -> Generator[None]:
        """While it is open, an approved action of Holdfast's own changes these paths."""
        root = os.path.realpath(workspace)
        state = self._states.get(root)
        if state is None or state.is_settled:
            yield
            return
        action = PathWatch(root, tuple(paths), None)
        with state.lock:
            state.watches.add(action)
        try:
            yield
        finally:
            with state.lock:
                self._compare(root, state)
                state.watches.discard(action)

    def is_complete(self, workspace: Path | str) -> bool:
        """Look whether every folder of the workspace can be watched; it can have too many."""
        root = os.path.realpath(workspace)
        state = self._state(root)
        with state.lock:
            self._compare(root, state)
            return state.is_complete

    def _state(self, root: str) -> _State:
        with self._lock:
            state = self._states.pop(root, None) or _State(_Look())
            self._states[root] = state  # the newest last
            idle = [each for each, known in self._states.items() if known.is_settled and each != root]
            for each in idle[: max(0, len(self._states) - WORKSPACES_MAX)]:
                del self._states[each]
        return state

    def _compare(self, root: str, state: _State) -> None:
        """Look again, and put what nobody approved into quarantine."""
        before, now = state.look, self._looked(root, state.look)
        if found := _unapproved(root, state, now):
            budget = CopyBudget()
            # What was there before first: a folder that was only renamed takes what seems new back with it.
            for path, kind in sorted(found, key=lambda change: change[1] == "created"):
                if kind == "created" and not _is_there(root, path):
                    continue
                change = self._undone(root, path, kind, before.entries.get(path), budget=budget)
                if len(state.untold) < CHANGES_TOLD_MAX:
                    state.untold.append(change)
                else:
                    state.untold_more += 1
            now = self._looked(root, now)
            # What is still there or there again is no part of how the workspace should be.
            state.stuck = _kept_apart([path for path, _ in _unapproved(root, state, now)], before, now)
        else:
            state.stuck.clear()
        self._note_unseen(state, now)
        state.look = now

    def _note_unseen(self, state: _State, now: _Look) -> None:
        """Keep the earlier state of folders that couldn't be looked at now."""
        if now.complete:
            state.is_blind = False
            state.approved_blind.clear()
            return
        if state.watches and state.look.complete and state.look.at_ns:
            state.is_blind = True
        if state.is_blind:
            state.approved_blind.update(path for watch in state.watches for path in watch.approved)
        for path, entry in state.look.entries.items():
            if path.rpartition("/")[0] not in now.folders:
                now.entries.setdefault(path, entry)

    def _looked(self, root: str, earlier: _Look) -> _Look:
        return _looked(root, earlier, limits=self._limits)

    def _undone(
        self, root: str, path: str, kind: ChangeKind, before: _Entry | None, *, budget: CopyBudget
    ) -> QuarantinedChange:
        parent, _, name = path.rpartition("/")
        kept, restored = "", False
        try:
            folder_fd = _opened(root, parent)
        except OSError:
            return QuarantinedChange(path=path, kind=kind)  # its folder is gone, and it with it
        try:
            if kind != "removed":
                kept = self._quarantine.take(
                    folder_fd, name, change_id=token_hex(6), path=f"{root}/{path}", budget=budget
                )
            if before is not None:
                restored = _restored(folder_fd, name, before) or _moved_back(folder_fd, name, before)
        except FileNotFoundError:
            return QuarantinedChange(path=path, kind="removed", kept=kept)
        except OSError as error:
            # Something that still runs may have been faster. Whatever is there then counts as stuck.
            _log.warning("%s/%s couldn't be put right: %s", root, path, error)
        finally:
            os.close(folder_fd)
        return QuarantinedChange(path=path, kind=kind, kept=kept, restored=restored)


def _unapproved(root: str, state: _State, now: _Look) -> list[_Change]:
    """Return the changes that a program made without approval."""
    if state.is_settled:
        return []
    approved = (*state.approved_blind, *(path for watch in state.watches for path in watch.approved))
    return [
        (path, kind)
        for path, kind in _changes(state.look, now)
        if not _covered(f"{root}/{path}", approved) and not _is_explained(root, path, state, now)
    ]


def _is_explained(root: str, path: str, state: _State, now: _Look) -> bool:
    """Whether nothing that ran made this change: a person did, or it was there and is seen only now."""
    if path in state.stuck:
        return False
    was_seen = path.rpartition("/")[0] in state.look.folders
    if not was_seen and not state.look.complete and not state.is_blind:
        entry = now.entries.get(path)
        changed_ns = now.folders.get(path, (0, 0))[1] or (entry.changed_ns if entry else 0)
        return changed_ns < state.look.at_ns - _TICK_NS
    return was_seen if not state.watches else _by_a_person(f"{root}/{path}", state, now)


def _kept_apart(paths: list[str], before: _Look, now: _Look) -> set[str]:
    """Those of the changed paths that aren't as before; in the new look they are, so they differ again."""
    left = {
        path
        for path in paths
        if (new := now.entries.get(path)) is not None
        and ((old := before.entries.get(path)) is None or not _is_same(old, new))
    }
    if left:
        now.entries = {
            path: entry
            for path, entry in now.entries.items()
            if path not in left and not _is_below(path, left)
        }
        now.entries |= {path: before.entries[path] for path in left if path in before.entries}
    return left


def _is_same(old: _Entry, new: _Entry) -> bool:
    return (
        old.contents is not None and (old.kind, old.mode, old.contents) == (new.kind, new.mode, new.contents)
    ) or (stat.S_ISDIR(old.kind) and old == new)


def _covered(path: str, approved: Iterable[str]) -> bool:
    return any(is_within(path, each) for each in approved)


def _by_a_person(path: str, state: _State, now: _Look) -> bool:
    """Whether nothing that runs could have made this change: the path is read-only there, and in place."""
    held = [watch.read_only for watch in state.watches if watch.read_only is not None]
    if not all(_covered(path, read_only) for read_only in held):
        return False
    root = next(iter(state.watches)).workspace
    parent = path[len(root) + 1 :].rpartition("/")[0]
    places = [parent[:at] for at, char in enumerate(parent) if char == "/"] + [parent, ""]
    return all(
        (before := state.look.folders.get(place)) is not None
        and (after := now.folders.get(place)) is not None
        and before[0] == after[0]
        for place in places
    )


def _changes(before: _Look, now: _Look) -> Iterator[tuple[str, ChangeKind]]:
    """Return the differences, outermost paths first. A changed folder includes everything below it."""
    told: set[str] = set()
    for path in sorted({*before.entries, *now.entries}):
        if _is_below(path, told):
            continue
        if path not in now.entries and not now.complete and path.rpartition("/")[0] not in now.folders:
            continue  # whether it is gone isn't known
        old, new = before.entries.get(path), now.entries.get(path)
        if old == new and (old is None or new is None or old.is_settled or old.contents == new.contents):
            continue
        told.add(path)
        yield path, "created" if old is None else "removed" if new is None else "changed"


def _is_below(path: str, folders: set[str]) -> bool:
    return bool(folders) and any(path[:at] in folders for at, char in enumerate(path) if char == "/")


def _looked(root: str, earlier: _Look, *, limits: tuple[int, int]) -> _Look:
    """Look at a workspace; what did not change since the earlier look is not read again."""
    look = _Look(at_ns=time.time_ns())
    folders_max, paths_max = limits
    try:
        root_fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return look
    try:
        ahead = [("", os.fstat(root_fd))]
        for place, found in ahead:
            if len(look.folders) >= folders_max or len(look.entries) >= paths_max:
                look.complete = False
                break
            ahead += _folder(root_fd, place, found, look=look, earlier=earlier)
    finally:
        os.close(root_fd)
    return look


def _folder(
    root_fd: int, place: str, found: os.stat_result, *, look: _Look, earlier: _Look
) -> list[tuple[str, os.stat_result]]:
    """Look at one folder, and return the folders in it that are looked into."""
    mark = (found.st_ino, found.st_ctime_ns)
    look.folders[place] = mark
    if own := _of_version_control(place):
        # Of working trees, only what is in them is protected: git makes and removes them.
        names: _Names = tuple((f"{place}/{name}", name != _WORKTREES) for name in own)
    elif earlier.folders.get(place) == mark and place in earlier.listed:
        names = earlier.listed[place]
    else:
        names = _worth_a_look(root_fd, place)
    if look.at_ns - found.st_ctime_ns > _TICK_NS:
        look.listed[place] = names
    below: list[tuple[str, os.stat_result]] = []
    for path, protected in names:
        try:
            one = os.stat(path, dir_fd=root_fd, follow_symlinks=False)
        except OSError as error:
            look.complete &= error.errno != errno.ENAMETOOLONG
            continue  # it is gone, or not ours to see
        if protected:
            _note(root_fd, path, one, look=look, earlier=earlier)
        if stat.S_ISDIR(one.st_mode):
            below.append((path, one))
    return below


def _worth_a_look(root_fd: int, place: str) -> _Names:
    """Return the folders and the protected files in a folder."""
    try:
        descriptor = os.open(place or ".", _FOLDER_FLAGS, dir_fd=root_fd)
    except OSError:
        return ()
    prefix = f"{place}/" if place else ""
    try:
        with os.scandir(descriptor) as entries:
            found = {entry.name: entry for entry in entries}
    finally:
        os.close(descriptor)
    # A repository without a folder named .git: git obeys it where it is started in it.
    own = frozenset(("config", "hooks")) if found.keys() >= _OF_BARE_REPOSITORIES else frozenset[str]()
    return tuple(
        (prefix + name, protected)
        for name, entry in found.items()
        if (protected := name in own or _is_watched(entry, prefix + name))
        or (entry.is_dir(follow_symlinks=False) and name not in _SKIPPED)
    )


def _is_watched(entry: os.DirEntry[str], path: str) -> bool:
    return is_protected(path) or (entry.is_symlink() and is_protected_link(path))


def _note(root_fd: int, path: str, found: os.stat_result, *, look: _Look, earlier: _Look) -> None:
    """Note a protected path as it is."""
    kind = stat.S_IFMT(found.st_mode)
    if stat.S_ISDIR(kind):
        # What is in it is looked at by itself; it is the same folder as long as it is the same inode.
        look.entries[path] = _Entry(kind, found.st_ino, 0, 0, 0)
        return
    entry = _Entry(kind, found.st_ino, found.st_mode, found.st_size, found.st_ctime_ns)
    known = earlier.entries.get(path)
    if known == entry and known is not None and known.is_settled:
        contents = known.contents
    else:
        contents = _contents(root_fd, path, entry, look)
    look.kept_bytes += len(contents or b"")
    is_settled = look.at_ns - found.st_ctime_ns > _TICK_NS
    look.entries[path] = dataclasses.replace(entry, contents=contents, is_settled=is_settled)


def _contents(root_fd: int, path: str, entry: _Entry, look: _Look) -> bytes | None:
    """Return the data that restores an entry; None if it's too large or of another kind."""
    try:
        if stat.S_ISLNK(entry.kind):
            return os.fsencode(os.readlink(path, dir_fd=root_fd))
        if not stat.S_ISREG(entry.kind) or entry.size > FILE_BYTES_MAX:
            return None
        if look.kept_bytes + entry.size > KEPT_BYTES_MAX:
            return None
        with os.fdopen(os.open(path, _FILE_FLAGS, dir_fd=root_fd), "rb") as file:
            return file.read(FILE_BYTES_MAX)
    except OSError:
        return None  # not ours to read


def _of_version_control(place: str) -> tuple[str, ...]:
    """Return the protected paths in a folder of git, a submodule or Mercurial, without searching the rest."""
    parts = place.lower().split("/")
    if parts[-1] == ".git" or (".git" in parts[:-2] and parts[-2] == "modules"):
        return (*GIT_PROTECTED, GIT_ALTERNATES, _WORKTREES)
    if parts[-3:-1] == [".git", _WORKTREES]:
        return (WORKTREE_PROTECTED,)
    return HG_PROTECTED if parts[-1] == ".hg" else ()


def _opened(root: str, place: str) -> int:
    """Open a folder of the workspace one name at a time, without following links; raises OSError."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in filter(None, place.split("/")):
        try:
            further = os.open(name, _FOLDER_FLAGS, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = further
    return descriptor


def _is_there(root: str, path: str) -> bool:
    return os.path.lexists(f"{root}/{path}")


def _restored(folder_fd: int, name: str, before: _Entry) -> bool:
    """Bring back a file or link from what was kept of it."""
    if before.contents is None:
        return False
    if stat.S_ISLNK(before.kind):
        os.symlink(os.fsdecode(before.contents), name, dir_fd=folder_fd)
        return True
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=folder_fd), "wb") as file:
        file.write(before.contents)
        os.fchmod(file.fileno(), stat.S_IMODE(before.mode))
    return True


def _moved_back(folder_fd: int, name: str, before: _Entry) -> bool:
    """Bring back a folder that was only renamed where it was, such as `.git`."""
    if not stat.S_ISDIR(before.kind):
        return False
    with os.scandir(folder_fd) as entries:
        other = next((each.name for each in entries if each.inode() == before.inode), "")
    if not other or other == name:
        return False
    os.rename(other, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    return True
