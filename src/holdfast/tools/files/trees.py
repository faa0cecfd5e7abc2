"""Walks directory trees, by name alone: what the approval policy asks about the files below a folder."""

import os
import re
import stat
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from holdfast.policy.path_facts import Below

NAMES_MAX = 5_000
MATCHES_MAX = 500
_WILD = {"*": ".*", "?": ".+"}


def walk(folder: str, *, into: Callable[[os.DirEntry[str]], str]) -> Iterator[os.DirEntry[str] | OSError]:
    """Every entry below a folder, each folder once; a folder that cannot be read yields its error.

    `into` returns the folder that an entry leads to, or "" to leave it out. Blocks.
    """
    seen: set[str] = set()
    ahead = [folder]
    while ahead:
        here = ahead.pop()
        if here in seen:
            continue
        seen.add(here)
        try:
            with os.scandir(here) as entries:
                for entry in entries:
                    if further := into(entry):
                        ahead.append(further)
                    yield entry
        except OSError as error:
            yield error


def below(path: str) -> Below:
    """List the files in a copy of the path, without following links, up to a limit. Blocks."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return Below(known=False)
    if not stat.S_ISDIR(found.st_mode):
        return Below(links=stat.S_ISLNK(found.st_mode))
    root = f"{path}/"
    names: list[str] = []
    links = False
    for entry in walk(root, into=_own_folder):
        if isinstance(entry, OSError):
            return Below(tuple(names), links, known=False)
        names.append(entry.path.removeprefix(root))
        links = links or entry.is_symlink()
        if len(names) > NAMES_MAX:
            return Below(tuple(names), links, known=False)
    return Below(tuple(names), links)


def matches(directory: str, pattern: str) -> tuple[str, ...] | None:
    """The words that a shell puts in place of a pattern; None if there are too many, or one can't be read.

    A question mark may match several characters here, because how many bytes make one depends on the shell's
    language. So there may be a name too many, never one too few. Blocks.
    """
    found = [""]
    for part in pattern.split("/"):
        if "*" not in part and "?" not in part:
            found = [f"{before}{part}/" for before in found]
            continue
        try:
            found = [
                f"{before}{name}/" for before in found for name in _matching(Path(directory, before), part)
            ]
        except (OSError, ValueError):
            return None
        if len(found) > MATCHES_MAX:
            return None
    names = sorted(name[:-1] for name in found)
    real = [name for name in names if os.path.lexists(Path(directory, name or "/"))]
    return tuple(real) or (pattern,)


def _matching(folder: Path, pattern: str) -> list[str]:
    """The names in a folder that a pattern matches; a shell leaves out hidden ones."""
    wanted = re.compile("".join(_WILD.get(char, re.escape(char)) for char in pattern), re.DOTALL)
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, NAMES_MAX + 1)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    if len(names) > NAMES_MAX:
        raise ValueError(f"{folder} has too many files")
    return [name for name in names if wanted.fullmatch(name) and not name.startswith(".")]


def _own_folder(entry: os.DirEntry[str]) -> str:
    return entry.path if entry.is_dir(follow_symlinks=False) else ""
