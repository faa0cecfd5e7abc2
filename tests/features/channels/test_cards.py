"""Cards: what can be allowed is shown whole, on every platform; what can't be shown can only be denied."""

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fakes.discord.markup import read_markdown
from fakes.slack.markup import read_blocks
from fakes.telegram.markup import read_html
from features.channels.samples import ANY_TEXT, ID, approval, choices_of, question
from holdfast.features.channels.cards import (
    ABOVE,
    ALL_ABOVE,
    LISTED_CHARS_MAX,
    LONG_QUESTION,
    TOO_LONG,
    WORDS_CHARS_MAX,
    Card,
    FitsIn,
    about_card,
    card_of,
    full_text,
    is_listed_whole,
    is_shown_whole,
    listed,
)
from holdfast.features.channels.discord import carrier as discord
from holdfast.features.channels.discord.markdown import discord_markdown
from holdfast.features.channels.slack import blocks as slack
from holdfast.features.channels.telegram import carrier as telegram
from holdfast.features.channels.telegram.html import telegram_html
from holdfast.features.channels.texts import MARK
from holdfast.folds.run import AskStatus
from holdfast.safe_text import exact
from holdfast.tools.files.edits import unified_diff


def _on_telegram(card: Card) -> tuple[str, int]:
    text, _ = read_html(telegram.card_html(card))
    return text, 4096 - telegram.utf16_units(text)


def _on_slack(card: Card) -> tuple[str, int]:
    message = slack.card_message(card)
    assert len(message.text) <= slack.CHARS_MAX
    return read_blocks(message.blocks).shown, 1


def _on_discord(card: Card) -> tuple[str, int]:
    content = discord.card_content(card)
    return read_markdown(content).text, 2000 - discord.utf16_units(content)


PLATFORMS: dict[str, tuple[FitsIn, Callable[[Card], tuple[str, int]]]] = {
    "telegram": (telegram.card_fits, _on_telegram),
    "slack": (slack.card_fits, _on_slack),
    "discord": (discord.card_fits, _on_discord),
}


@pytest.mark.parametrize("platform", list(PLATFORMS))
@settings(max_examples=60, deadline=None)
@given(ANY_TEXT, st.integers(min_value=1, max_value=400))
@example("rm -rf `x` && echo **hi** <@1> ", 100)
@example("\u202e x\t", 300)
def test_what_can_be_allowed_is_shown_to_its_last_character(platform: str, text: str, times: int) -> None:
    """P8: a card fits with its mark, and one that offers consent leaves nothing out."""
    fits, shown_on = PLATFORMS[platform]
    ask = approval(f"{text * times} end", findings=("found", "also"), once_because="why")
    card = card_of(ask, fits)
    shown, left = shown_on(card)
    assert left >= len(MARK) + 1 or platform == "slack"
    if is_shown_whole(ask, fits):
        assert choices_of(card) == ["once", "session", "always", "deny"]
        wanted = exact(text * times).strip()
        assert "".join(wanted.split()) in "".join(shown.replace("\u200b", "").split())
        assert all(word in shown for word in ("found", "also", "why", ID))
    else:
        assert choices_of(card) == ["deny"]
        assert TOO_LONG in shown


WRITERS: dict[str, Callable[[str], list[str]]] = {
    "telegram": lambda text: [read_html(one)[0] for one in telegram_html(text)],
    "slack": lambda text: [read_blocks(one.blocks).shown for one in slack.slack_messages(text)],
    "discord": lambda text: [read_markdown(one).text for one in discord_markdown(text)],
}


@pytest.mark.parametrize("platform", list(PLATFORMS))
@settings(max_examples=60, deadline=None)
@given(ANY_TEXT, st.integers(min_value=1, max_value=400))
@example("rm -rf `x` && echo **hi** <@1> ", 100)
@example("``` \n~~~\n", 300)
@example("\u202e x\t", 300)
def test_what_is_said_above_a_card_is_all_of_it(platform: str, text: str, times: int) -> None:
    """P8: nothing of it is lost where messages are split, and nothing of it ends its block."""
    ask = approval(f"{text * times} end", findings=("found", "also"), once_because="why")
    words = full_text(ask)
    shown = "".join(WRITERS[platform](words))
    wanted = "".join(exact(text * times).split())
    assert not words or wanted in "".join(shown.replace("\u200b", "").split())
    assert not words or all(word in shown for word in ("end", "found", "also", "why", ID))


