"""The outbox as a fold: what is to be said, in order for each chat, and what became of it."""

import pytest

from holdfast import events as e
from holdfast.decisions.deliveries import MayHaveArrived, record_of
from holdfast.folds import outbox as outbox_module
from holdfast.folds.outbox import Outbox, apply_to_outbox, note_written


def intended(message: str = "answer", *, chat: str = "1", part: int = 0) -> e.DeliveryIntended:
    return e.DeliveryIntended(at_ms=1, chat=chat, message=message, part=part, run="run", session_id="s")


def outbox_of(*events: e.Event) -> Outbox:
    outbox = Outbox()
    for seq, event in enumerate(events, 1):
        apply_to_outbox(outbox, seq, event)
    return outbox


def test_the_key_of_a_delivery_is_its_run_its_message_and_its_part() -> None:
    """P14: an intent under a known key is no second delivery."""
    first, second = intended(), intended(part=1)
    assert (first.key, second.key) == ("run/answer/0", "run/answer/1")
    outbox = outbox_of(first, second, intended(), e.SessionPinned(at_ms=1))
    assert [one.key for one in outbox.open()] == [first.key, second.key]
    settled = e.DeliveryConfirmed(at_ms=2, delivery=first.key, platform_id="7")
    outbox = outbox_of(first, settled, first)
    assert outbox.head("1") is None


def test_each_chat_has_its_own_order_and_a_settled_head_makes_room() -> None:
    first, second, other = intended("a"), intended("b"), intended("c", chat="2")
    events: list[e.Event] = [first, second, other, e.DeliveryAttempted(at_ms=2, delivery=first.key, nth=1)]
    outbox = outbox_of(*events)
    head = outbox.head("1")
    assert head is not None
    assert (head.key, head.state, head.attempts) == (first.key, "attempted", 1)
    postponed = e.DeliveryPostponed(at_ms=3, delivery=first.key, why="later", until_ms=9)
    outbox = outbox_of(*events, postponed)
    head = outbox.head("1")
    assert head is not None
    assert (head.state, head.until_ms, head.why) == ("postponed", 9, "later")
    outbox = outbox_of(*events, e.DeliveryConfirmed(at_ms=4, delivery=first.key, platform_id="7"))
    head = outbox.head("1")
    assert head is not None
    assert head.key == second.key
    assert outbox.deliveries[first.key].platform_id == "7"
    assert outbox.head("3") is None


def test_the_last_message_of_a_chat_is_ours_until_someone_writes() -> None:
    """P14: an answer takes the place of a preview only if nothing was said below it."""
    preview = intended("preview")
    shown = e.DeliveryConfirmed(at_ms=2, delivery=preview.key, platform_id="7")
    outbox = outbox_of(preview, shown)
    assert outbox.is_last(outbox.deliveries[preview.key])
    answer = e.DeliveryIntended(
        at_ms=3, chat="1", message="answer", run="run", session_id="s", edits=preview.key
    )
    edited = e.DeliveryConfirmed(at_ms=4, delivery=answer.key, platform_id="7")
    outbox = outbox_of(preview, shown, answer, edited)
    assert outbox.is_last(outbox.deliveries[preview.key]), "a change of a message is no new one"
    note_written(outbox, 9, "1")
    assert not outbox.is_last(outbox.deliveries[preview.key])


def test_what_becomes_plain_text_stays_plain() -> None:
    first = intended()
    plain = e.DeliveryPostponed(at_ms=2, delivery=first.key, why="entities", until_ms=2, plain=True)
    later = e.DeliveryPostponed(at_ms=3, delivery=first.key, why="429", until_ms=9)
    assert not outbox_of(first, later).deliveries[first.key].is_plain
    assert outbox_of(first, plain, later).deliveries[first.key].is_plain


def test_what_may_have_arrived_stays_at_the_head_until_it_is_given_up() -> None:
    first = intended()
    unknown = e.DeliveryUnknown(at_ms=3, delivery=first.key, why="cut")
    outbox = outbox_of(first, unknown)
    head = outbox.head("1")
    assert head is not None
    assert (head.state, head.may_have_arrived, head.unknowns, head.is_open) == ("unknown", True, 1, True)
    given_up = e.DeliveryUnknown(at_ms=4, delivery=first.key, why="cut", given_up=True)
    outbox = outbox_of(first, unknown, given_up)
    assert outbox.head("1") is None
    assert outbox.deliveries[first.key].state == "given_up"


def test_a_chat_that_takes_nothing_is_closed_until_someone_writes_there() -> None:
    first = intended()
    rejected = e.DeliveryRejected(at_ms=2, delivery=first.key, why="blocked", ends_chat=True)
    outbox = outbox_of(first, rejected)
    assert outbox.closed_chats == {"1": "blocked"}
    note_written(outbox, 9, "1")
    assert outbox.closed_chats == {}
    outbox = outbox_of(first, e.DeliveryRejected(at_ms=2, delivery=first.key, why="too long"))
    assert (outbox.closed_chats, outbox.deliveries[first.key].state) == ({}, "rejected")


@pytest.mark.parametrize(
    "late",
    [
        e.DeliveryAttempted(at_ms=9, delivery="run/answer/0"),
        e.DeliveryConfirmed(at_ms=9, delivery="run/answer/0"),
        e.DeliveryPostponed(at_ms=9, delivery="run/answer/0", why="", until_ms=1),
        e.DeliveryRejected(at_ms=9, delivery="run/answer/0", why=""),
        e.DeliveryUnknown(at_ms=9, delivery="run/answer/0", why=""),
    ],
)
def test_what_is_settled_or_unknown_stays_so(late: e.Event) -> None:
    confirmed = e.DeliveryConfirmed(at_ms=2, delivery="run/answer/0", platform_id="7")
    outbox = outbox_of(intended(), confirmed, late)
    assert outbox.deliveries["run/answer/0"].state == "confirmed"
    assert outbox_of(late).deliveries == {}


def test_only_the_newest_settled_deliveries_are_remembered() -> None:
    outbox, count = Outbox(), outbox_module.SETTLED_MAX + 1
    for number in range(count):
        apply_to_outbox(outbox, 1, intended(str(number)))
        apply_to_outbox(outbox, 2, e.DeliveryConfirmed(at_ms=2, delivery=f"run/{number}/0"))
    assert len(outbox.deliveries) == count - 1
    assert "run/0/0" not in outbox.deliveries


def test_what_certainly_is_not_there_is_never_given_up_and_its_pauses_stay_short() -> None:
    """P14: each time the platform was asked and had nothing, so that no copy can be in the chat."""
    outbox, answer = Outbox(), intended()
    apply_to_outbox(outbox, 1, answer)
    delivery = outbox.deliveries[answer.key]
    waits: list[int] = []
    for nth in range(1, 30):
        attempted = e.DeliveryAttempted(at_ms=1, delivery=answer.key, nth=nth, absent=nth > 1)
        apply_to_outbox(outbox, 2 * nth, attempted)
        record = record_of(delivery, MayHaveArrived("cut"), 0)
        assert isinstance(record, e.DeliveryUnknown)
        waits.append(record.until_ms // 1000)
        apply_to_outbox(outbox, 2 * nth + 1, record)
    assert delivery.is_open
    assert waits == [1, 10, *[60] * 27]
