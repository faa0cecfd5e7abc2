"""The table of guards names tests that there are."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def rows() -> list[list[str]]:
    text = (ROOT / "docs" / "security.md").read_text("utf-8")
    table = text.partition("## Untrusted inputs")[2]
    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_row_says_who_chooses_what_and_which_test_holds_its_guard() -> None:
    assert len(rows()) > 20
    for row in rows():
        assert len(row) == 4, row
        assert all(row), row


def test_every_test_that_is_named_is_there() -> None:
    for row in rows():
        for name in re.findall(r"`([^`]+)`", row[3]):
            assert (ROOT / name).is_file(), f"{row[1]}: {name}"
