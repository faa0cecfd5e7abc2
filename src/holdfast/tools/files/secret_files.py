"""Searches for secret files for the policy: below a folder, in a repository's history and remotes.

Folders of dependencies and caches are skipped: what they hold is published anyway.
"""

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from typing_extensions import override

from holdfast.policy.path_facts import SecretFinder
from holdfast.policy.secret_names import MAY_BE_PLAIN, holds_token, is_secret
from holdfast.policy.shell.option_tables import Reach
from holdfast.tools.files.globs import NOT_LISTED
from holdfast.tools.files.regular_files import open_regular
from holdfast.tools.files.trees import walk

ENTRIES_MAX = 100_000
WALK_S = 2.0
HISTORY_S = 3.0
CONFIG_BYTES_MAX = 256 * 1024
OBJECTS_CHARS_MAX = 32 * 1024 * 1024
_PARENTS_MAX = 64
_CREDENTIALS = re.compile(
    rb"://[^/\s@]*:[^/\s@]+@|://[A-Za-z0-9_-]{16,}@|extraheader\s*=|password\s*=", re.IGNORECASE
)
_GIT = (
    *("git", "--no-optional-locks", "--no-replace-objects"),
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "protocol.allow=never"),
    *("-c", "safe.bareRepository=explicit", "-c", "safe.directory=*"),
)
_GIT_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_KEPT = "which may hold secrets"


@dataclass(frozen=True, slots=True)
class SecretFiles(SecretFinder):
    """Searches the disk, so it blocks."""

    environment: Mapping[str, str] = field(default_factory=dict[str, str])  # where git is found

    @override
    def secret_below(self, folder: str, *, reach: Reach) -> str:
        deadline_s = time.monotonic() + WALK_S
        for count, path in enumerate(_files(folder, reach)):
            if is_secret(path) and not _is_plain(path):
                return f"{path}, {_KEPT}"
            if path.endswith("/.git/config") and _has_credentials(path):
                return f"{path}, which contains a password"
            if count >= ENTRIES_MAX or time.monotonic() > deadline_s:
                return f"more files below {folder} than can be searched for secrets"
        return ""

    @override
    def secret_in_history(self, folder: str) -> str:
        if _repository(folder) is None:
            return ""
        tracked = self._git(folder, "ls-files", "-z")
        objects = self._git(folder, "rev-list", "--objects", "--all", "--reflog")
        if tracked is None or objects is None:
            return "files in the repository, which could not be checked for secrets"
        if len(objects) > OBJECTS_CHARS_MAX:
            return "more files in the repository than can be searched for secrets"
        names = {*tracked.split("\0"), *(line.partition(" ")[2] for line in objects.splitlines())}
        secret = min(filter(_is_secret_in_repository, names), default="")
        return f"{secret} in the repository, {_KEPT}" if secret else ""

    @override
    def secret_in_remotes(self, folder: str) -> str:
        repository = _repository(folder)
        config = repository / "config" if repository else None
        return f"{config}, which contains a password" if config and _has_credentials(str(config)) else ""

    def _git(self, folder: str, *args: str) -> str | None:
        """Git's output, or None if it fails or takes too long. It runs no program that a repository names."""
        try:
            done = subprocess.run(  # noqa: S603 - fixed words
                [*_GIT, *args],
                cwd=folder,
                env={**self.environment, **_GIT_ENVIRONMENT},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=HISTORY_S,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.decode(errors="replace")


def _files(folder: str, reach: Reach) -> Iterator[str]:
    """The paths of files below a folder, and of the targets of links if they are followed."""
    for entry in walk(folder, into=partial(_into, reach=reach)):
        if isinstance(entry, OSError) or _is_left_out(entry, reach):
            continue  # not a folder, gone, or unreadable: then the command cannot read it either
        if entry.is_symlink():
            if reach == "linked":
                yield os.path.realpath(entry.path)
        elif not entry.is_dir(follow_symlinks=False):
            yield entry.path
        elif entry.name == ".git":
            yield f"{entry.path}/config"


def _into(entry: os.DirEntry[str], *, reach: Reach) -> str:
    """The folder to search next: the entry itself, or the target of a link that is followed."""
    if _is_left_out(entry, reach):
        return ""
    if entry.is_symlink():
        return os.path.realpath(entry.path) if reach == "linked" else ""
    return entry.path if entry.is_dir(follow_symlinks=False) and entry.name not in NOT_LISTED else ""


def _is_left_out(entry: os.DirEntry[str], reach: Reach) -> bool:
    return reach == "shown" and entry.name.startswith(".")


def _repository(folder: str) -> Path | None:
    """The git folder of the repository that a folder is in; a `.git` file may name another (a worktree)."""
    for place in [Path(folder), *Path(folder).parents][:_PARENTS_MAX]:
        found = place / ".git"
        if found.is_dir():
            return found
        if found.is_file():
            named = _name_in(_contents(str(found)).partition(b"gitdir:")[2].removeprefix(b" "))
            gitdir = place / named if named else found
            common = _name_in(_contents(str(gitdir / "commondir")))
            return gitdir / common if common else gitdir
    return None


def _name_in(data: bytes) -> str:
    """The name that git reads from a file: up to a NUL byte, without trailing line breaks."""
    return os.fsdecode(data.partition(b"\0")[0].rstrip(b"\r\n"))


def _is_secret_in_repository(path: str) -> bool:
    return is_secret(f"/{path}") and Path(path).name.lower() not in MAY_BE_PLAIN


def _is_plain(path: str) -> bool:
    """Whether a file that often holds no secret really holds none."""
    return Path(path).name.lower() in MAY_BE_PLAIN and not holds_token(_contents(path))


def _has_credentials(path: str) -> bool:
    return _CREDENTIALS.search(_contents(path)) is not None


def _contents(path: str) -> bytes:
    """The beginning of a regular file; empty for anything else."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            return file.read(CONFIG_BYTES_MAX)
    except OSError:
        return b""  # gone, or not ours to read: then the command does not read it either
