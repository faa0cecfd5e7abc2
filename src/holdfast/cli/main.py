"""The program; every command is in `commands`."""

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from holdfast import __version__
from holdfast.cli.terminal.output import echo

STOPPED = 130
PROFILE = "HOLDFAST_PROFILE"
COMPLETE = "_HOLDFAST_COMPLETE"


def main() -> None:
    """Do what the command line says."""
    try:
        _do(_after_profile(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(STOPPED)  # so early that nothing has to be put in order


def _after_profile(line: list[str]) -> list[str]:
    """Make this process work for the profile that the line begins with, or a variable; return the rest."""
    name = os.environ.get(PROFILE, "")  # noqa: TID251  # this is the edge
    first, equals, value = (line or [""])[0].partition("=")
    if first in {"-p", "--profile"}:
        name = value if equals else (line[1:] or [""])[0]
        line = line[1:] if equals else line[2:]
        sys.argv[1:] = line
    elif not name:
        return line
    try:
        choose = import_module("holdfast.features.profiles.scope").choose
    except ModuleNotFoundError:
        sys.exit("holdfast: -p needs the feature profiles, which this installation doesn't have")
    try:
        choose(name)
    except Exception as error:  # noqa: BLE001  # BadConfiguration, whose module is imported only here
        sys.exit(f"holdfast: {error}")
    return line


def _do(line: Sequence[str]) -> None:
    if line == ["--version"]:
        echo(f"holdfast {__version__}")
        return
    from holdfast.host.hidden_process import hide_process

    # First of all: keys of models and of the server are in this process, and its tools run as the same user.
    hide_process()
    atexit.register(gc.freeze)  # the interpreter's last collection would take 12 ms and free nothing of use
    from holdfast.host.fast_imports import fast_imports

    with fast_imports():
        from holdfast.cli.launch import parse_quickly

    # A shell that asks how a line can continue asks by a variable, and with no line.
    wanted = None if COMPLETE in os.environ else parse_quickly(line)  # noqa: TID251  # this is the edge
    if wanted is not None:
        from holdfast.cli.launch import start

        sys.exit(start(wanted))
    with fast_imports():
        from holdfast.cli.commands import app
    app()
