"""A platform that can be asked is asked before anything is sent again."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest

from holdfast import events as e
from holdfast.decisions.deliveries import (
    Arrived,
    CannotTell,
    DidNotArrive,
    EditRefused,
    FoundThere,
    MayHaveArrived,
    NotThere,
    ProbeResult,
    SendResult,
)
from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.outbox import OutboxSender, SendingOptions
from holdfast.folds.outbox import OutboxEntry
from holdfast.values import CHANNEL
from runner.steered_clock import SteeredClock, settle
from stores import MemoryStore

LOG = "chn_x"
CREATED = e.SessionCreated(at_ms=1, epoch="e", source=CHANNEL, title="x")
ANSWER = e.DeliveryIntended(at_ms=1, chat="1", message="answer", run="r", session_id="s")


class Scripted:
    """Answers as it is told, and notes what it is asked."""

    def __init__(self, sends: Sequence[SendResult], probes: Sequence[ProbeResult] = ()) -> None:
        self.sends, self.probes = list(sends), list(probes)
        self.asked: list[str] = []

    async def send(self, delivery: OutboxEntry, *, is_marked: bool) -> SendResult:
        kind = "new" if delivery.is_new else "edit"
        self.asked.append(f"{kind} marked" if is_marked else kind)
        return self.sends.pop(0)

    async def probe(self, delivery: OutboxEntry) -> ProbeResult:
        self.asked.append(f"probe {delivery.key}")
        return self.probes.pop(0)


async def sent_by(carrier: Scripted, *events: e.Event, settles_s: float = 0.0) -> Sequence[e.Event]:
    """The log once everything is settled; time passes as it is needed."""
    store, clock = MemoryStore(), SteeredClock(now_ms=1_000)
    await store.append(LOG, [CREATED])
    log = ChannelLog(store, LOG, await store.claim(LOG))
    await log.append(*events)
    sender = OutboxSender(log, carrier, store=store, clock=clock, options=SendingOptions(settles_s=settles_s))
    task = asyncio.create_task(sender.run())
    while log.state.outbox.queues:
        await settle()
        if clock.next_s is not None:
            clock.advance(clock.next_s)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return [one.event for one in await store.read(LOG)][1 + len(events) :]


async def test_what_is_found_there_is_confirmed_and_not_sent_again() -> None:
    """P14: the answer to a request was lost, and the message is there."""
    carrier = Scripted([MayHaveArrived("cut")], [FoundThere("7")])
    *_, last = await sent_by(carrier, ANSWER)
    assert carrier.asked == ["new", "probe r/answer/0"]
    assert isinstance(last, e.DeliveryConfirmed)
    assert (last.platform_id, last.found) == ("7", True)


async def test_what_is_certainly_not_there_is_sent_again_without_a_mark() -> None:
    carrier = Scripted([MayHaveArrived("cut"), Arrived("8")], [NotThere()])
    found = await sent_by(carrier, ANSWER)
    assert carrier.asked == ["new", "probe r/answer/0", "new"]
    again = [one for one in found if isinstance(one, e.DeliveryAttempted)][-1]
    assert (again.nth, again.marked, again.absent) == (2, False, True)


async def test_what_nobody_can_tell_is_sent_with_a_mark() -> None:
    carrier = Scripted([MayHaveArrived("cut"), Arrived("8")], [CannotTell()])
    await sent_by(carrier, ANSWER)
    assert carrier.asked == ["new", "probe r/answer/0", "new marked"]


async def test_a_platform_that_cannot_be_asked_now_is_asked_later() -> None:
    carrier = Scripted(
        [MayHaveArrived("cut")], [DidNotArrive("away"), DidNotArrive("429", 30.0), FoundThere("7")]
    )
    found = await sent_by(carrier, ANSWER)
    assert carrier.asked == ["new", *["probe r/answer/0"] * 3]
    assert sum(isinstance(one, e.DeliveryPostponed) for one in found) == 2


async def test_after_a_crash_the_platform_is_asked_once_a_late_request_can_no_longer_arrive() -> None:
    """P6: a request that the dead process wrote may still be on its way."""
    carrier = Scripted([], [FoundThere("7")])
    attempted = e.DeliveryAttempted(at_ms=900, delivery=ANSWER.key)
    unknown, confirmed = await sent_by(carrier, ANSWER, attempted, settles_s=3.0)
    assert isinstance(unknown, e.DeliveryUnknown)
    assert confirmed.at_ms == 3_900


@pytest.mark.parametrize("edited", [Arrived("7"), EditRefused("gone")])
async def test_an_edit_that_may_have_happened_is_made_again_and_one_that_cannot_be_is_said_anew(
    edited: SendResult,
) -> None:
    preview = e.DeliveryIntended(at_ms=1, chat="1", message="preview", run="r", session_id="s")
    shown = e.DeliveryConfirmed(at_ms=1, delivery=preview.key, platform_id="7")
    final = e.DeliveryIntended(
        at_ms=1, chat="1", message="answer", run="r", session_id="s", edits=preview.key
    )
    carrier = Scripted([MayHaveArrived("cut"), edited, Arrived("8")], [NotThere()])
    await sent_by(carrier, preview, shown, final)
    anew = ["probe r/answer/0", "new"] if isinstance(edited, EditRefused) else []
    assert carrier.asked == ["edit", "edit", *anew]


async def test_an_answer_whose_preview_may_be_in_the_chat_is_marked_if_nobody_can_tell() -> None:
    preview = e.DeliveryIntended(at_ms=1, chat="1", message="preview", run="r", session_id="s")
    lost = e.DeliveryUnknown(at_ms=1, delivery=preview.key, why="cut", given_up=True)
    final = e.DeliveryIntended(
        at_ms=1, chat="1", message="answer", run="r", session_id="s", edits=preview.key
    )
    carrier = Scripted([EditRefused("not there"), Arrived("8")], [CannotTell()])
    await sent_by(carrier, preview, lost, final)
    assert carrier.asked == ["edit", "probe r/answer/0", "new marked"]
