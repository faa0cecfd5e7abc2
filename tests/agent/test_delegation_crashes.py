"""Trees of sub-agents whose process dies at every append: each ends once, is heard once and acts once."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import NoReturn

import pytest

from agent.family import TOKENS, Family, members
from agent.test_delegation import everyone, family_process, until_quiet
from agent.world import CrashingStore, World
from holdfast import events as e
from holdfast.chaos import Crashed, CrashPoint
from holdfast.folds import transcript
from holdfast.interfaces.journal import JournalError, Store
from holdfast.journal.memory import MemoryStore
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.runner.inbox import IncomingMessage, Sent
from holdfast.runner.supervisor import RunnerLimits
from holdfast.values import Budget, RunSettings

ENOUGH, SCARCE = Budget(tokens=1000 * TOKENS), Budget(tokens=40 * TOKENS)
LIMITS = RunnerLimits(runs_max=2)  # fewer than there are agents
NEVER = 1_000_000
SEED = 14


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


@pytest.mark.parametrize(
    ("task", "after"),
    [("a 2 1", False), ("a 1 2", True), ("a 1 1 background", False), ("a 1 1 background", True)],
    ids=lambda one: one if isinstance(one, str) else "after it is written" if one else "before",
)
async def test_a_crash_at_any_append_of_a_family_is_only_a_pause(task: str, *, after: bool) -> None:
    """P6, P14: parent, sub-agent or both die at every boundary; the next process finishes what is open."""
    nth = 0
    width, depth = (int(word) for word in task.split()[1:3])
    for nth in count(1):
        outside, crash = Outside(), CrashPoint(nth)
        await live(outside, task, crash, after=after)
        await live(outside, task, CrashPoint(NEVER))
        await check_family(MemoryStore(outside.disk), outside, width=width, depth=depth)
        if not crash.has_crashed:
            break
    assert nth > 20


async def crash_large_family(points: Sequence[int], *, after: bool, budget: Budget) -> None:
    """Eight sub-agents, three levels deep, whose process dies at each of these points in turn."""
    outside = Outside()
    for nth in points:
        await live(outside, "a 8 3", CrashPoint(nth), after=after, budget=budget)
    await live(outside, "a 8 3", CrashPoint(NEVER), budget=budget)
    store = MemoryStore(outside.disk)
    if budget is ENOUGH:
        await check_family(store, outside, width=8, depth=3)
    else:
        await check_endings(store, outside, budget)


@pytest.mark.parametrize("budget", [ENOUGH, SCARCE], ids=["enough", "scarce"])
async def test_a_large_family_survives_several_crashes_in_a_row(budget: Budget) -> None:
    """P6, P14: what each of them had begun is finished by the next process, within one budget."""
    chance = random.Random(SEED)
    for after in (False, True):
        await crash_large_family([chance.randint(1, 250) for _ in range(3)], after=after, budget=budget)


async def test_a_family_in_a_file_survives_the_end_of_its_process(tmp_path: Path) -> None:
    """P6, P14: on disk, with sub-agents in the background and a shutdown in the middle."""
    outside, held, reached = Outside(), asyncio.Event(), asyncio.Event()

    async def hold(name: str) -> None:
        if name == "a.2":
            reached.set()
            await held.wait()

    outside.family.before = hold
    store = await SqliteStore.open(tmp_path / "holdfast.db")
    async with family_process(outside.family, outside.acted, store=store, limits=LIMITS) as world:
        using = asyncio.create_task(use(world, "a 3 1 background"))
        await reached.wait()
        using.cancel()
        await asyncio.wait([using])
    await store.close()
    held.set()
    store = await SqliteStore.open(tmp_path / "holdfast.db")
    async with family_process(outside.family, outside.acted, store=store, limits=LIMITS) as world:
        await use(world, "a 3 1 background")
        await check_family(store, outside, width=3, depth=1)
    await store.close()
