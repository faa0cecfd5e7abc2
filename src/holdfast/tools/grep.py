"""Searching files without ripgrep, in a child process: a pattern may take for ever, and a child can be killed."""

import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from holdfast.tools.listing import NOT_LISTED, glob_fits

MATCHES_IN_FILE_MAX = 50
FILE_BYTES_MAX = 16 * 1024 * 1024
_LINE_CHARS = 300


def search(pattern: str, *, literal: bool, ignore_case: bool, glob: str) -> bool:
    """Print path:line:text for each match below the working directory, and tell whether there was one."""
    wanted = re.compile(re.escape(pattern) if literal else pattern, re.IGNORECASE if ignore_case else 0)
    found = False
    for path in _files():
        if glob and not glob_fits(glob, path):
            continue
        for number, line in _matches(path, wanted):
            found = True
            sys.stdout.write(f"./{path}:{number}:{line[:_LINE_CHARS]}\n")
    return found


def _files() -> Iterator[str]:
    for folder, folders, files in os.walk(".", followlinks=False):
        folders[:] = sorted(name for name in folders if name not in NOT_LISTED)
        for name in sorted(files):
            yield os.path.normpath(os.path.join(folder, name))


def _matches(path: str, wanted: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode) or os.lstat(path).st_size > FILE_BYTES_MAX:
            return
        data = Path(path).read_bytes()
    except OSError:
        return  # gone, or not ours to read
    if b"\0" in data[:8192]:
        return
    count = 0
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if wanted.search(line):
            yield number, line
            count += 1
            if count >= MATCHES_IN_FILE_MAX:
                return
