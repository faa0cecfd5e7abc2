"""A family of agents on two nodes: one dies in the middle, and the other finishes what all of them began."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from agent.world import World
from features.delegation.family import Family, family_process
from features.delegation.family_campaign import Outside, check_family, use
from holdfast.features.postgres.tuning import PostgresTuning
from postgres_lab import PostgresServer, proxied
from stores import PostgresStore

QUICK = PostgresTuning(lease_s=1.5, beat_s=0.2)


@asynccontextmanager
async def family_node(dsn: str, name: str, outside: Outside, family: Family) -> AsyncGenerator[World]:
    store = await PostgresStore.open(dsn, name=name, tuning=QUICK)
    try:
        async with family_process(family, outside.acted, store=store) as world:
            yield world
    finally:
        await store.close()


async def test_a_family_goes_on_at_another_node_and_each_of_them_is_heard_once(
    postgres: PostgresServer, postgres_dsn: str
) -> None:
    """P6, P14: the node of all of them is cut off while the youngest work; it comes back and adds nothing."""
    outside, theirs = Outside(), Family()
    reached, never = asyncio.Event(), asyncio.Event()

    async def hold(name: str) -> None:
        if name.count(".") == 2:
            reached.set()
            await never.wait()

    theirs.before = hold
    async with (
        proxied(postgres, postgres_dsn) as (proxy, dsn),
        family_node(postgres_dsn, "b", outside, outside.family) as b,
        family_node(dsn, "a", outside, theirs) as a,
    ):
        using = asyncio.create_task(use(a, "a 4 2"))
        await reached.wait()
        using.cancel()
        await asyncio.wait([using])
        proxy.cut()
        await use(b, "a 4 2")
        proxy.heal()
        await a.store.writable()
        await check_family(b.store, outside, width=4, depth=2)
    never.set()
