"""How the words of a task and what is piped in become one text."""

import io
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest

from holdfast.cli.run import PIPED_BYTES_MAX, read_task


@contextmanager
def pipe_with(data: bytes) -> Generator[TextIO]:
    """The end of a pipe in which this is, and nothing more."""
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)
    with os.fdopen(reader) as stream:
        yield stream


@pytest.mark.parametrize(
    ("words", "data", "task"),
    [
        (["summarise", "this"], b"one\ntwo\n", "summarise this\n\n<stdin>\none\ntwo\n</stdin>"),
        (["review:", "-"], b"a diff\n", "review: a diff"),
        (["summarise"], b"", "summarise"),
        (["summarise"], b" \n", "summarise"),
        ([], b"do it\n", "do it"),
        ([], b"", ""),
    ],
)
def test_a_pipe_follows_the_words_or_replaces_the_dash(words: list[str], data: bytes, task: str) -> None:
    with pipe_with(data) as stdin:
        assert read_task(words, stdin) == task


def test_a_file_is_read_like_a_pipe_and_a_device_is_not(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("my notes", encoding="utf-8")
    with (tmp_path / "notes").open(encoding="utf-8") as stdin:
        assert read_task(["sort"], stdin) == "sort\n\n<stdin>\nmy notes\n</stdin>"
    with Path("/dev/zero").open(encoding="utf-8") as stdin:
        assert read_task(["sort"], stdin) == "sort"


def test_a_pipe_that_stays_silent_is_not_waited_for_forever(capsys: pytest.CaptureFixture[str]) -> None:
    """P3: a service may leave a pipe open that nobody writes to; the task starts, and says so."""
    reader, writer = os.pipe()
    with os.fdopen(reader) as stdin, os.fdopen(writer, "w"):
        assert read_task(["hello"], stdin, first_byte_s=0.01) == "hello"
    assert "no data on standard input" in capsys.readouterr().err


def test_an_input_that_is_too_large_is_refused_with_what_to_do() -> None:
    """P12: instead of a task that is cut off somewhere."""
    stdin = io.TextIOWrapper(io.BytesIO(b"a" * (PIPED_BYTES_MAX + 1)))
    with pytest.raises(SystemExit, match=r"larger than 8 MB\. Save it as a file in the workspace"):
        read_task(["sort", "-"], stdin)


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_what_is_piped_in_and_is_no_text_is_told_in_a_line(errors: str) -> None:
    """P12: also where the locale says nothing, and Python reads bytes as half characters."""
    stdin = io.TextIOWrapper(io.BytesIO(b"a picture: \xff\xd8"), encoding="utf-8", errors=errors)
    with pytest.raises(SystemExit, match="standard input isn't UTF-8 text"):
        read_task(["describe", "-"], stdin)