@pytest.mark.parametrize("platform", list(PLATFORMS))
def test_a_card_below_its_words_offers_its_choices_and_says_where_they_are(platform: str) -> None:
    """P8: what was found about an action is on its card, too, if there is room."""
    fits, shown_on = PLATFORMS[platform]
    card = card_of(approval("x" * 9_000, findings=("it deletes files",)), fits, above=1)
    assert choices_of(card) == ["once", "session", "always", "deny"]
    assert all(word in shown_on(card)[0] for word in (ABOVE, "it deletes files", ID))
    assert fits(card)
    crowded = approval("x", findings=tuple(f"finding {at} {'x' * 100}" for at in range(50)))
    card = card_of(crowded, fits, above=2)
    assert choices_of(card) == ["once", "session", "always", "deny"]
    assert ALL_ABOVE.format(count=2) in shown_on(card)[0]
    assert fits(card)


def test_what_is_endless_or_unknown_has_no_words() -> None:
    """P8: then there is nothing above the card, and it can only be denied."""
    unknown = approval("write", diff=unified_diff("a", "a\n" * 9_000, after="b\n" * 9_000))
    assert full_text(unknown) == ""
    assert full_text(approval("x" * WORDS_CHARS_MAX)) == ""


@pytest.mark.parametrize("platform", list(PLATFORMS))
@pytest.mark.parametrize(
    "ask",
    [
        approval("x" * 5_000),
        approval("write", diff="+line\n" * 2_000),
        approval("ls", findings=tuple(f"finding {at} {'x' * 100}" for at in range(50))),
        approval("ls", paths=tuple(f"/a/{at}" * 9 for at in range(200))),
        approval("ls", headline="h" * 5_000),
        approval("write", diff=unified_diff("a", "a\n" * 9_000, after="b\n" * 9_000)),
    ],
    ids=["command", "diff", "findings", "paths", "headline", "not compared"],
)
def test_what_does_not_fit_can_only_be_denied(platform: str, ask: AskStatus) -> None:
    """P8: nobody allows what they can't see; also if a change is too big to be shown anywhere."""
    fits, shown_on = PLATFORMS[platform]
    card = card_of(ask, fits)
    assert choices_of(card) == ["deny"]
    assert fits(card)
    shown, _ = shown_on(card)
    assert TOO_LONG in shown
    assert "/approve" not in shown
    decided = AskStatus(ask.asked, state="answered", answer="deny", by="page")
    assert fits(card_of(decided, fits))
    assert "Denied by page" in shown_on(card_of(decided, fits))[0]


@pytest.mark.parametrize("platform", list(PLATFORMS))
def test_a_long_choice_is_listed_whole_and_a_long_question_has_buttons_below_its_words(platform: str) -> None:
    fits, shown_on = PLATFORMS[platform]
    choice = "delete everything " + "but not " * 12 + "this"
    card = card_of(question("What?", choice, "nothing"), fits)
    assert f"1. {choice}" in shown_on(card)[0]
    assert choices_of(card) == ["0", "1"]
    assert all(len(label) <= 60 for label, _ in card.buttons)
    long = question("why " * 2_000, "yes", "no")
    card = card_of(long, fits)
    assert card.buttons == ()
    assert LONG_QUESTION in shown_on(card)[0]
    assert fits(card)
    card = card_of(long, fits, above=3)
    assert choices_of(card) == ["0", "1"]
    assert ALL_ABOVE.format(count=3) in shown_on(card)[0]
    assert fits(card)


def test_a_list_shows_actions_whole_or_only_counts_them() -> None:
    """P8: an id stands only beside all of its action."""
    short, long = approval("ls ``` -l"), approval("x" * (LISTED_CHARS_MAX + 1))
    text = listed([short, long])
    assert "````\nls ``` -l\n````" in text
    assert text.count(ID) == 1
    assert "Too long to list: 1." in text
    assert (is_listed_whole(short), is_listed_whole(long)) == (True, False)
    assert listed([approval("y" * 700), approval("z" * 700)]).count(ID) == 1


@pytest.mark.parametrize("platform", list(PLATFORMS))
def test_a_card_says_what_the_agent_said_and_where_it_is_from_if_there_is_room(platform: str) -> None:
    """P8: it helps to decide, but it takes no room from what is decided."""
    fits, shown_on = PLATFORMS[platform]
    ask = approval("rm x")
    about = about_card(ask, head="news", said="I would like to\nremove it. " + "word " * 100)
    shown, _ = shown_on(card_of(ask, fits, about=about))
    assert "From news" in shown
    assert "The agent said: I would like to remove it. word" in shown
    assert shown.index("rm x") < shown.index("The agent said")
    assert about_card(question("What?"), head="", said="words") == []
    size = next(one for one in range(4_000, 0, -1) if is_shown_whole(approval("x" * one), fits))
    full = approval("x" * size)
    assert card_of(full, fits, about=about) == card_of(full, fits)
