"""Where a workspace's git repository stands, read without git.

Undo doesn't touch git's own files. So snapshots note the branch and the commit, and whoever undoes a run that
moved them is told how to go back. Only the repository of the workspace itself is looked at.
"""

import os
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.features.undo.folds import snapshots_of
from holdfast.folds.run import Run
from holdfast.tools.files.regular_files import read_regular

_REF: Final = re.compile(r"refs/heads/[^\x00-\x20\x7f~^:?*\[\\]{1,250}")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_LINE_BYTES_MAX: Final = 4_096
_PACKED_BYTES_MAX: Final = 8 * 1024 * 1024


class GitHead(NamedTuple):
    """The checked-out commit and, unless it's detached, branch. Empty: unknown."""

    branch: str = ""
    commit: str = ""


class GitMove(NamedTuple):
    """Where some runs took HEAD."""

    before: GitHead
    after: GitHead

    @property
    def way_back(self) -> str:
        """The commands that take git back and leave the files alone."""
        branch, commit = self.before
        if not branch:
            return f"git update-ref --no-deref HEAD {commit} && git reset"
        reset = f"git reset {commit}" if commit else "git update-ref -d HEAD"
        if branch == self.after.branch:
            return reset
        return f"git symbolic-ref HEAD {shlex.quote(f'refs/heads/{branch}')} && {reset}"


def read_head(workspace: str) -> GitHead:
    """Where the repository of a workspace stands; empty if there is none that can be read. Blocks."""
    try:
        folder = _git_folder(Path(workspace))
        head = _line(folder / "HEAD")
        if _COMMIT.fullmatch(head):
            return GitHead("", head)
        ref = head.removeprefix("ref:").strip()
        if not _REF.fullmatch(ref) or ".." in ref:
            return GitHead()
        return GitHead(ref.removeprefix("refs/heads/"), _commit_of(_common(folder), ref))
    except (OSError, UnicodeDecodeError, ValueError):
        return GitHead()


def _git_folder(workspace: Path) -> Path:
    """The folder of git; in a worktree, a file names it."""
    found = workspace / ".git"
    return workspace / _line(found).removeprefix("gitdir:").strip() if found.is_file() else found


def _common(folder: Path) -> Path:
    """Where the branches are, which worktrees share."""
    try:
        return folder / _line(folder / "commondir")
    except FileNotFoundError:
        return folder


def _commit_of(common: Path, ref: str) -> str:
    try:
        found = _line(common / ref)
    except (FileNotFoundError, NotADirectoryError):
        found = _packed(common, ref)
    return found if _COMMIT.fullmatch(found) else ""


def _packed(common: Path, ref: str) -> str:
    try:
        data = read_regular(common / "packed-refs", bytes_max=_PACKED_BYTES_MAX)
    except FileNotFoundError:
        return ""  # a branch without a commit
    ending = b" " + os.fsencode(ref)
    return next((line.split(b" ")[0].decode() for line in data.splitlines() if line.endswith(ending)), "")


def _line(path: Path) -> str:
    return read_regular(path, bytes_max=_LINE_BYTES_MAX).decode().strip()


def git_move(runs: Iterable[Run]) -> GitMove | None:
    """Where runs, in their order, took HEAD; None if nowhere, or if that isn't known."""
    taken = [one for run in runs for one in snapshots_of(run) if one.branch or one.commit]
    if not taken:
        return None
    before, after = (GitHead(one.branch, one.commit) for one in (taken[0], taken[-1]))
    return GitMove(before, after) if before != after else None
