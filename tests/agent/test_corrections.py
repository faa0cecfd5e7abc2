"""Structured output after a crash: what was said about an answer that doesn't fit is on the log."""

import asyncio
from contextlib import suppress
from itertools import count
from typing import NoReturn

import pytest

from agent.world import CrashingStore, answer, ending, messages, process, send
from fakes.crash import Crashed, CrashPoint
from holdfast import events as e
from holdfast.chaos import ChaosServer, Say, Script, SeenRequest
from holdfast.interfaces.journal import JournalError
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.values import OUTPUT_INVALID, OutputFormat
from stores import MemoryStore

WANTED = OutputFormat(name="city", schema={"type": "object", "required": ["name"]})


def script(request: SeenRequest) -> Script:
    return [Say("still no" if "can't be used" in str(messages(request)[-1]["content"]) else "no")]


async def live(chaos: ChaosServer, disk: MemoryDisk, crash: CrashPoint, *, after: bool) -> None:
    """One process, from its start to the run's end or its crash."""
    died = asyncio.Event()

    def die() -> NoReturn:
        died.set()
        raise Crashed

    crash.die = die
    with suppress(Crashed, JournalError, BaseExceptionGroup):
        async with process(chaos, store=CrashingStore(disk, crash, after=after)) as world:
            if not await world.store.last_seq("s"):
                await send(world, output=WANTED)
            tasks = {asyncio.create_task(world.until("s", e.RunEnded)), asyncio.create_task(died.wait())}
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


@pytest.mark.parametrize("after", [False, True], ids=["before it is written", "after it is written"])
async def test_a_crash_gives_the_model_no_second_correction(*, after: bool) -> None:
    """P6: two complete answers, the second after the model was told why the first can't be used."""
    nth = 0
    for nth in count(1):
        disk, crash = MemoryDisk(), CrashPoint(nth)
        async with ChaosServer(choose=script) as chaos:
            await live(chaos, disk, crash, after=after)
            await live(chaos, disk, CrashPoint(10_000), after=False)
            first, *rest = [str(one["content"]) for one in messages(chaos.seen.requests[-1])]
        log = list(await MemoryStore(disk).read("s", limit=10_000))
        ended = ending(log)
        answered = [one.event for one in log if isinstance(one.event, e.CallEnded)]
        assert (ended.outcome, ended.cause) == ("failed", OUTPUT_INVALID), nth
        assert len(answered) == 2, nth
        assert answer(log, ended.run_id) == "still no", nth
        assert (first, rest[0]) == ("hi", "no"), nth
        if not crash.has_crashed:
            break
    assert nth > 5
