"""Looks for secret files on behalf of the policy: below a folder, in a repository's history and addresses.

What other people publish, in folders of dependencies and caches, is not looked through.
"""

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.policy.secret_names import MAY_BE_PLAIN, is_secret
from holdfast.policy.shell.option_tables import Reach
from holdfast.tools.files.globs import NOT_LISTED
from holdfast.tools.files.regular_files import open_regular

ENTRIES_MAX = 100_000
WALK_S = 2.0
HISTORY_S = 3.0
CONFIG_BYTES_MAX = 256 * 1024
OBJECTS_CHARS_MAX = 32 * 1024 * 1024
_PARENTS_MAX = 64
_CREDENTIALS = re.compile(
    rb"://[^/\s@]*:[^/\s@]+@|://[A-Za-z0-9_-]{16,}@|extraheader\s*=|password\s*=", re.IGNORECASE
)
_TOKEN = re.compile(rb"_auth|_password|token|//[^/\s]*@", re.IGNORECASE)
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
_KEPT = "where secrets are kept"


@dataclass(frozen=True, slots=True)
class SecretFiles:
    """Looks at the disk; see Look. It blocks."""

    environment: Mapping[str, str] = field(default_factory=dict[str, str])  # where git is found

    def secret_below(self, folder: str, *, reach: Reach) -> str:
        """See Look."""
        deadline_s = time.monotonic() + WALK_S
        for count, path in enumerate(_files(folder, reach)):
            if is_secret(path) and not _is_plain(path):
                return f"{path}, {_KEPT}"
            if path.endswith("/.git/config") and _has_credentials(path):
                return f"{path}, which holds a password"
            if count >= ENTRIES_MAX or time.monotonic() > deadline_s:
                return f"more files below {folder} than can be looked through for secrets"
        return ""

    def secret_in_history(self, folder: str) -> str:
        """See Look."""
        if _repository(folder) is None:
            return ""
        tracked = self._git(folder, "ls-files", "-z")
        objects = self._git(folder, "rev-list", "--objects", "--all", "--reflog")
        if tracked is None or objects is None:
            return "files of the repository, of which it is not known whether they hold secrets"
        if len(objects) > OBJECTS_CHARS_MAX:
            return "more files of the repository than can be looked through for secrets"
        names = {*tracked.split("\0"), *(line.partition(" ")[2] for line in objects.splitlines())}
        secret = min(filter(_is_secret_in_repository, names), default="")
        return f"{secret} in the repository, {_KEPT}" if secret else ""

    def secret_in_remotes(self, folder: str) -> str:
        """See Look."""
        repository = _repository(folder)
        config = repository / "config" if repository else None
        return f"{config}, which holds a password" if config and _has_credentials(str(config)) else ""

    def _git(self, folder: str, *args: str) -> str | None:
        """What git says, or None if it does not in time. It runs no program that a repository names."""
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
    """The paths of files below a folder, and of what links lead to if they are followed."""
    seen: set[str] = set()
    ahead = [folder]
    while ahead:
        here = ahead.pop()
        if here in seen:
            continue
        seen.add(here)
        try:
            with os.scandir(here) as entries:
                found = list(entries)
        except OSError:
            continue  # a file, gone, or not ours to read: then it is not read by the command either
        for entry in found:
            if reach == "shown" and entry.name.startswith("."):
                continue
            yield from _entry(entry, reach, ahead)


def _entry(entry: os.DirEntry[str], reach: Reach, ahead: list[str]) -> Iterator[str]:
    if entry.is_symlink():
        if reach == "linked":
            ahead.append(os.path.realpath(entry.path))
            yield ahead[-1]
    elif not entry.is_dir(follow_symlinks=False):
        yield entry.path
    elif entry.name == ".git":
        yield f"{entry.path}/config"
    elif entry.name not in NOT_LISTED:
        ahead.append(entry.path)


def _repository(folder: str) -> Path | None:
    """The directory of the repository that a folder is in; a file may name another (a worktree)."""
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
    """The name that git takes from a file: up to a NUL byte, and without line ends after it."""
    return os.fsdecode(data.partition(b"\0")[0].rstrip(b"\r\n"))


def _is_secret_in_repository(path: str) -> bool:
    return is_secret(f"/{path}") and Path(path).name not in MAY_BE_PLAIN


def _is_plain(path: str) -> bool:
    """Whether a file that may well hold no secret holds none."""
    return Path(path).name in MAY_BE_PLAIN and not _TOKEN.search(_contents(path))


def _has_credentials(path: str) -> bool:
    return _CREDENTIALS.search(_contents(path)) is not None


def _contents(path: str) -> bytes:
    """The beginning of a regular file; nothing of anything else."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            return file.read(CONFIG_BYTES_MAX)
    except OSError:
        return b""  # gone, or not ours to read: then the command does not read it either
