"""What takes the place of a preview, and where."""

from msgspec.structs import replace

from features.channels.samples import DIALECT, PREVIEW, SHOWN, channel_of, session_of
from holdfast import events as e
from holdfast.features.channels.deliveries import pending_events, with_heading
from holdfast.features.channels.events import (
    ChannelMessageClosed,
    ChannelResultRequested,
    ChannelUpdateLogged,
)
from holdfast.features.channels.state import AcceptedMessage, ChannelState, apply_to_channel
from holdfast.folds.session_fold import SessionFold


def said(channel: ChannelState, session: SessionFold) -> list[tuple[str, int, str, bool]]:
    found = pending_events(channel, "s", session, text_format=DIALECT, now_ms=9)
    intents = [one for one in found if isinstance(one, e.DeliveryIntended)]
    return [(one.message, one.part, one.edits, one.removes) for one in intents]


def test_the_first_part_of_the_answer_changes_the_preview() -> None:
    """P9: no half answer stays in the chat."""
    first, second = ("answer", 0, PREVIEW.key, False), ("answer", 1, "", False)
    assert said(channel_of(PREVIEW, SHOWN), session_of("a|b")) == [first, second]
    assert said(channel_of(PREVIEW), session_of("a|b")) == [first, second], "it may be on its way"
    assert said(channel_of(), session_of("a|b")) == [("answer", 0, "", False), second]
    intents = pending_events(channel_of(), "s", session_of("a"), text_format=DIALECT, now_ms=9)
    assert [one.format for one in intents if isinstance(one, e.DeliveryIntended)] == [3]


def test_a_preview_whose_run_failed_becomes_the_failure() -> None:
    """P9: a final failure is said once, with what to do."""
    failed = session_of("", "failed")
    found = pending_events(channel_of(PREVIEW, SHOWN), "s", failed, text_format=DIALECT, now_ms=9)
    (ending, settled) = found
    assert isinstance(ending, e.DeliveryIntended)
    assert (ending.message, ending.edits) == ("ending", PREVIEW.key)
    assert "Set one." in ending.body
    assert "!retry" in ending.body
    assert isinstance(settled, ChannelMessageClosed)


def test_an_answer_comes_below_what_was_said_after_its_preview() -> None:
    steered = ChannelUpdateLogged(at_ms=4, key="k2", became="steer", chat="1", user="u", platform_id="8")
    channel = channel_of(PREVIEW, SHOWN, steered)
    removed = ("preview.removed", 0, PREVIEW.key, True)
    assert said(channel, session_of("a")) == [removed, ("answer", 0, "", False)]
    card = replace(PREVIEW, message="apr_1")
    pressed = e.DeliveryConfirmed(at_ms=5, delivery=card.key, platform_id="9")
    channel = channel_of(PREVIEW, SHOWN, card, pressed)
    assert said(channel, session_of("a")) == [removed, ("answer", 0, "", False)]


def test_a_preview_that_never_came_is_not_changed() -> None:
    moot = e.DeliveryRejected(at_ms=3, delivery=PREVIEW.key, why="complete", moot=True)
    channel = channel_of(PREVIEW, moot)
    assert channel.outbox.deliveries[PREVIEW.key].state == "moot"
    assert said(channel, session_of("a")) == [("answer", 0, "", False)]


def test_a_chat_that_did_not_ask_is_told_whose_answer_it_is() -> None:
    """P14: the result of a trigger has its name, once."""
    for text, outcome, heads in (("a|b", "completed", ["news"] * 2), ("", "completed", ["news"])):
        state = ChannelState()
        wanted = ChannelResultRequested(at_ms=1, chat="1", session_id="s", message_id="m", title="news")
        apply_to_channel(state, 1, wanted)
        found = pending_events(state, "s", session_of(text, outcome), text_format=DIALECT, now_ms=9)
        assert [one.head for one in found if isinstance(one, e.DeliveryIntended)] == heads
    assert with_heading("ne`ws\n", "well") == "From `news`:\n\nwell"
    assert with_heading("news", " ") == " "
    assert with_heading("", "well") == "well"


def test_a_chat_is_told_once_how_to_accept_what_its_run_proposed() -> None:
    """P9: whoever awaits the answer elsewhere, such as a webhook, gets the answer alone."""
    for proposals, words in ((0, []), (1, ["A proposed memory"]), (2, ["2 proposed memories"])):
        session = session_of("hello", proposals=proposals)
        found = pending_events(channel_of(), "s", session, text_format=DIALECT, now_ms=9)
        bodies = [one.body for one in found if isinstance(one, e.DeliveryIntended) and one.body]
        assert [body.partition(" or ")[0] for body in bodies] == words
        assert all("`holdfast memory show`" in body for body in bodies)
    elsewhere = ChannelState()
    taken = AcceptedMessage("1", "s", "m", "5", is_from_elsewhere=True)
    elsewhere.awaited[taken.awaited_as] = taken
    assert len(said(elsewhere, session_of("hello", proposals=1))) == 1
