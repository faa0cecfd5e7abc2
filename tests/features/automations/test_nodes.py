"""Three nodes on one database: each instant fires once, and a delivery at two of them starts one run."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from agent.world import World, process
from features.automations.world import deps_of
from holdfast import events as e
from holdfast.chaos import ChaosServer, Finish, Say
from holdfast.features.automations.events import (
    HookDelivered,
    TriggerCreated,
    TriggerDue,
    TriggerRunEnded,
)
from holdfast.features.automations.owner import TriggerOwner, trigger_state
from holdfast.features.automations.values import (
    TRIGGER,
    EveryTimes,
    OnWebhook,
    TriggerSettings,
)
from holdfast.features.channels.http.folds import ChannelFolds
from holdfast.features.postgres.tuning import PostgresTuning
from holdfast.interfaces.journal import Fence, IdempotencyKey, Replayed, Store
from holdfast.interfaces.system_clock import SystemClock
from holdfast.runner.claims import ClaimedLogs
from stores import PostgresStore

QUICK = PostgresTuning(lease_s=2.0, beat_s=0.3)


@asynccontextmanager
async def node(chaos: ChaosServer, dsn: str, name: str) -> AsyncGenerator[World]:
    """A node that owns what triggers it can."""
    store = await PostgresStore.open(dsn, name=name, tuning=QUICK)
    try:
        async with process(chaos, store=store) as world:

            async def own(trigger_id: str, fence: Fence) -> None:
                deps = deps_of(store, SystemClock())
                folds = ChannelFolds()
                owner = TriggerOwner(trigger_id, fence, agent=deps, inbox=world.inbox, channels=folds)
                await owner.work()

            owning = asyncio.create_task(ClaimedLogs(store, SystemClock(), source=TRIGGER, own=own).run())
            try:
                yield world
            finally:
                owning.cancel()
                await asyncio.wait([owning])
    finally:
        await store.close()


async def make(store: Store, trigger_id: str, **fields: Any) -> int:
    now_ms = SystemClock().now_ms()
    settings = TriggerSettings(name=trigger_id, prompt="go", **fields)
    created = e.SessionCreated(at_ms=now_ms, epoch="e", source=TRIGGER)
    await store.append(trigger_id, [created, TriggerCreated(at_ms=now_ms, settings=settings)])
    return now_ms


async def until_ended(store: Store, trigger_id: str, count: int) -> list[e.Event]:
    """The trigger's log, once so many of its runs have ended."""
    seen: list[e.Event] = []
    async for records in store.follow(trigger_id):
        seen += [record.event for record in records]
        if sum(isinstance(event, TriggerRunEnded) for event in seen) >= count:
            return seen
    raise AssertionError("the log ended")


async def test_three_nodes_fire_each_instant_once_though_their_owner_leaves(postgres_dsn: str) -> None:
    """P14: the nodes end one after the other, and the last one does what is left."""
    async with ChaosServer(choose=lambda _: [Say("ok"), Finish()]) as chaos, AsyncExitStack() as stack:
        last = await stack.enter_async_context(node(chaos, postgres_dsn, "c"))
        async with node(chaos, postgres_dsn, "a") as a:
            anchor_ms = await make(a.store, "trg_1", when=EveryTimes(seconds=1), session_id="s")
            await until_ended(a.store, "trg_1", 2)
        async with node(chaos, postgres_dsn, "b") as b:
            await until_ended(b.store, "trg_1", 4)
        log = await until_ended(last.store, "trg_1", 6)
        queued = [
            record.event
            for record in await last.store.read("s", limit=10_000)
            if isinstance(record.event, e.RunQueued)
        ]
    dues = [event for event in log if isinstance(event, TriggerDue)]
    instants = [(due.due_at_ms - anchor_ms) // 1000 for due in dues]
    assert instants == list(range(1, len(dues) + 1)), "none is left out, and none comes twice"
    runs = [run.run_id for run in queued]
    assert runs[: len(dues)] == [due.run_id for due in dues]
    assert len(set(runs)) == len(runs)


async def test_a_delivery_that_comes_ten_times_at_two_nodes_starts_one_run(postgres_dsn: str) -> None:
    """P14: all at once."""
    async with (
        ChaosServer(choose=lambda _: [Say("ok"), Finish()]) as chaos,
        node(chaos, postgres_dsn, "a") as a,
        node(chaos, postgres_dsn, "b") as b,
    ):
        await make(a.store, "trg_1", when=OnWebhook())
        blob = await a.store.put_blob(b"{}")
        delivered = HookDelivered(at_ms=1, delivery_id="d", blob=blob, bytes=2)
        once = IdempotencyKey("hook/trg_1/d", "", b"d", 9_999_999_999_999)
        nodes = [a.store, b.store] * 5
        results = await asyncio.gather(
            *(store.append("trg_1", [delivered], idempotency_key=once) for store in nodes)
        )
        assert sum(isinstance(result, Replayed) for result in results) == 9
        await until_ended(b.store, "trg_1", 1)
        trigger = await trigger_state(b.store, "trg_1")
        assert [fire.outcome for fire in trigger.fires.values()] == ["completed"]
        assert chaos.seen.requests_seen == 1
