"""Trees of sub-agents whose process dies at every append: each ends once, is heard once and acts once."""

import asyncio
import random
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pytest

from fakes.crash import CrashPoint
from features.delegation.family import family_process
from features.delegation.family_campaign import (
    ENOUGH,
    LIMITS,
    NEVER,
    SCARCE,
    Outside,
    check_endings,
    check_family,
    live,
    use,
)
from holdfast.values import Budget
from stores import MemoryStore, SqliteStore

SEED = 14


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
