"""Long text in the person's pager, while the prompt waits."""

import asyncio
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence

from prompt_toolkit.application import run_in_terminal

from holdfast.cli.terminal.output import restore


def pager_command() -> Sequence[str]:
    """$PAGER, or less, or more; nothing if there is none."""
    named = shlex.split(os.environ.get("PAGER", ""))  # noqa: TID251  # this is the edge
    for command in (named, ["less"], ["more"]):
        if command and shutil.which(command[0]):
            return command
    return ()


async def show_in_pager(text: str, command: Sequence[str]) -> None:
    """Show it until the person leaves the pager, whose Ctrl-C is no concern of the chat."""
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    try:
        await run_in_terminal(lambda: _page(text, command), in_executor=True)
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)


def _page(text: str, command: Sequence[str]) -> None:
    is_blocking = os.get_blocking(sys.stdin.fileno())
    restore()  # a pager can't write to a terminal that refuses to wait
    try:
        subprocess.run(command, input=text.encode("utf-8", "replace"), check=False)  # noqa: S603  # the person's own pager
    finally:
        os.set_blocking(sys.stdin.fileno(), is_blocking)
