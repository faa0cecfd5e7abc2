"""A line on the terminal that says what a start is doing, and is gone when it is done."""

import sys

from holdfast.cli.terminal.output import is_drawable

_CLEAR = "\r\x1b[2K"


def show_step(text: str) -> None:
    """Show what happens now; nothing where no person watches."""
    if is_drawable(sys.stderr):
        print(f"{_CLEAR}\x1b[2m{text} …\x1b[0m", end="", file=sys.stderr, flush=True)


def clear_step() -> None:
    """Leave no trace of it."""
    if is_drawable(sys.stderr):
        print(_CLEAR, end="", file=sys.stderr, flush=True)
