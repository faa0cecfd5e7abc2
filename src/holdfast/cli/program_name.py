"""How this program was started, for hints that can be typed as they are."""

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.config.environment import PROFILE
from holdfast.config.files import own_environ

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


def command_line(command: str) -> str:
    """A command for this program that uses the same data directory and configuration as this one."""
    profile = own_environ().get(PROFILE, "")
    chosen = ["-p", shlex.quote(profile)] if profile else []
    return " ".join([program(), *chosen, command, *_typed_places(sys.argv[1:])])


def _typed_places(words: Sequence[str]) -> Iterator[str]:
    """--data-dir and --config as they were typed."""
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in {"--data-dir", "--config"}:
            yield f"{name} {shlex.quote(value if equals else next(rest, ''))}"


def _short(path: str) -> str:
    """The path from the current directory, if it is below that."""
    here = os.path.relpath(path)
    return path if here.startswith("..") else here
