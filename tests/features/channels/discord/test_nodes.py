"""Two nodes on one database: one holds the Discord channel, and the other continues when it leaves."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from agent.world import World, process
from fakes.discord import FakeDiscord
from features.channels.discord.lab import LOG, options_for, said, say, starting, state_of, until
from features.channels.lab import QUICK, echo
from holdfast.chaos import ChaosServer
from stores import PostgresStore


@asynccontextmanager
async def node(chaos: ChaosServer, discord: FakeDiscord, dsn: str, name: str) -> AsyncGenerator[World]:
    store = await PostgresStore.open(dsn, name=name, tuning=QUICK)
    try:
        async with process(chaos, store=store) as world, starting(world, options_for(discord)):
            yield world
    finally:
        await store.close()


async def test_a_channel_moves_to_another_node_and_nothing_is_lost_or_doubled(postgres_dsn: str) -> None:
    """P14, P6: each message has one run and one reply, whichever node holds the channel."""
    async with FakeDiscord() as discord, ChaosServer(choose=echo) as chaos:
        async with node(chaos, discord, postgres_dsn, "a") as first:
            await until(discord, lambda: bool(discord.world.commands))
            say(discord, "one")
            await said(discord, "re: one")
            async with node(chaos, discord, postgres_dsn, "b"):
                say(discord, "two")
                await said(discord, "re: one", "re: two")
                assert (await first.store.place(LOG)).owner == "a"
        say(discord, "three")
        async with node(chaos, discord, postgres_dsn, "b") as second:
            await said(discord, "re: one", "re: two", "re: three")
            assert (await second.store.place(LOG)).owner == "b"
            state = await state_of(second)
            (session_id,) = state.chats
            assert len((await second.supervisor.view(session_id)).session.runs) == 3
    assert len(discord.world.done("createMessage")) == 3
