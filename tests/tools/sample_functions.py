"""Functions that the tests make tools of; a child process imports them from here."""

import os
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta


class Point(msgspec.Struct):
    """A place."""

    x: int
    y: int = 0


def add(a: int, b: Annotated[int, Meta(description="The second.")] = 2) -> int:
    """Add two numbers.

    Args:
        a: The first.
    """
    return a + b


def typed(day: date, points: list[Point]) -> dict[str, object]:
    """Show that arguments arrive with their types."""
    return {
        "day": day.isoformat(),
        "x": sum(point.x for point in points),
        "where": Path.cwd().name,
    }


def fail(text: str) -> None:
    """Always fail."""
    sys.stdout.write("printed before\n")
    raise ValueError(text)


def vanish() -> None:
    """Die without a word."""
    os._exit(3)


def hang() -> None:
    """Start a process and wait for it for ever."""
    sys.stdout.write("hanging\n")
    sys.stdout.flush()
    subprocess.run(["sleep", "1000"], check=False)


def environment() -> list[str]:
    """The names of the variables that a child has."""
    return sorted(os.environ)  # noqa: TID251 - what a tool sees is the question


async def shout(text: str) -> str:
    """Say it loud."""
    if not text:
        raise ValueError("nothing to say")
    return text.upper()
