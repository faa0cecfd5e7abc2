"""How this program was started, for hints that can be typed as they are."""

import os
import shlex
import shutil
import sys
from pathlib import Path

NAME = "holdfast"


def program() -> str:
    """The command that starts this program from here: `holdfast` if the shell finds it, else its path."""
    started = Path(sys.argv[0]) if sys.argv and sys.argv[0] else Path(NAME)
    if started.name != NAME:
        return f"{shlex.quote(_short(sys.executable))} -m {NAME}" if started.name == "__main__.py" else NAME
    found = shutil.which(NAME)
    if found is not None and os.path.realpath(found) == os.path.realpath(started):
        return NAME
    return shlex.quote(_short(str(started.absolute())))


def _short(path: str) -> str:
    """The path from the current directory, if it is below that."""
    here = os.path.relpath(path)
    return path if here.startswith("..") else here
