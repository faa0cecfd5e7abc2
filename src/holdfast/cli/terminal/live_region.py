"""The last lines of a terminal, written anew while they change, and gone without a trace at the end."""

import shutil
from collections.abc import Sequence
from typing import TextIO

from holdfast.cli.terminal.output import colored, write_all
from holdfast.safe_text import columns_of, safe

# Between these a terminal shows nothing half done; one that does not know them passes over them.
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"


class LiveRegion:
    """Text that stays goes above the live lines; writing may wait for the terminal, so not on the loop."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._widths: list[int] = []  # of the live lines
        self._shown = ""

    def show(self, settled: str, live: str) -> None:
        """Print what stays, and replace the live lines."""
        if not settled and live == self._shown:
            return
        size = shutil.get_terminal_size((80, 24))
        rows_max = max(1, size.lines - 2)
        lines = live.splitlines(keepends=True)[-rows_max:]
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        # line by line: a terminal may take an erased screen for something to keep in its history
        erased = "\r" + "\x1b[A\x1b[2K" * rows_taken(self._widths, size.columns)
        write_all(self._out, _BEGIN + erased + colored(settled + "".join(lines)) + _END)
        self._widths, self._shown = [columns_of(safe(line.rstrip("\n"))) for line in lines], live

    def clear(self) -> None:
        """Leave nothing behind."""
        if self._widths:
            self.show("", "")


def rows_taken(widths: Sequence[int], columns: int) -> int:
    """How many rows lines take that were written in a wider window, and that the terminal wrapped."""
    return sum(max(1, -(-width // columns)) for width in widths)
