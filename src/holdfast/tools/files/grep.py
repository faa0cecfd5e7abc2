"""Searches files without ripgrep, in a child process that can be killed if a pattern takes forever."""

import os
import re
import stat
import sys
from collections.abc import Iterator

from holdfast.policy.secret_names import is_secret
from holdfast.tools.files.globs import NOT_LISTED, glob_fits
from holdfast.tools.files.ignore_rules import Ignored

MATCHES_IN_FILE_MAX = 50
FILE_BYTES_MAX = 16 * 1024 * 1024
_LINE_CHARS = 300
_LOOK_BYTES = 8 * 1024


def search(
    pattern: str, *, literal: bool, ignore_case: bool, glob: str, real: str, kept_out: list[str]
) -> bool:
    """Print path:line:text for each match below the working directory; return whether there was one.

    `real` is that directory's own path, and `kept_out` what is not searched, relative to it.
    """
    wanted = re.compile(re.escape(pattern) if literal else pattern, re.IGNORECASE if ignore_case else 0)
    above = above_for(real)
    found = False
    rules = {"": Ignored()}  # by folder; those of the one above come first
    for folder, folders, files, folder_fd in os.fwalk(".", follow_symlinks=False):
        within = f"{folder}/".removeprefix("./")
        ignored = rules.pop(within).within(within, folder_fd)
        folders[:] = sorted(
            name
            for name in folders
            if name not in NOT_LISTED
            and within + name not in kept_out
            and not ignored.covers(within + name, is_folder=True)
        )
        rules |= {f"{within}{name}/": ignored for name in folders}
        for name in sorted(files):
            path = within + name
            left_out = path in kept_out or is_secret(f"{above}/{path}")
            left_out = left_out or ignored.covers(path, is_folder=False)
            if left_out or (glob and not glob_fits(glob, path)):
                continue
            for number, line in _matches(folder_fd, name, wanted):
                found = True
                sys.stdout.write(f"./{path}:{number}:{line[:_LINE_CHARS]}\n")
    return found


def above_for(real: str) -> str:
    """The prefix for a path before checking whether it is secret."""
    return "" if is_secret(real) else real  # searching a path for secrets was approved


def _matches(folder_fd: int, name: str, wanted: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    data = _contents(folder_fd, name)
    if b"\0" in data[:_LOOK_BYTES]:
        return
    count = 0
    for number, ended in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        line = ended.removesuffix("\r")
        if wanted.search(line):
            yield number, line
            count += 1
            if count >= MATCHES_IN_FILE_MAX:
                return


def _contents(folder_fd: int, name: str) -> bytes:
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
        with os.fdopen(os.open(name, flags, dir_fd=folder_fd), "rb") as file:
            found = os.fstat(file.fileno())
            if stat.S_ISREG(found.st_mode) and found.st_size <= FILE_BYTES_MAX:
                return file.read(FILE_BYTES_MAX)
    except OSError:
        pass  # a link, gone, or not ours to read: nothing of it is searched
    return b""
