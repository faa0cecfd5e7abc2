"""The last lines of a terminal, written anew while they change, and gone without a trace at the end."""

import shutil
from typing import TextIO

from holdfast.cli.terminal.output import colored, write_all

# Between these a terminal shows nothing half done; one that does not know them passes over them.
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"


class LiveRegion:
    """Text that stays goes above the live lines; writing may wait for the terminal, so not on the loop."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._rows = 0
        self._shown = ""

    def show(self, settled: str, live: str) -> None:
        """Print what stays, and replace the live lines."""
        if not settled and live == self._shown:
            return
        rows_max = max(1, shutil.get_terminal_size((80, 24)).lines - 2)
        lines = live.splitlines(keepends=True)[-rows_max:]
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        # line by line: a terminal may take an erased screen for something to keep in its history
        erased = "\r" + "\x1b[A\x1b[2K" * self._rows
        write_all(self._out, _BEGIN + erased + colored(settled + "".join(lines)) + _END)
        self._rows, self._shown = len(lines), live

    def clear(self) -> None:
        """Leave nothing behind."""
        if self._rows:
            self.show("", "")
