"""Markdown as Telegram's HTML: right, within the limits, and nobody's text breaks out of its formatting."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.telegram.markup import read_html
from holdfast.features.channels.telegram.html import (
    PARTS_MAX,
    TOO_LONG,
    UNITS_MAX,
    escaped,
    telegram_draft,
    telegram_html,
    utf16_units,
)

GOLDEN = Path(__file__).parent / "golden"
MARKUP = [
    "<",
    ">",
    "&",
    "</pre>",
    "</code>",
    "`",
    "*",
    "**",
    "_",
    "[",
    "](http://x)",
    "|",
    "~~",
    "<b>",
    "&lt;",
    "\\",
    "#",
    "😀",
]
SPECIAL = st.sampled_from([*MARKUP, "```\n", "\n", "\n\n", "> ", "- ", "1. ", "    ", "\0", "\ud800"])


def test_the_golden_text_is_converted_as_it_was() -> None:
    """The format of a delivery is part of its record, so an old one must stay as it is."""
    source = (GOLDEN / "everything.md").read_text("utf-8")
    assert telegram_html(source) == [(GOLDEN / "everything.html").read_text("utf-8").rstrip("\n")]


@settings(max_examples=150, deadline=None)
@given(st.lists(SPECIAL | st.text(max_size=20), max_size=60).map("".join))
def test_telegram_reads_whatever_is_written(text: str) -> None:
    """P11: text stays text; every message is legal HTML and short enough."""
    for part in telegram_html(text):
        shown, entities = read_html(part)
        assert 0 < utf16_units(shown) <= UNITS_MAX
        allowed = {"bold", "italic", "strikethrough", "code", "pre", "text_link", "blockquote"}
        assert {entity["type"] for entity in entities} <= allowed
    shown, entities = read_html(escaped(text))
    assert entities == []
    assert shown == text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(min_value=1, max_value=900), min_size=30, max_size=120),
    st.sampled_from([" ", "\n", "\n\n"]),
)
def test_a_long_text_is_split_and_nothing_of_it_is_lost(lengths: list[int], gap: str) -> None:
    words = [f"{at}{'😀x'[at % 2] * length}" for at, length in enumerate(lengths)]
    parts = telegram_html(gap.join(words))
    assert all(utf16_units(read_html(part)[0]) <= UNITS_MAX for part in parts)
    assert "".join("".join(parts).split()) == "".join(words)


def test_code_that_is_split_is_closed_and_opened_again() -> None:
    lines = [f"line {number} <" for number in range(900)]
    parts = telegram_html("\n".join(["Before.", "", "```py", *lines, "```", "", "After."]))
    assert parts[0] == "Before."
    code = parts[1:]
    assert all(part.startswith('<pre><code class="language-py">') for part in code)
    assert code[-1].endswith("</code></pre>\n\nAfter.")
    shown = [line for part in code for line in read_html(part)[0].removesuffix("\n\nAfter.").splitlines()]
    assert shown == lines


def test_an_answer_without_end_is_cut_visibly() -> None:
    parts = telegram_html("word " * 40_000)
    assert len(parts) == PARTS_MAX
    assert parts[-1] == TOO_LONG
    assert telegram_html(" \n ") == []
    assert utf16_units(telegram_draft("😀" * 9_000)) <= UNITS_MAX
