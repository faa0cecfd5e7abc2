"""A tree of sub-agents, eight side by side and three levels deep, whose process dies at every append.

Each crash is followed by a process that finishes the work. Then everyone has ended once and was heard once,
no effect happened twice, and the budget was kept. The suite does the same with a few random points.

    python bench/faults_families.py --step 1
"""

import argparse
import asyncio
import logging
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import NoReturn

from agent.world import CrashingStore, World
from fakes.crash import Crashed, CrashPoint
from features.delegation.family import TOKENS, Family, everyone, family_process, members, until_quiet
from holdfast import events as e
from holdfast.folds import transcript
from holdfast.interfaces.journal import JournalError, Store
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.runner.inbox import IncomingMessage, Sent
from holdfast.runner.supervisor import RunnerLimits
from holdfast.values import Budget, RunSettings
from stores import MemoryStore

ENOUGH, SCARCE = Budget(tokens=1000 * TOKENS), Budget(tokens=40 * TOKENS)
LIMITS = RunnerLimits(runs_max=2)  # fewer than there are agents
NEVER = 1_000_000
TASK = "a 8 3"


@dataclass(slots=True)
class Outside:
    """What does not die with the process: the disk, the witness of effects, and the model's own count."""

    disk: MemoryDisk = field(default_factory=MemoryDisk)
    acted: list[str] = field(default_factory=list[str])
    family: Family = field(default_factory=Family)


async def live(
    outside: Outside, task: str, crash: CrashPoint, *, after: bool = False, budget: Budget = ENOUGH
) -> None:
    """One process, from its start until nothing is left to do, or to its crash."""
    died = asyncio.Event()

    def die() -> NoReturn:
        died.set()
        raise Crashed

    crash.die = die
    store = CrashingStore(outside.disk, crash, after=after)
    with suppress(Crashed, JournalError, BaseExceptionGroup):
        async with family_process(outside.family, outside.acted, store=store, limits=LIMITS) as world:
            using = asyncio.create_task(use(world, task, budget))
            dead = asyncio.create_task(died.wait())
            await asyncio.wait({using, dead}, return_when=asyncio.FIRST_COMPLETED)
            for one in (using, dead):
                one.cancel()
            await asyncio.wait({using, dead})


async def use(world: World, task: str, budget: Budget = ENOUGH) -> None:
    """Send the task if it was not accepted yet, and wait for the end of everything."""
    if not await world.store.last_seq("s"):
        message = IncomingMessage(text=task, settings=RunSettings(budget=budget))
        assert isinstance(await world.inbox.send("s", message), Sent)
    await until_quiet(world, "s")
    for session_id, fold in await everyone(world.store, "s"):
        if fold.parent is not None:
            await world.until(session_id, e.ParentTold)


async def check_endings(store: Store, outside: Outside, budget: Budget = ENOUGH) -> int:
    """Everyone ended once, was told of once, did no effect twice, and stayed within the budget."""
    found = await everyone(store, "s")
    for session_id, fold in found:
        assert not fold.open_runs, session_id
        events = [record.event for record in await store.read(session_id, limit=10_000)]
        ended = [event.child_id for event in events if isinstance(event, e.ChildEnded)]
        assert sorted(ended) == sorted(fold.children), session_id
        told = [event for event in events if isinstance(event, e.ParentTold)]
        assert len(told) == (fold.parent is not None), session_id
    assert len(outside.acted) == len(set(outside.acted)) <= len(found)
    used = sum(fold.usage.input_tokens for _, fold in found)
    assert used <= budget.tokens + TOKENS * len(found)
    return len(found)


async def check_family(store: Store, outside: Outside, *, width: int, depth: int) -> None:
    """The whole family worked, and each of its members was heard once."""
    names = members("a", width, depth)
    assert await check_endings(store, outside) == len(names)
    records = await store.read("s", limit=10_000)
    log = transcript.fold((record.seq, record.event) for record in records)
    heard = transcript.output(log, list(log.runs)[-1]).splitlines()[-1]
    assert sorted(heard.replace("(", " ").replace(")", " ").split()) == sorted(names), heard


async def campaign(step: int, budget: Budget, *, after: bool) -> int:
    """Crash at every `step`th append, until the work is done before the crash."""
    for nth in count(1, step):
        outside, crash = Outside(), CrashPoint(nth)
        await live(outside, TASK, crash, after=after, budget=budget)
        await live(outside, TASK, CrashPoint(NEVER), budget=budget)
        store = MemoryStore(outside.disk)
        if budget is ENOUGH:
            await check_family(store, outside, width=8, depth=3)
        else:
            await check_endings(store, outside, budget)
        if not crash.has_crashed:
            return nth
    raise AssertionError("this loop has no end")


async def main(step: int) -> None:
    """Run all campaigns, and say how many points each had."""
    for name, budget in (("enough", ENOUGH), ("scarce", SCARCE)):
        for after in (False, True):
            points = await campaign(step, budget, after=after)
            when = "after" if after else "before"
            sys.stdout.write(f"budget {name}, crash {when} the append: {points} points, nothing lost\n")
            sys.stdout.flush()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--step", type=int, default=1)
    asyncio.run(main(parser.parse_args().step))
