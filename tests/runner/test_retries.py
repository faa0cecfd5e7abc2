"""Trying a run again: its message runs once more, and nothing of any other run is lost or held up by it."""

import pytest

from agent.world import World, answer, messages, process, send
from holdfast import events as e
from holdfast.chaos import ChaosServer, Gate, Hang, Say, Wait
from holdfast.folds import transcript
from holdfast.folds.entries import Text
from holdfast.runner.inbox import IncomingMessage, Sent
from holdfast.server.runs.listing import preview_of
from serving import PATIENT


async def retried(world: World, run_id: str) -> str:
    sent = await world.inbox.retry("s", run_id)
    assert isinstance(sent, Sent)
    return sent.run_id


@pytest.mark.parametrize(
    "is_stopped", [False, True], ids=["after it ran", "after it was stopped in the queue"]
)
async def test_what_waited_behind_another_run_is_tried_again_after_its_answer(*, is_stopped: bool) -> None:
    """P2: the run before it had the word while it waited, and keeps what it said."""
    gate = Gate()
    second_answers = [] if is_stopped else [[Say("two")]]
    async with (
        ChaosServer(
            [Say("one "), Wait(gate), Say("more")], *second_answers, [Say("two again")], after_last="repeat"
        ) as chaos,
        process(chaos, patience=PATIENT) as world,
    ):
        await send(world, "first")
        await gate.reached()
        second = await send(world, "second")
        if is_stopped:
            assert await world.inbox.stop("s", second)
            await world.until("s", e.RunEnded)
        gate.open()
        await world.until("s", e.RunEnded, times=2)
        again = await retried(world, second)
        log = await world.until("s", e.RunEnded, times=3)
        third = await retried(world, again)
        row = await world.store.run(third)
        assert row is not None
        assert await preview_of(world.store, row) == "second"
    shown = [str(message["content"]) for message in messages(chaos.seen.requests[1 + (not is_stopped)])]
    assert shown == ["first", "one more", "second"]
    assert answer(log, again) == "two again"
    said = transcript.fold((record.seq, record.event) for record in log)
    assert [entry.text for entry in said.entries if isinstance(entry, Text)] == ["one more", "two again"]


async def test_a_run_is_tried_again_although_its_stop_paused_a_queue_that_was_cleared_since() -> None:
    """P2, P5: the pause holds what waited then, and nobody waits any more."""
    async with ChaosServer([Say("one"), Hang()], [Say("again")]) as chaos, process(chaos) as world:
        first = await send(world, "first")
        await world.until("s", e.TextDelta)
        second = await world.inbox.send("s", IncomingMessage(text="second"))
        assert isinstance(second, Sent)
        assert await world.inbox.stop("s", first)
        removed = e.MessageRemoved(at_ms=1, message_id=second.message_id)
        assert await world.inbox.change_message("s", removed)
        await world.until("s", e.RunEnded, times=2)
        again = await retried(world, first)
        log = await world.until("s", e.RunEnded, times=3)
        assert (await world.inbox.state("s")).queue_paused
        assert answer(log, again) == "again"


async def test_a_run_that_once_waited_is_tried_again_while_the_queue_is_paused() -> None:
    """P2: nothing runs, so it is sent now, as any other message would be."""
    gate = Gate()
    async with (
        ChaosServer([Wait(gate), Say("one")], [Say("two")], [Say("again")]) as chaos,
        process(chaos, patience=PATIENT) as world,
    ):
        await send(world, "first")
        await gate.reached()
        second = await send(world, "second")
        gate.open()
        await world.until("s", e.RunEnded, times=2)
        assert await world.inbox.put("s", e.QueuePaused(at_ms=1))
        again = await retried(world, second)
        assert answer(await world.until("s", e.RunEnded, times=3), again) == "again"
