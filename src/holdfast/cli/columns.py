"""Lists as plain columns: aligned, fitted to the terminal where there is one, whole where there is none."""

import shutil
import sys
import time
from collections.abc import Sequence

import msgspec

from holdfast.cli.safe_text import safe_line

GAP = "  "
LAST_COLUMNS_MIN = 40  # with less room than this, the last column gets a line of its own


def print_columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under a head; the last column takes what room is left, or the next line."""
    cells = [[safe_line(cell) for cell in row] for row in rows]
    room = shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 0
    if not cells and room:
        print("There are none.")
        return
    for line in _lines([list(head), *cells], room):
        print(line[: room - 1] + "…" if room and len(line) > room else line)


def _lines(table: list[list[str]], room: int) -> list[str]:
    widths = [max(len(row[at]) for row in table) for at in range(len(table[0]))]
    firsts = [
        GAP.join(cell.ljust(width) for cell, width in zip(row, widths[:-1], strict=False)) for row in table
    ]
    if not room or room - len(firsts[0]) - len(GAP) >= min(LAST_COLUMNS_MIN, widths[-1]):
        return [f"{first}{GAP}{row[-1]}".rstrip() for first, row in zip(firsts, table, strict=True)]
    below = [row[-1] for row in table[1:]]
    pairs = [[first.rstrip(), f"    {last}"] for first, last in zip(firsts[1:], below, strict=True)]
    return [firsts[0].rstrip(), *(line for pair in pairs for line in pair if line.strip())]


def print_json(answer: object) -> None:
    """One JSON document."""
    print(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())


def when(at_s: float) -> str:
    """A moment as a person reads it."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_s)) if at_s else "-"
