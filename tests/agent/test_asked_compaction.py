"""A compaction that a person asks for: what the model is shown afterwards, stops, crashes, late messages."""

import asyncio
from contextlib import suppress
from itertools import count
from typing import NoReturn

import pytest

from agent.world import CrashingStore, World, answer, kinds, messages, process, send
from fakes.crash import Crashed, CrashPoint
from holdfast import events as e
from holdfast.chaos import ChaosServer, Gate, Say, Script, SeenRequest, Wait, bad_key
from holdfast.folds.context import SUMMARY_MARK
from holdfast.interfaces.journal import JournalError, Record
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.runner.inbox import IncomingMessage, NotSent, Sent
from holdfast.values import RunSettings
from stores import MemoryStore

SUMMARY = "## Task\nthe cat is Mia"
STORY = "my cat is called Mia " * 40


def is_asked_to_sum_up(request: SeenRequest) -> bool:
    return str(messages(request)[-1]["content"]).startswith("Below is")


def script(request: SeenRequest) -> Script:
    return [Say(SUMMARY if is_asked_to_sum_up(request) else "yes")]


async def compact(world: World, focus: str = "") -> str:
    sent = await world.inbox.compact("s", focus)
    assert isinstance(sent, Sent), sent
    return sent.run_id


def shown(chaos: ChaosServer) -> list[str]:
    """The messages of the last call; a wire joins two of the user's."""
    return [str(message["content"]) for message in messages(chaos.seen.requests[-1])]


def of_run(log: list[Record], run_id: str) -> list[e.Event]:
    return [record.event for record in log if getattr(record.event, "run_id", "") == run_id]


async def test_a_person_can_have_the_conversation_summarized_and_go_on_with_the_summary() -> None:
    """P6: the next call gets the summary alone, without the command; the log says what that saved."""
    async with ChaosServer(choose=script) as chaos, process(chaos) as world:
        await send(world, STORY)
        await world.until("s", e.RunEnded)
        run_id = await compact(world, "the name of the cat")
        log = await world.until("s", e.RunEnded, times=2)
        asked = str(messages(chaos.seen.requests[-1])[-1]["content"])
        assert "keep this in particular: the name of the cat" in asked
        assert "/compact" not in asked
        assert "USER: my cat is called Mia" in asked
        (compacted,) = [one for one in of_run(log, run_id) if isinstance(one, e.ContextCompacted)]
        assert compacted.tokens_before > compacted.tokens_after > 0
        assert [one.outcome for one in of_run(log, run_id) if isinstance(one, e.RunEnded)] == ["completed"]
        await send(world, "who?")
        await world.until("s", e.RunEnded, times=3)
        assert shown(chaos) == [f"{SUMMARY_MARK}{SUMMARY}\n\nwho?"]


async def test_there_must_be_something_to_summarize_and_no_run_under_way() -> None:
    """P12: nothing is stored of a request that is refused."""
    gate = Gate()

    def slow(request: SeenRequest) -> Script:
        last = str(messages(request)[-1]["content"])
        return [Wait(gate), Say("yes")] if last == "slowly" else script(request)

    async with ChaosServer(choose=slow) as chaos, process(chaos) as world:
        await send(world, STORY)
        await world.until("s", e.RunEnded)
        await compact(world)
        await world.until("s", e.RunEnded, times=2)
        last_seq = await world.store.last_seq("s")
        assert await world.inbox.compact("s", "") == NotSent("nothing_to_compact")
        assert await world.store.last_seq("s") == last_seq
        await send(world, "slowly")
        await world.until("s", e.CallStarted, times=3)
        assert await world.inbox.compact("s", "") == NotSent("busy")
        gate.open()
        log = await world.until("s", e.RunEnded, times=3)
        assert kinds(log).count(e.RunQueued) == 3


