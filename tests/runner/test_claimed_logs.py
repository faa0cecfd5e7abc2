"""Owners of logs that act by themselves: one for each, on one node, whatever becomes of the nodes."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

from typing_extensions import override

from holdfast import events as e
from holdfast.features.automations.values import TRIGGER
from holdfast.interfaces.journal import Fence, LogKind, Store
from holdfast.journal.follow import Changes
from holdfast.runner.claims import LOOK_S, RETRY_S, ClaimedLogs
from holdfast.supervision import PAUSE_FIRST_S, BackgroundTasks
from journal.labs import PostgresLab, until
from runner.memory_nodes import Cluster
from runner.steered_clock import SteeredClock, settle
from stores import MemoryStore

AT_MS = 1_800_000_000_000


def made(at_ms: int = AT_MS) -> e.SessionCreated:
    return e.SessionCreated(at_ms=at_ms, epoch="e", source=TRIGGER)


@dataclass
class Owners:
    """What the owners of a node did; each works until it is cancelled, or returns if its log is told to."""

    store: Store
    began: list[str] = field(default_factory=list[str])
    ended: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    failures: int = 0
    returns: bool = False

    async def own(self, log_id: str, fence: Fence) -> None:
        self.began.append(log_id)
        if len(self.began) == 1:
            await self.store.append_run(log_id, [e.SessionPinned(at_ms=AT_MS)], fence=fence)
        if self.failures:
            self.failures -= 1
            raise ValueError(log_id)
        if self.returns:
            return
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError as stop:
            self.ended.append((log_id, str(stop)))
            raise


@asynccontextmanager
async def owning(owners: Owners, clock: SteeredClock) -> AsyncGenerator[ClaimedLogs]:
    logs = ClaimedLogs(owners.store, clock, source=TRIGGER, own=owners.own)
    task = asyncio.create_task(logs.run())
    await settle()
    try:
        yield logs
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_each_log_of_the_source_has_one_owner_also_one_that_is_made_later() -> None:
    store = MemoryStore()
    await store.append("trg_a", [made()])
    await store.append("other", [e.SessionCreated(at_ms=AT_MS, epoch="e")])
    async with owning(owners := Owners(store), SteeredClock()) as logs:
        await store.append("trg_b", [made()])
        await settle()
        assert logs.owned == {"trg_a", "trg_b"}
    assert sorted(owners.began) == ["trg_a", "trg_b"]
    assert sorted(owners.ended) == [("trg_a", "shutdown"), ("trg_b", "shutdown")]
    assert logs.owned == frozenset()


async def test_an_owner_that_fails_begins_again_after_a_growing_pause() -> None:
    store = MemoryStore()
    await store.append("trg_a", [made()])
    clock = SteeredClock()
    async with owning(owners := Owners(store, failures=2), clock) as logs:
        assert len(owners.began) == 1
        clock.advance(RETRY_S)
        await settle()
        assert len(owners.began) == 2
        clock.advance(RETRY_S)
        await settle()
        assert len(owners.began) == 2, "the second pause is longer"
        clock.advance(RETRY_S)
        await settle()
        assert (len(owners.began), logs.owned) == (3, {"trg_a"})


async def test_an_owner_that_returned_begins_again_when_something_is_appended_and_not_before() -> None:
    store = MemoryStore()
    await store.append("trg_a", [made()])
    async with owning(owners := Owners(store, returns=True), SteeredClock()):
        begun = len(owners.began)
        await settle()
        assert len(owners.began) == begun
        await store.append("trg_a", [e.SessionUnpinned(at_ms=AT_MS)])
        await settle()
        assert len(owners.began) > begun


class FailsToWatch(MemoryStore):
    """Its first stream of changes breaks when something changes."""

    is_broken = False

    @override
    def changes(self, *, of: LogKind = "all") -> Changes[str]:
        return cast("Changes[str]", self._broken(super().changes(of=of)))

    async def _broken(self, changes: Changes[str]) -> AsyncGenerator[Sequence[str]]:
        async for ids in changes:
            if not self.is_broken:
                self.is_broken = True
                raise ValueError("no more changes")
            yield ids


async def test_changes_are_watched_again_after_an_error() -> None:
    """P14: an owner that returned sees what was appended while nobody watched."""
    store, clock = FailsToWatch(), SteeredClock()
    await store.append("trg_a", [made()])
    owners = Owners(store, returns=True)
    logs = ClaimedLogs(store, clock, source=TRIGGER, own=owners.own)
    async with BackgroundTasks(sleep_s=clock.sleep_s) as background:
        background.start("triggers", logs.run)
        await settle()
        begun = len(owners.began)
        assert store.is_broken
        assert list(background.failing) == ["triggers"]
        clock.advance(PAUSE_FIRST_S)
        await settle()
        assert len(owners.began) > begun


async def test_what_a_node_leaves_or_loses_another_continues() -> None:
    """P6: one owner at a time."""
    cluster, clock = Cluster(), SteeredClock()
    a, b = cluster.join("a"), cluster.join("b")
    await a.append("trg_a", [made()])
    first, second = Owners(a), Owners(b)
    async with owning(second, clock) as of_b, owning(first, clock) as of_a:
        assert (of_a.owned, of_b.owned) == (frozenset(), {"trg_a"})
        cluster.bury(b)
        await settle()
        assert second.ended == [("trg_a", "lost")]
        clock.advance(LOOK_S)
        await settle()
        assert of_a.owned == {"trg_a"}
        assert of_b.owned == frozenset()
    assert first.ended == [("trg_a", "shutdown")]


async def test_on_postgres_a_second_node_takes_over_when_the_first_one_ends(postgres_dsn: str) -> None:
    """P6: also with a real database."""
    lab = PostgresLab(postgres_dsn)
    try:
        a, b = await lab.join(), await lab.join()
        await a.append("trg_a", [made()])
        clock = SteeredClock()
        async with owning(first := Owners(a), clock) as of_a:
            await until(lambda: bool(of_a.owned))
            async with owning(Owners(b), clock) as of_b:
                first_began = len(first.began)
                assert of_b.owned == frozenset()
                await lab.take_over(b)
                while not of_b.owned:  # the database rings no asyncio.Event
                    clock.advance(LOOK_S)
                    await asyncio.sleep(0)
                assert first_began == 1
    finally:
        await lab.close()
