"""Sub-agents whose parent is deleted, and sub-agents while the store is away: nobody waits for ever."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from typing_extensions import override

from agent.world import answer, ending, send
from features.delegation.family import Family, everyone, family_answer, family_process, folded, until_quiet
from holdfast import events as e
from holdfast.folds.rows import RunRow
from holdfast.interfaces.journal import StoreUnreachable
from holdfast.interfaces.system_clock import SystemClock
from holdfast.values import NOT_CREATED, ParentLink
from stores import MemoryStore

DELETED, RESTORED = e.SessionDeleted(at_ms=1, purge_at_ms=2), e.SessionRestored(at_ms=3)


class HastyClock(SystemClock):
    """A clock whose pauses take no time."""

    @override
    async def sleep_s(self, seconds: float) -> None:
        await asyncio.sleep(0)


class AwayStore(MemoryStore):
    """A store that can't be reached when it is first asked for a run, or that can't create a sub-agent."""

    reads_away = 0
    has_bug = False

    @override
    async def run(self, run_id: str) -> RunRow | None:
        if self.reads_away:
            self.reads_away -= 1
            raise StoreUnreachable("the database is away")
        return await super().run(run_id)

    @override
    async def append(self, session_id: str, inputs: Sequence[e.Input], **more: Any) -> Any:
        begins = [one for one in inputs if isinstance(one, e.SessionCreated)]
        if self.has_bug and begins and isinstance(begins[0].parent, ParentLink):
            raise RuntimeError("a bug")
        return await super().append(session_id, inputs, **more)


@pytest.mark.parametrize("task", ["a 2 1", "a 2 1 background"])
async def test_a_deleted_parent_ends_and_works_again_when_it_is_restored(task: str) -> None:
    """P5: its sub-agents are deleted with it, and their endings still reach it."""
    held, working, family = asyncio.Event(), list[str](), Family()

    async def hold(name: str) -> None:
        if "." in name:
            working.append(name)
            await held.wait()

    family.before = hold
    async with family_process(family, []) as world:
        run_id = await send(world, task)
        await world.until("s", e.ChildStarted, times=2)
        started = list((await folded(world.store, "s")).children)
        for child_id in started:
            await world.until(child_id, e.AttemptStarted)
        if task.endswith("background"):
            await world.until("s", e.RunEnded)
        await world.store.append("s", [DELETED])
        for child_id in started:
            await world.store.append(child_id, [DELETED])
            child = (await folded(world.store, child_id)).delegated_run
            assert child is not None
            await world.inbox.stop(child_id, child.run_id, cause="deleted")
        await world.inbox.stop("s", run_id, cause="deleted")
        log = await until_quiet(world, "s")
        assert sum(isinstance(one.event, e.ChildEnded) for one in log) == 2
        assert sum(isinstance(one.event, e.RunQueued) for one in log) == 1
        await world.store.append("s", [RESTORED])
        held.set()
        again = await send(world, "b 1 1")
        log = await until_quiet(world, "s")
    assert answer(log, again) == family_answer("b", 1, 1)


async def test_a_stop_does_not_wait_for_sub_agents_that_took_their_parent_for_gone() -> None:
    """P5: the sub-agent's own log says that it is over, so the next process ends the parent's run."""
    never, family = asyncio.Event(), Family()

    async def hang(name: str) -> None:
        if "." in name:
            await never.wait()

    family.before = hang
    async with family_process(family, []) as world:
        store, run_id = world.store, await send(world, "a 1 1")
        await world.until("s", e.ChildStarted)
        [child] = (await folded(store, "s")).children.values()
        await world.until(child.started.child_id, e.AttemptStarted)
    stop = e.StopRequested(at_ms=1, run_id=run_id, cause="deleted")
    ended = e.RunEnded(at_ms=1, run_id=child.started.child_run_id, outcome="cancelled", cause="deleted")
    await store.append("s", [DELETED, stop])
    await store.append(child.started.child_id, [DELETED, ended, e.ParentTold(at_ms=1, gone=True)])  # pyright: ignore[reportArgumentType]  # as its owner wrote it
    async with family_process(family, [], store=store) as world:
        log = await world.until("s", e.RunEnded)
    assert (ending(log).outcome, ending(log).cause) == ("cancelled", "deleted")
    assert sum(isinstance(one.event, e.ChildEnded) for one in log) == 1


async def test_a_sub_agent_is_created_once_the_store_can_be_reached_again() -> None:
    """P1: an outage while agents delegate is a pause."""
    store, family = AwayStore(), Family()

    async def cut(name: str) -> None:
        store.reads_away = 3 if name == "a" and family.calls["a"] == 1 else store.reads_away

    family.before = cut
    async with family_process(family, [], store=store, clock=HastyClock()) as world:
        run_id = await send(world, "a 3 1")
        log = await until_quiet(world, "s")
        assert len(await everyone(store, "s")) == 4
    assert answer(log, run_id) == family_answer("a", 3, 1)


async def test_a_run_that_ends_gives_up_the_sub_agents_that_it_never_created() -> None:
    """P14: otherwise they would count as working, and keep their part of the budget, for ever."""
    store = AwayStore()
    store.has_bug = True
    async with family_process(Family(), [], store=store, children_max=2) as world:
        await send(world, "a 2 1 background")
        await world.until("s", e.RunEnded)
        fold = await folded(store, "s")
        assert fold.children
        assert all(child.ended and child.ended.cause == NOT_CREATED for child in fold.children.values())
        store.has_bug = False
        again = await send(world, "b 2 1")
        log = await until_quiet(world, "s")
    assert answer(log, again) == family_answer("b", 2, 1)