async def test_a_compaction_that_is_stopped_or_fails_changes_nothing_for_the_model() -> None:
    """P4, P5: the run says so, and the next call gets the conversation as it was."""
    never, failing = Gate(), [False]

    def stuck(request: SeenRequest) -> Script:
        if not is_asked_to_sum_up(request):
            return [Say("yes")]
        return [bad_key()] if failing[0] else [Wait(never)]

    async with ChaosServer(choose=stuck) as chaos, process(chaos) as world:
        await send(world, "hi")
        await world.until("s", e.RunEnded)
        run_id = await compact(world)
        await world.until("s", e.AttemptStarted, times=2)
        assert await world.inbox.stop("s", run_id)
        await world.until("s", e.RunEnded, times=2)
        failing[0] = True
        await compact(world)
        log = await world.until("s", e.RunEnded, times=3)
        outcomes = [record.event.outcome for record in log if isinstance(record.event, e.RunEnded)]
        assert outcomes == ["completed", "cancelled", "failed"]
        await send(world, "and now?")
        await world.until("s", e.RunEnded, times=4)
        assert shown(chaos) == ["hi", "yes", "and now?"]


async def test_what_is_said_during_a_compaction_is_answered_after_it() -> None:
    """P2: a run that only summarizes takes no steer, so the message gets a run that answers."""
    gate = Gate()

    def slow(request: SeenRequest) -> Script:
        return [Wait(gate), Say(SUMMARY)] if is_asked_to_sum_up(request) else [Say("yes")]

    async with ChaosServer(choose=slow) as chaos, process(chaos) as world:
        await send(world, STORY)
        await world.until("s", e.RunEnded)
        await compact(world)
        await world.until("s", e.AttemptStarted, times=2)
        late = IncomingMessage(text="and you?", when_busy="steer")
        assert isinstance(await world.inbox.send("s", late), Sent)
        gate.open()
        log = await world.until("s", e.RunEnded, times=3)
        queued = [record.event for record in log if isinstance(record.event, e.RunQueued)]
        assert queued[-1].settings == RunSettings()
        assert answer(log, queued[-1].run_id) == "yes"
        assert shown(chaos) == [f"{SUMMARY_MARK}{SUMMARY}\n\nand you?"]


async def live(chaos: ChaosServer, disk: MemoryDisk, crash: CrashPoint, *, after: bool) -> None:
    """One process, from its start to the end of the compaction or its crash."""
    died = asyncio.Event()

    def die() -> NoReturn:
        died.set()
        raise Crashed

    crash.die = die
    with suppress(Crashed, JournalError, BaseExceptionGroup):
        async with process(chaos, store=CrashingStore(disk, crash, after=after)) as world:
            user = asyncio.create_task(use(world))
            dead = asyncio.create_task(died.wait())
            await asyncio.wait({user, dead}, return_when=asyncio.FIRST_COMPLETED)
            for task in (user, dead):
                task.cancel()
            await asyncio.wait({user, dead})


async def use(world: World) -> None:
    if len([one for one in await world.log("s") if isinstance(one.event, e.RunQueued)]) < 2:
        await compact(world)
    await world.until("s", e.RunEnded, times=2)


@pytest.mark.parametrize("after", [False, True], ids=["before it is written", "after it is written"])
async def test_a_crash_at_any_append_of_a_compaction_is_only_a_pause(*, after: bool) -> None:
    """P6: one summary is on the log, and the run completes."""
    nth = 0
    for nth in count(1):
        disk, crash = MemoryDisk(), CrashPoint(nth)
        async with ChaosServer(choose=script) as chaos:
            async with process(chaos, store=MemoryStore(disk)) as world:
                await send(world, STORY)
                await world.until("s", e.RunEnded)
            await live(chaos, disk, crash, after=after)
            await live(chaos, disk, CrashPoint(10_000), after=False)
        log = list(await MemoryStore(disk).read("s", limit=10_000))
        outcomes = [record.event.outcome for record in log if isinstance(record.event, e.RunEnded)]
        assert outcomes == ["completed", "completed"], nth
        assert kinds(log).count(e.ContextCompacted) == 1, nth
        if not crash.has_crashed:
            break
    assert nth > 4
