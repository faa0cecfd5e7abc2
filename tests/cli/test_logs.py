"""What a person who watches a server sees of its log."""

import logging

import pytest

from holdfast.cli.logs import to_terminal
from holdfast.settings import Settings


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
    assert bool(to_terminal(Settings()).filter(record)) is shown
