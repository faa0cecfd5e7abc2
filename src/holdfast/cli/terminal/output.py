"""Writing to a terminal to the last letter."""

import os
import select
import sys
from typing import TextIO

DUMB = frozenset({"", "dumb", "unknown"})


def is_drawable(stream: TextIO) -> bool:
    """Whether this is a terminal, and one that can do more than print line after line."""
    return stream.isatty() and os.environ.get("TERM", "").lower() not in DUMB  # noqa: TID251  # this is the edge


def write_all(out: TextIO, text: str) -> None:
    """Write it all; a terminal that an event loop reads from refuses to wait, so this waits for it."""
    out.flush()
    left = memoryview(text.encode("utf-8", "replace"))
    descriptor = out.fileno()
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:
            select.select((), (descriptor,), ())


def restore() -> None:
    """Let the terminal wait again, for the shell and whatever comes next."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if not stream.closed and stream.isatty():
            os.set_blocking(stream.fileno(), True)
