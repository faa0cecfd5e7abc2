"""Writes to the terminal. All output passes here, and loses control sequences other than our own colors."""

import os
import re
import select
import sys
from typing import TextIO

from holdfast.safe_text import safe, safe_json

DUMB = frozenset({"", "dumb", "unknown"})
_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")
_CLEAR_LINE = "\r\x1b[2K"


def echo(text: object = "", *, end: str = "\n") -> None:
    """Write plain text to the standard output."""
    _write(sys.stdout, safe(str(text)) + end)


def echo_error(text: object) -> None:
    """Write a line of plain text to the standard error output."""
    _write(sys.stderr, safe(str(text)) + "\n")


def echo_colored(text: str) -> None:
    """Write text rendered by `Style`, to whichever standard stream is a terminal."""
    _write(sys.stdout if sys.stdout.isatty() else sys.stderr, colored(text))


def echo_json(document: bytes) -> None:
    """Write a JSON document with the same meaning, but with control characters escaped."""
    _write(sys.stdout, safe_json(document.decode()) + "\n")


def echo_exactly(text: str, out: TextIO) -> None:
    """Write text of any origin: unchanged to a file or a pipe, as plain text to a terminal."""
    _write(out, safe(text) if out.isatty() else text)


def show_step(text: str) -> None:
    """Show a startup step until the next one replaces it. Does nothing unless stderr is a terminal."""
    if is_drawable(sys.stderr):
        _write(sys.stderr, f"{_CLEAR_LINE}\x1b[2m{safe(text)} …\x1b[0m")


def clear_step() -> None:
    """Remove the step that is shown."""
    if is_drawable(sys.stderr):
        _write(sys.stderr, _CLEAR_LINE)


def colored(text: str) -> str:
    """The text with colors, but no other control sequences."""
    return "".join(part if nth % 2 else safe(part) for nth, part in enumerate(_COLOUR.split(text)))


def is_drawable(stream: TextIO) -> bool:
    """Whether this is a terminal, and one that can do more than print line after line."""
    return stream.isatty() and os.environ.get("TERM", "").lower() not in DUMB  # noqa: TID251  # this is the edge


def write_all(out: TextIO, text: str) -> None:
    """Write all of a text that has our own cursor movements; the rest of it has gone through `colored`.

    A terminal that an event loop reads from is non-blocking, so this waits until it's writable.
    """
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


def _write(out: TextIO, text: str) -> None:
    out.write(text)
    out.flush()
