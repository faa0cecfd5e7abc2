"""Links and special files inside a git folder.

Git creates hardly any of them but follows all: the target of a link is shown in an error, in a status or as
the history of the repository, and a FIFO keeps git waiting.
"""

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from msgspec import Struct, field

ENTRIES_MAX = 50_000
ODD_MAX = 5
_WATCHER = "fsmonitor--daemon.ipc"  # where git's own file watcher listens
_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class GitFolders(Struct):
    """The git folders searched so far, with one limit for all of them."""

    seen: set[str] = field(default_factory=set[str])
    entries: int = 0
    odd: int = 0

    def doubts(self, root: str, *, top: str) -> Iterator[str]:
        """Sentences about what git should not read below a folder, with names relative to `top` if any."""
        folders = [root]
        while folders and self.odd < ODD_MAX:
            folder = folders.pop()
            if folder in self.seen:
                continue
            self.seen.add(folder)
            try:
                found = self._entries_of(folder, root)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                yield f"`{_shown(folder, top)}` cannot be searched: {error.strerror}."
                continue
            if self.entries > ENTRIES_MAX:
                yield f"`{_shown(root, top)}` has more than {ENTRIES_MAX:,} files, too many to check."
                return
            folders += (entry.path for entry in found if entry.is_dir(follow_symlinks=False))
            odd = ((entry, kind) for entry in found if (kind := _odd(entry)))
            for entry, kind in islice(odd, ODD_MAX - self.odd):
                self.odd += 1
                yield f"`{_shown(entry.path, top)}` is {kind}, which git would follow or wait for."

    def _entries_of(self, folder: str, root: str) -> list[os.DirEntry[str]]:
        """The entries of a folder without hooks, which are judged separately."""
        with os.scandir(folder) as entries:
            found = list(islice(entries, ENTRIES_MAX - self.entries + 1))
        self.entries += len(found)
        if folder == root or _is_module(folder, root, found):
            return [entry for entry in found if entry.name != "hooks"]
        return found


def _is_module(folder: str, root: str, entries: list[os.DirEntry[str]]) -> bool:
    """Whether a folder in a git folder belongs to a submodule."""
    names = {"HEAD", "objects"}
    return folder.startswith(f"{root}/modules/") and names <= {entry.name for entry in entries}


def _odd(entry: os.DirEntry[str]) -> str:
    """Return the kind of special file of an entry; empty for a regular file."""
    if entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False):
        return ""
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
    except FileNotFoundError:
        return ""  # gone by now, like a lock of git's
    if stat.S_ISSOCK(mode) and entry.name == _WATCHER:
        return ""
    return _KINDS.get(stat.S_IFMT(mode), "")


def _shown(path: str, top: str) -> str:
    return str(Path(path).relative_to(top)) if Path(path).is_relative_to(top) else path
