"""Walks directory trees, by name alone: what the approval policy asks about the files below a folder."""

import os
import stat
from collections.abc import Callable, Iterator

from holdfast.policy.path_facts import Below

NAMES_MAX = 5_000


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
    """What a copy of the path would include, without following links, up to a bound; blocks."""
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


def _own_folder(entry: os.DirEntry[str]) -> str:
    return entry.path if entry.is_dir(follow_symlinks=False) else ""
