"""Lists as plain columns: aligned, cut to the terminal where there is one, whole where there is none."""

import shutil
import sys
import time
from collections.abc import Sequence

import msgspec

from holdfast.cli.safe_text import safe_line


def print_columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under a head; the last column takes what room is left."""
    cells = [[safe_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in [head, *cells]) for at in range(len(head))]
    room = shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 0
    for row in [head, *cells]:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        print(line[: room - 1] + "…" if room and len(line) > room else line)


def print_json(answer: object) -> None:
    """One JSON document."""
    print(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())


def when(at_s: float) -> str:
    """A moment as a person reads it."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_s)) if at_s else "-"
