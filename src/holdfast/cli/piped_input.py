"""The task of `holdfast run`: the words of the command line, and what is piped in."""

import os
import select
import stat
import sys
from collections.abc import Sequence
from typing import TextIO

from holdfast.cli.terminal.output import echo_error

PIPED_BYTES_MAX = 8 * 1024 * 1024
FIRST_BYTE_S = 3.0  # how long a silent pipe is waited for: a service may leave one open for ever


def read_task(
    words: Sequence[str], stdin: TextIO | None = None, *, first_byte_s: float = FIRST_BYTE_S
) -> str:
    """The whole task; `-` is replaced by the standard input, and without it a pipe follows the words.

    Raises SystemExit with a message if the input is too large or no text.
    """
    stdin = sys.stdin if stdin is None else stdin
    if "-" in words:
        return " ".join(_read(stdin) if word == "-" else word for word in words).strip()
    task = " ".join(words).strip()
    piped = _read(stdin) if stdin is not None and _has_input(stdin, bool(task), first_byte_s) else ""
    if not task or not piped.strip():
        return task or piped.strip()
    return f"{task}\n\n<stdin>\n{piped.rstrip()}\n</stdin>"


def _has_input(stdin: TextIO, has_words: bool, first_byte_s: float) -> bool:
    """Whether to read it: a pipe or a file, and a pipe only if something comes soon."""
    try:
        kind = os.fstat(stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    if stat.S_ISREG(kind):
        return True
    if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)):
        return False
    if not has_words or select.select([stdin], [], [], first_byte_s)[0]:
        return True
    echo_error(
        f"holdfast: no data on standard input for {first_byte_s:g} s, so the task runs without it; add "
        "</dev/null to skip the wait",
    )
    return False


def _read(stdin: TextIO | None) -> str:
    data = b"" if stdin is None else stdin.buffer.read(PIPED_BYTES_MAX + 1)
    if len(data) > PIPED_BYTES_MAX:
        raise SystemExit(
            f"holdfast: standard input is larger than {PIPED_BYTES_MAX // 1024**2} MB. "
            "Save it as a file in the workspace and mention the file in the task."
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SystemExit("holdfast: standard input isn't UTF-8 text") from error
