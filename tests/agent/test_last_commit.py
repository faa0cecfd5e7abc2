"""The end of a run: what its log still gathers is committed together with the ending."""

import asyncio

from agent.gated_store import GatedStore, run_log
from agent.world import process, send
from holdfast import events as e
from holdfast.chaos import ChaosServer, Say
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import Declined, IfRunOpen
from holdfast.interfaces.system_clock import SystemClock


def ended(clock: Clock) -> e.RunEnded:
    return e.RunEnded(at_ms=clock.now_ms(), run_id="r", outcome="completed")


async def test_an_answer_that_ends_its_run_and_the_ending_are_one_append() -> None:
    """P1: four commits for a run whose model answers at once; everything is on disk before it's shown."""
    store = GatedStore()
    async with ChaosServer([Say("hello")]) as chaos, process(chaos, store=store) as world:
        await send(world)
        await world.until("s", e.RunEnded)
    assert store.kinds[0] == ["MessageDispatched", "RunStarted"]
    assert store.kinds[-1][-3:] == ["Usage", "CallEnded", "RunEnded"]


async def test_what_is_said_during_an_append_is_committed_with_the_ending() -> None:
    """P1, P4: nothing that was said is missing from a run that has ended."""
    store, clock = GatedStore(), SystemClock()
    async with await run_log(store, clock) as log:
        store.gate.clear()
        log.say(1, "one ")
        ending = asyncio.create_task(log.end(ended(clock)))
        await store.until_asked()
        log.say(1, "two")
        store.gate.set()
        await ending
    assert store.kinds == [["TextDelta"], ["TextDelta", "RunEnded"]]


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
        await store.until_asked()
        log.say(1, "two")
        ending.cancel()
        await asyncio.wait([ending])
        store.gate.set()
        await log.flush()
    assert store.kinds == [["TextDelta"], ["TextDelta"]]


async def test_an_ending_that_is_interrupted_while_it_is_written_holds_nobody_up() -> None:
    """P3: the log can be left, although nobody learns how its last append went."""
    store, clock = GatedStore(), SystemClock()
    async with await run_log(store, clock) as log:
        store.gate.clear()
        ending = asyncio.create_task(log.end(ended(clock)))
        await store.until_asked()
        ending.cancel()
        await asyncio.wait([ending])
        await log.flush()  # returning is the proof
