"""What a person who watches a server sees of its log."""

import logging
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.config.settings import Settings
from holdfast.host.logs import LogFile, RedactingFormatter, terminal_log
from holdfast.redaction import Redactor


@pytest.mark.parametrize(
    ("name", "level", "shown"),
    [
        ("holdfast.runner", logging.INFO, True),
        ("holdfast.models.call", logging.INFO, False),
        ("holdfast.models.call", logging.WARNING, True),
        ("asyncio", logging.WARNING, True),
        ("uvicorn.error", logging.WARNING, False),
        ("uvicorn.error", logging.ERROR, True),
    ],
)
def test_the_terminal_shows_what_is_amiss_here_and_not_what_strangers_send(
    name: str, level: int, shown: object
) -> None:
    """P9."""
    record = logging.LogRecord(name, level, "", 0, "words", None, None)
    assert bool(terminal_log(Settings()).filter(record)) is shown


def line(text: str) -> logging.LogRecord:
    return logging.LogRecord("holdfast", logging.INFO, "", 0, text, None, None)


def test_a_log_file_that_is_removed_is_made_again(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "holdfast.log")
    file.handle(line("before"))
    (tmp_path / "holdfast.log").unlink()
    file.handle(line("after"))
    file.close()
    assert (tmp_path / "holdfast.log").read_text() == "after\n"


def test_a_full_disk_is_said_once_and_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "holdfast.log").symlink_to("/dev/full")
    file = LogFile(tmp_path / "holdfast.log")
    for _ in range(3):
        file.handle(line("words"))
    said = capsys.readouterr().err
    assert said.count("No space left on device") == 1
    assert "Traceback" not in said
    with suppress(OSError):  # what was never written cannot be written now either
        file.close()


def test_no_line_of_the_log_holds_a_key_not_even_in_a_traceback() -> None:
    """P11: a known secret, and what is only formed like a key."""
    form = RedactingFormatter("%(message)s", Redactor(["known-secret"]))
    try:
        raise ValueError("cannot use known-secret or sk-proj-a1B2c3D4e5F6g7H8i9")
    except ValueError as error:
        raised = (ValueError, error, error.__traceback__)
    record = logging.LogRecord("holdfast", logging.ERROR, "", 0, "with %s", ("known-secret",), raised)
    written = form.format(record)
    assert written.startswith("with [redacted]\n")
    assert "cannot use [redacted] or [redacted]" in written.splitlines()[-1]
