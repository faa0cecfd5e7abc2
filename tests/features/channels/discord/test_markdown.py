"""Markdown as Discord shows it: right, within the limits, and nobody's text breaks out of its formatting."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.discord.markup import read_markdown
from holdfast.features.channels.cards import Card
from holdfast.features.channels.discord.carrier import card_content, components, nonce_of
from holdfast.features.channels.discord.markdown import (
    PARTS_MAX,
    TOO_LONG,
    UNITS_MAX,
    code_block,
    discord_draft,
    discord_markdown,
    escaped,
    utf16_units,
)

GOLDEN = Path(__file__).parent / "golden"
MARKUP = ["<", ">", "@everyone", "<@42>", "<#1>", "`", "``", "```", "*", "**", "***", "_", "__", "~~", "||"]
MORE = [
    "[",
    "](http://x)",
    "|",
    "\\",
    "#",
    "# ",
    "-# ",
    "> ",
    ">>> ",
    "- ",
    "1. ",
    "https://a.b/c_d*e",
    "</new:1>",
]
SPECIAL = st.sampled_from(
    [*MARKUP, *MORE, "```\n", "\n", "\n\n", "    ", "\0", "\ud800", "😀", "<t:1>", "<:a:1>"]
)
OURS = {"bold", "italic", "strike", "code", "pre", "link", "quote"}


def test_the_golden_text_is_converted_as_it_was() -> None:
    """The format of a delivery is part of its record, so an old one must stay as it is."""
    source = (GOLDEN / "everything.md").read_text("utf-8")
    assert discord_markdown(source) == [(GOLDEN / "everything.txt").read_text("utf-8").rstrip("\n")]


@settings(max_examples=150, deadline=None)
@given(st.lists(SPECIAL | st.text(max_size=20), max_size=60).map("".join))
def test_discord_shows_whatever_is_written_as_text(text: str) -> None:
    """P11: no text mentions, and none is formatted but by our own markup."""
    for part in discord_markdown(text):
        assert 0 < utf16_units(part) <= UNITS_MAX
        assert read_markdown(part).kinds() <= OURS
    shown = read_markdown(escaped(text))
    assert shown.kinds() <= {"link"}
    if "http" not in text:
        assert shown.text == text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    block = read_markdown(code_block(f"x{text}"))
    assert block.kinds() == {"pre"}


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(min_value=1, max_value=900), min_size=30, max_size=60),
    st.sampled_from([" ", "\n", "\n\n"]),
)
def test_a_long_text_is_split_and_nothing_of_it_is_lost(lengths: list[int], gap: str) -> None:
    words = [f"{at}{'😀x_'[at % 3] * length}" for at, length in enumerate(lengths)]
    parts = discord_markdown(gap.join(words))
    assert all(utf16_units(part) <= UNITS_MAX for part in parts)
    assert "".join("".join(read_markdown(part).text for part in parts).split()) == "".join(words)


@pytest.mark.parametrize(
    ("source", "text", "kinds"),
    [
        ("**bold *and italic***", "bold and italic", {"bold", "italic"}),
        ("**a***b*", "ab", {"bold", "italic"}),
        ("*a* **b** ~~c~~", "a b c", {"bold", "italic", "strike"}),
        ("`` a`b ``", "a`b", {"code"}),
        ("**bold `co**de`**", "bold co**de", {"bold", "code"}),
        ("[a *link*](https://x.y/(z))", "a link", {"link"}),
        ("[https://bank.example](https://x.y)", "https://bank.example", {"link"}),
        ("see https://x.y/a_b.", "see https://x.y/a_b.", {"link"}),
        ("**see https://x.y/a\\*\\*b**", "see https://x.y/a%2A%2Ab", {"bold", "link"}),
        ("> quoted\n> `code`", "quoted\ncode", {"quote", "code"}),
        ("# Heading", "Heading", {"bold"}),
        ("3. third\n4. fourth", "3. third\n4. fourth", set[str]()),
        ("<@42> @everyone <#1> </new:1>", "<@42> @everyone <#1> </new:1>", set[str]()),
    ],
)
def test_what_people_see(source: str, text: str, kinds: set[str]) -> None:
    (part,) = discord_markdown(source)
    read = read_markdown(part)
    assert (read.text, read.kinds()) == (text, kinds)


def test_code_that_is_split_is_closed_and_opened_again() -> None:
    lines = [f"line {number} *" for number in range(400)]
    parts = discord_markdown("\n".join(["Before.", "", "```py", *lines, "```", "", "After."]))
    assert parts[0] == "Before."
    code = parts[1:]
    assert all(part.startswith("```py\n") for part in code)
    assert code[-1].endswith("\n```\n\nAfter.")
    shown = [
        line for part in code for line in read_markdown(part).text.removesuffix("\n\nAfter.").splitlines()
    ]
    assert shown == lines


def test_an_answer_without_end_is_cut_visibly() -> None:
    parts = discord_markdown("word " * 40_000)
    assert len(parts) == PARTS_MAX
    assert parts[-1] == TOO_LONG
    assert discord_markdown(" \n ") == []
    assert utf16_units(discord_draft("😀" * 9_000)) <= UNITS_MAX
    assert discord_draft("half **an ans") == "half \\*\\*an ans"


def test_a_card_notifies_nobody_and_its_buttons_are_within_discords_limits() -> None:
    """P8: a button carries the approval and the choice, within Discord's 100 characters."""
    buttons = tuple((f"choice {at}" * 20, f"q:qst_{'0' * 24}:{at}") for at in range(25))
    card = Card("*headline* " * 3, "detail ``` " * 9, ("note <@1>",) * 9, buttons)
    assert "mention" not in read_markdown(card_content(card)).kinds()
    rows = components(card)
    assert [len(row["components"]) for row in rows] == [5] * 5
    assert all(
        len(one["custom_id"]) <= 100 and len(one["label"]) <= 80 for row in rows for one in row["components"]
    )
    assert len(nonce_of("chn_dc", "key")) == 25
    assert nonce_of("chn_dc", "key") != nonce_of("chn_dc", "other")
