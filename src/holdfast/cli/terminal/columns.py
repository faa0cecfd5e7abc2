"""Lists as plain columns: aligned, fitted to the terminal where there is one, whole where there is none."""

import shutil
import sys
import time
from collections.abc import Sequence
from typing import cast

import msgspec

from holdfast.api.body import ResponseBody
from holdfast.cli.terminal.output import echo, echo_json
from holdfast.safe_text import columns_of, cut, safe_line

GAP = "  "
INDENT = "    "
LAST_COLUMNS_MIN = 40  # with less room than this, the last column gets its own line


def print_columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under a head; the last column takes what room is left, or the next line."""
    cells = [[safe_line(cell) for cell in row] for row in rows]
    room = shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 0
    if not cells and room:
        echo("Nothing to show.")
        return
    for line in fitted([list(head), *cells], room):
        echo(cut(line, room) if room else line)


def fitted(table: list[list[str]], room: int) -> list[str]:
    """A head and its rows as lines for so many columns, any number if `room` is 0."""
    widths = [max(columns_of(row[at]) for row in table) for at in range(len(table[0]))]
    # The last column may be cut, but not to nothing: with less room than this it goes to the next line.
    needed = [*widths[:-1], min(LAST_COLUMNS_MIN, widths[-1])]
    breaks = _breaks(needed, room)
    # A last column that stands alone in its line needs no head.
    has_plain_head = len(breaks) > 1 and breaks[-1] == len(widths) - 1
    lines: list[str] = []
    for row in table:
        spare = (width - columns_of(cell) for cell, width in zip(row, widths[:-1], strict=False))
        padded = [*(cell + " " * width for cell, width in zip(row, spare, strict=False)), row[-1]]
        ends = [*breaks[1:], len(row)]
        parts = [GAP.join(padded[begin:end]).rstrip() for begin, end in zip(breaks, ends, strict=True)]
        shown = parts[:-1] if row is table[0] and has_plain_head else parts
        lines += [shown[0], *(INDENT + part for part in shown[1:] if part)]
    return lines


def _breaks(widths: list[int], room: int) -> list[int]:
    """The columns that begin a line."""
    breaks, at = [0], widths[0]
    for column, width in enumerate(widths[1:], 1):
        at += len(GAP) + width
        if room and at > room:
            breaks.append(column)
            at = len(INDENT) + width
    return breaks


def print_json(answer: object) -> None:
    """One JSON document."""
    echo_json(msgspec.json.format(msgspec.json.encode(_with_defaults(answer)), indent=2))


def _with_defaults(value: object) -> object:
    """A response with the fields that HTTP leaves out, so that scripts find every one of them."""
    if isinstance(value, list | tuple):
        return [_with_defaults(one) for one in cast("Sequence[object]", value)]
    if not isinstance(value, ResponseBody):
        return value
    config = value.__struct_config__
    names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
    fields = {sent: getattr(value, name) for sent, name in names}
    shown = {name: _with_defaults(one) for name, one in fields.items() if one is not msgspec.UNSET}
    # On HTTP, some clients of hermes-agent check these tags; a script has no reason to.
    kind = {config.tag_field: str(config.tag).removeprefix("hermes.")} if config.tag_field else {}
    return kind | shown


def when(at_s: float) -> str:
    """A moment as a person reads it."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_s)) if at_s else "-"
