"""Markdown as Slack's rich text: right, within the limits, and nobody's text formats or calls anyone."""

import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.slack.markup import read_blocks, read_text, why_bad_blocks
from features.channels.samples import ANY_TEXT
from holdfast.features.channels.cards import Card
from holdfast.features.channels.slack.blocks import (
    CHARS_MAX,
    PARTS_MAX,
    TOO_LONG,
    card_message,
    escaped,
    plain_message,
    slack_messages,
)
from holdfast.features.channels.texts import MARK

GOLDEN = Path(__file__).parent / "golden"


def test_the_golden_text_is_converted_as_it_was() -> None:
    """The format of a delivery is part of its record, so an old one must stay as it is."""
    (message,) = slack_messages((GOLDEN / "everything.md").read_text("utf-8"))
    golden = json.loads((GOLDEN / "everything.json").read_text("utf-8"))
    assert [*message.blocks] == golden["blocks"]
    assert message.text == golden["text"]


@settings(max_examples=150, deadline=None)
@given(ANY_TEXT)
def test_slack_reads_whatever_is_written_and_calls_nobody(text: str) -> None:
    """P11: text stays text; every message is legal, short enough, and pings no one."""
    card = Card(f"Allow? {text}", text, (text,), ((text, "a:1:once"),))
    messages = [*slack_messages(text), plain_message(text), card_message(card)]
    for message in [*messages, *(one.marked() for one in messages)]:
        assert why_bad_blocks(message.blocks) == ""
        shown, fallback = read_blocks(message.blocks), read_text(message.text)
        assert (shown.calls, fallback.calls, fallback.links) == ((), (), ())
        assert shown.shown.strip()
    assert read_text(escaped(text)).shown == text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(min_value=1, max_value=900), min_size=30, max_size=60),
    st.sampled_from([" ", "\n", "\n\n"]),
)
def test_a_long_text_is_split_and_nothing_of_it_is_lost(lengths: list[int], gap: str) -> None:
    words = [f"{at}{'😀x'[at % 2] * length}" for at, length in enumerate(lengths)]
    parts = [read_blocks(one.blocks).shown for one in slack_messages(gap.join(words))]
    assert all(len(part) <= CHARS_MAX for part in parts)
    assert "".join("".join(parts).split()) == "".join(words)


def test_code_that_is_split_stays_code() -> None:
    lines = [f"line {number} <" for number in range(500)]
    messages = slack_messages("\n".join(["Before.", "", "```py", *lines, "```", "", "After."]))
    elements = [one for message in messages for block in message.blocks for one in block["elements"]]
    code = [one["elements"][0]["text"] for one in elements if one["type"] == "rich_text_preformatted"]
    assert [line for text in code for line in text.splitlines()] == lines
    assert len(messages) > 1


def test_an_answer_without_end_is_cut_visibly() -> None:
    messages = slack_messages("word " * 40_000)
    assert len(messages) == PARTS_MAX
    assert read_blocks(messages[-1].blocks).shown == TOO_LONG
    assert slack_messages(" \n ") == []
    assert len(read_blocks(plain_message("x" * 9_000).blocks).shown) == CHARS_MAX
    assert read_blocks(messages[0].marked().blocks).shown.startswith(MARK)


def test_many_choices_are_in_blocks_that_slack_takes() -> None:
    card = Card("Which?", buttons=tuple((f"choice {at}", f"q:id:{at}") for at in range(30)))
    blocks = card_message(card).blocks
    assert why_bad_blocks(blocks) == ""
    assert [len(one["elements"]) for one in blocks if one["type"] == "actions"] == [25, 5]
