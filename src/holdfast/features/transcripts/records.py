"""Reads the JSON records of a transcript, one a line, as far as they are intact."""

import json
import os
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias, cast

from msgspec import Struct, field

from holdfast.tools.files.regular_files import open_regular

Record: TypeAlias = dict[str, Any]
LINE_BYTES_MAX = 64 * 1024 * 1024
SEARCHED_CHARS_MAX = 4 * 1024 * 1024  # of a damaged line
RECORDS_PER_LINE_MAX = 100
LOSSES_MAX = 100
_START = re.compile(r'\{\s*"\w+"\s*:')


class Losses(Struct):
    """The losses of a file, for people; the first ones with their text."""

    texts: list[str] = field(default_factory=list[str])
    count: int = 0

    def add(self, text: str) -> None:
        """Note one more loss."""
        self.count += 1
        if self.count <= LOSSES_MAX:
            self.texts.append(text)


def records(path: Path, losses: Losses, *, is_record: Callable[[Record], bool]) -> Iterator[Record]:
    """Yield the records in order; raises OSError, also for what isn't a regular file.

    A damaged line can have whole records in it: one was cut off, and the next was written behind it.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        number = 0
        while line := file.readline(LINE_BYTES_MAX + 1):
            number += 1
            if len(line) > LINE_BYTES_MAX:
                losses.add(f"line {number} is longer than {LINE_BYTES_MAX:,} bytes")
                while line and not line.endswith(b"\n"):
                    line = file.readline(LINE_BYTES_MAX)
                continue
            text = line.replace(b"\0", b"").decode("utf-8", "replace").strip()
            if not text:
                if b"\0" in line:
                    losses.add(f"line {number} has only zero bytes, as after a power cut")
                continue
            found = _record(text)
            if found is not None and is_record(found):
                yield found
            elif found is None:
                whole = list(_inside(text, is_record))
                losses.add(
                    f"line {number} is damaged ({len(line):,} bytes)"
                    + (f"; {len(whole)} records in it are intact" if whole else "")
                )
                yield from whole


def text_of(value: object) -> str:
    """The value, if it is text; else an empty one."""
    return value if isinstance(value, str) else ""


def table_of(value: object) -> Record:
    """The value, if it is an object; else an empty one."""
    return cast("Record", value) if isinstance(value, dict) else {}


def list_of(value: object) -> list[object]:
    """The value, if it is a list; else an empty one."""
    return cast("list[object]", value) if isinstance(value, list) else []


def tables_of(value: object) -> list[Record]:
    """The objects in the value, if it is a list."""
    return [cast("Record", one) for one in list_of(value) if isinstance(one, dict)]


def ms_of(record: Record) -> int:
    """The time of a record in milliseconds of Unix time; 0 if it has none."""
    try:
        return round(datetime.fromisoformat(text_of(record.get("timestamp"))).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return 0


def _record(text: str) -> Record | None:
    try:
        value = json.loads(text)
        return _encodable(value) if isinstance(value, dict) else None
    except (ValueError, RecursionError):
        return None


def _encodable(value: Any) -> Any:
    """The value with replacements for halves of characters, which JSON can have and no text can."""
    match value:
        case str() if not value.isascii():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [_encodable(one) for one in cast("list[Any]", value)]
        case dict():
            fields = cast("dict[str, Any]", value).items()
            return {_encodable(name): _encodable(one) for name, one in fields}
        case _:
            return value


def _inside(text: str, is_record: Callable[[Record], bool]) -> Iterator[Record]:
    if len(text) > SEARCHED_CHARS_MAX:
        return
    decoder = json.JSONDecoder()
    at = tries = 0
    while tries < RECORDS_PER_LINE_MAX and (start := _START.search(text, at)):
        tries += 1
        at = start.start() + 1
        try:
            value, end = decoder.raw_decode(text, start.start())
            value = _encodable(value)
        except (ValueError, RecursionError):
            continue
        if is_record(value):
            at = end
            yield value
