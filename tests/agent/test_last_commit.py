"""The end of a run: what its log still gathers is committed together with the ending."""

import asyncio
from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from agent.world import process, send
from holdfast import events as e
from holdfast.agent.runlog import RunLog
from holdfast.chaos import ChaosServer, Say
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import Declined, IfRunOpen
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.memory import MemoryStore


class GatedStore(MemoryStore):
    """A store whose appends of runs wait for a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.appends: list[list[str]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    @override
    async def append_run(self, session_id: str, events: Sequence[e.Event], **rest: Any) -> Any:
        self.appends.append([type(event).__name__ for event in events])
        await self.gate.wait()
        return await super().append_run(session_id, events, **rest)


def ended(clock: Clock) -> e.RunEnded:
    return e.RunEnded(at_ms=clock.now_ms(), run_id="r", outcome="completed")


async def run_log(store: GatedStore, clock: Clock) -> RunLog:
    now = clock.now_ms()
    message = e.MessageAccepted(at_ms=now, message_id="m", text="hi")
    await store.append(
        "s",
        [e.SessionCreated(at_ms=now, epoch="1"), message, e.RunQueued(at_ms=now, run_id="r", message_id="m")],
    )
    return RunLog(store, clock, run=("s", "r"), fence=await store.claim("s"))


async def test_an_answer_that_ends_its_run_and_the_ending_are_one_append() -> None:
    """P1: four commits for a run whose model answers at once; everything is on disk before it's shown."""
    store = GatedStore()
    async with ChaosServer([Say("hello")]) as chaos, process(chaos, store=store) as world:
        await send(world)
        await world.until("s", e.RunEnded)
    assert store.appends[0] == ["MessageDispatched", "RunStarted"]
    assert store.appends[-1][-3:] == ["Usage", "CallEnded", "RunEnded"]


async def test_what_is_said_during_an_append_is_committed_with_the_ending() -> None:
    """P1, P4: nothing that was said is missing from a run that has ended."""
    store, clock = GatedStore(), SystemClock()
    async with await run_log(store, clock) as log:
        store.gate.clear()
        log.say(1, "one ")
        ending = asyncio.create_task(log.end(ended(clock)))
        while not store.appends:  # noqa: ASYNC110  # nothing rings when an append begins
            await asyncio.sleep(0)
        log.say(1, "two")
        store.gate.set()
        await ending
    assert store.appends == [["TextDelta"], ["TextDelta", "RunEnded"]]


async def test_an_ending_that_is_declined_says_so() -> None:
    """P4: a run has one ending."""
    store, clock = GatedStore(), SystemClock()
    async with await run_log(store, clock) as log:
        await log.end(ended(clock), when=[IfRunOpen("r")])
        assert isinstance(await log.end(ended(clock), when=[IfRunOpen("r")]), Declined)


async def test_an_ending_that_is_interrupted_while_it_waits_leaves_nothing_unsaid() -> None:
    """P2: a shutdown may come at any moment, and what the run said before is saved."""
    store, clock = GatedStore(), SystemClock()
    async with await run_log(store, clock) as log:
        store.gate.clear()
        log.say(1, "one ")
        ending = asyncio.create_task(log.end(ended(clock)))
        while not store.appends:  # noqa: ASYNC110  # nothing rings when an append begins
            await asyncio.sleep(0)
        log.say(1, "two")
        ending.cancel()
        await asyncio.wait([ending])
        store.gate.set()
        await log.settled()
    assert store.appends == [["TextDelta"], ["TextDelta"]]


async def test_an_ending_that_is_interrupted_while_it_is_written_holds_nobody_up() -> None:
    """P3: the log can be left, although nobody learns how its last append went."""
    store, clock = GatedStore(), SystemClock()
    async with await run_log(store, clock) as log:
        store.gate.clear()
        ending = asyncio.create_task(log.end(ended(clock)))
        while not store.appends:  # noqa: ASYNC110  # nothing rings when an append begins
            await asyncio.sleep(0)
        ending.cancel()
        await asyncio.wait([ending])
        await log.settled()  # returning is the proof
