"""`holdfast docs`: the pages in the terminal."""

from pathlib import Path

import pytest

from forked import fork
from holdfast.cli.documentation import listed, show_docs

DOCS = Path(__file__).parents[2] / "docs"


def shown(topic: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert show_docs(topic) == 0
    return capsys.readouterr().out


def test_without_a_topic_every_page_is_listed_with_its_purpose(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown("", capsys)
    pages = list(listed(DOCS))
    assert len(pages) > 50
    for page in pages:
        assert f"  {page.topic} " in out
        assert page.about in out


@pytest.mark.parametrize(
    ("topic", "heading"),
    [
        ("channels", "# Channels"),  # before the page of the HTTP reference with this file name
        ("http/channels", "# Channels\n\nChat platforms"),
        ("Several servers", "# Run several servers"),
        ("jobs", "# Jobs"),
        ("quick", "# Quick start"),
        ("scaling.md", "# Run several servers"),
    ],
)
def test_a_page_is_found_by_its_name_its_title_or_a_beginning(
    topic: str, heading: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(topic, capsys).startswith(heading)


def test_other_words_are_searched_in_all_pages(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown("idempotency-key", capsys)
    assert "\nhttp: " in out
    assert "\nundo: " not in out


def test_words_that_no_page_contains_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert show_docs("qwertyuiop") == 1
    assert "holdfast docs" in capsys.readouterr().err


def test_an_installation_without_pages_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show_docs("", (tmp_path,)) == 1
    assert "reinstall" in capsys.readouterr().err


async def test_the_command_prints_markdown_to_a_pipe(tmp_path: Path) -> None:
    process = await fork("docs", "undo", cwd=tmp_path)
    out, _ = await process.communicate()
    assert process.returncode == 0
    assert out == (DOCS / "undo.md").read_bytes()
