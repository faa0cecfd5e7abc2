"""A terminal in memory: enough of one to see what a person would, and it fails on what it does not know."""

import os
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager

import pytest

_TOKEN = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])|\x1b(.)|([\r\n])|([^\x1b\r\n]+)", re.DOTALL)


class Screen:
    """Lines and a cursor; `lines` are without trailing spaces."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._rows: list[str] = [""]
        self._row = self._column = 0

    @property
    def lines(self) -> list[str]:
        return [row.rstrip() for row in self._rows]

    @property
    def text(self) -> str:
        return "\n".join(self.lines).strip("\n")

    def write(self, data: str) -> None:
        for token in _TOKEN.finditer(data):
            private, numbers, letter, other, move, text = token.groups()
            assert not other, f"unknown sequence {token[0]!r}"
            if text:
                self._put(text)
            elif move == "\r":
                self._column = 0
            elif move == "\n":
                self._row, self._column = self._row + 1, 0
                self._rows += [""] * (self._row + 1 - len(self._rows))
            elif letter == "A":
                self._row = max(0, self._row - int(numbers or 1))
            elif letter == "K":
                self._rows[self._row] = ""
            else:
                assert letter == "m" or (private and letter in "hl"), f"unknown sequence {token[0]!r}"

    def _put(self, text: str) -> None:
        row = self._rows[self._row].ljust(self._column)
        self._rows[self._row] = row[: self._column] + text + row[self._column + len(text) :]
        self._column += len(text)
        assert self._column <= self.width, f"a line wider than the terminal: {self._rows[self._row]!r}"


@contextmanager
def watched(patch: pytest.MonkeyPatch, *, kind: str = "xterm-256color") -> Generator[int]:
    """The standard streams are a terminal of this kind meanwhile, whose other side this is."""
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as terminal, os.fdopen(ours, "rb"), patch.context() as patched:
        patched.setattr(sys, "stdout", terminal)
        patched.setattr(sys, "stdin", terminal)
        patched.setenv("TERM", kind)
        yield ours


def shown_on(terminal: int) -> str:
    """All that was written to a watched terminal since the last look; it arrives in parts."""
    end, shown = "\N{END OF PROOF}", b""
    sys.stdout.write(end)
    sys.stdout.flush()
    while not shown.endswith(end.encode()):
        shown += os.read(terminal, 4096)
    return shown.decode().removesuffix(end)
