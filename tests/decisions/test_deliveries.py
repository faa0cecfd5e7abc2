"""What is done about a delivery: when it is sent, when again, when marked, and when not any more."""

import pytest

from holdfast import events as e
from holdfast.decisions.deliveries import (
    INTERRUPTED,
    Arrived,
    DidNotArrive,
    EditRefused,
    FormatRefused,
    MayHaveArrived,
    NoLongerNeeded,
    NotAccepted,
    RecordFirst,
    SendLater,
    SendNow,
    SendResult,
    next_step,
    record_of,
)
from holdfast.folds.outbox import Outbox, OutboxEntry


def delivery(**fields: object) -> OutboxEntry:
    intended = e.DeliveryIntended(
        at_ms=1, chat="1", message="answer", run="r", edits=str(fields.pop("edits", ""))
    )
    return OutboxEntry(intended, 1, **fields)  # pyright: ignore[reportArgumentType]


def test_a_new_one_is_sent_unmarked_and_one_that_may_have_arrived_is_marked() -> None:
    """P14: never silently twice."""
    assert next_step(Outbox(), delivery(), 5) == SendNow(1, is_marked=False)
    again = delivery(state="unknown", attempts=1, may_have_arrived=True)
    assert next_step(Outbox(), again, 5) == SendNow(2, is_marked=True)
    edit = delivery(state="unknown", attempts=1, may_have_arrived=True, edits="r/ask/0")
    assert next_step(Outbox(), edit, 5) == SendNow(2, is_marked=False)


def test_a_postponed_one_waits_for_its_time() -> None:
    later = delivery(state="postponed", attempts=1, until_ms=100)
    assert next_step(Outbox(), later, 99) == SendLater(100)
    assert next_step(Outbox(), later, 100) == SendNow(2, is_marked=False)


def test_an_attempt_that_nobody_finished_may_have_arrived() -> None:
    """P6: after a crash in the middle of sending, nobody knows."""
    step = next_step(Outbox(closed_chats={"1": "blocked"}), delivery(state="attempted", attempts=1), 5)
    assert step == RecordFirst(e.DeliveryUnknown(at_ms=5, delivery="r/answer/0", why=INTERRUPTED))


def test_a_server_that_keeps_dying_while_it_sends_waits_longer_each_time_and_then_gives_up() -> None:
    """P14: a few quick crashes don't use up what an answer has."""
    waits: list[int] = []
    for unknowns in range(8):
        step = next_step(
            Outbox(), delivery(state="attempted", attempts=unknowns + 1, unknowns=unknowns), 5_000
        )
        assert isinstance(step, RecordFirst)
        assert isinstance(step.event, e.DeliveryUnknown)
        assert step.event.given_up == (unknowns == 7)
        waits.append(step.event.until_ms)
    assert waits == [0, 6_000, 15_000, 65_000, 305_000, 905_000, 1_805_000, 0]


def test_a_closed_chat_takes_nothing() -> None:
    step = next_step(Outbox(closed_chats={"1": "blocked"}), delivery(), 5)
    assert step == RecordFirst(e.DeliveryRejected(at_ms=5, delivery="r/answer/0", why="blocked"))


@pytest.mark.parametrize(
    ("result", "event"),
    [
        (Arrived("7"), e.DeliveryConfirmed(at_ms=5, delivery="r/answer/0", platform_id="7")),
        (DidNotArrive("cut"), e.DeliveryPostponed(at_ms=5, delivery="r/answer/0", why="cut", until_ms=4005)),
        (
            DidNotArrive("429", 7.5),
            e.DeliveryPostponed(at_ms=5, delivery="r/answer/0", why="429", until_ms=7505),
        ),
        (MayHaveArrived("cut"), e.DeliveryUnknown(at_ms=5, delivery="r/answer/0", why="cut", until_ms=1005)),
        (
            NotAccepted("blocked", ends_chat=True),
            e.DeliveryRejected(at_ms=5, delivery="r/answer/0", why="blocked", ends_chat=True),
        ),
        (
            FormatRefused("entities"),
            e.DeliveryPostponed(at_ms=5, delivery="r/answer/0", why="entities", until_ms=5, plain=True),
        ),
        (
            EditRefused("gone"),
            e.DeliveryPostponed(at_ms=5, delivery="r/answer/0", why="gone", until_ms=5, anew=True),
        ),
        (
            NoLongerNeeded("complete"),
            e.DeliveryRejected(at_ms=5, delivery="r/answer/0", why="complete", moot=True),
        ),
    ],
)
def test_the_record_says_what_became_of_an_attempt(result: SendResult, event: e.Event) -> None:
    assert record_of(delivery(attempts=3), result, 5) == event


def test_plain_text_that_is_refused_is_not_sent_again() -> None:
    record = record_of(delivery(attempts=2, is_plain=True), FormatRefused("empty"), 5)
    assert record == e.DeliveryRejected(at_ms=5, delivery="r/answer/0", why="empty")


def test_what_is_unclear_for_the_eighth_time_is_given_up_visibly() -> None:
    record = record_of(delivery(attempts=8, unknowns=7), MayHaveArrived("cut"), 5)
    assert record == e.DeliveryUnknown(at_ms=5, delivery="r/answer/0", why="cut", given_up=True)


def test_what_may_have_arrived_is_not_repeated_at_once_but_with_growing_pauses() -> None:
    """P9: a platform that cuts every answer for a while doesn't get five repeats within a second."""
    waits: list[int] = []
    for unknowns in range(7):
        record = record_of(delivery(attempts=1, unknowns=unknowns), MayHaveArrived("cut"), 0)
        assert isinstance(record, e.DeliveryUnknown)
        assert not record.given_up
        waits.append(record.until_ms // 1000)
    assert waits == [1, 10, 60, 300, 900, 1_800, 3_600]
    later = delivery(state="unknown", attempts=1, unknowns=1, may_have_arrived=True, until_ms=100)
    assert next_step(Outbox(), later, 99) == SendLater(100)


def test_a_change_whose_answer_is_lost_is_made_again_at_once_and_then_with_pauses() -> None:
    """P10: a chat doesn't wait for what can be repeated without harm."""
    waits: list[int] = []
    for unknowns in range(3):
        change = delivery(attempts=1, unknowns=unknowns, edits="r/ask/0")
        record = record_of(change, MayHaveArrived("cut"), 0)
        assert isinstance(record, e.DeliveryUnknown)
        waits.append(record.until_ms)
    assert waits == [0, 1_000, 10_000]


def test_waits_grow_up_to_a_minute_and_a_platform_may_ask_for_an_hour() -> None:
    record = record_of(delivery(attempts=60), DidNotArrive("away"), 0)
    assert isinstance(record, e.DeliveryPostponed)
    assert record.until_ms == 60_000
    record = record_of(delivery(attempts=1), DidNotArrive("429", 1e9), 0)
    assert isinstance(record, e.DeliveryPostponed)
    assert record.until_ms == 3_600_000
