"""Two nodes on one database: one holds the channel, and the other continues when it leaves."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from agent.world import World, process
from fakes.telegram import FakeTelegram
from features.channels.lab import ME, QUICK, channel, echo, options_for, said, state_of
from holdfast.chaos import ChaosServer
from stores import PostgresStore


@asynccontextmanager
async def node(chaos: ChaosServer, telegram: FakeTelegram, dsn: str, name: str) -> AsyncGenerator[World]:
    store = await PostgresStore.open(dsn, name=name, tuning=QUICK)
    try:
        async with process(chaos, store=store) as world, channel(world, options_for(telegram)):
            yield world
    finally:
        await store.close()


async def test_a_channel_moves_to_another_node_and_nothing_is_lost_or_doubled(postgres_dsn: str) -> None:
    """P14, P6: each message has one run and one reply, whichever node holds the channel."""
    async with FakeTelegram() as telegram, ChaosServer(choose=echo) as chaos:
        async with node(chaos, telegram, postgres_dsn, "a") as first:
            telegram.world.say(ME, "one")
            await said(telegram, "re: one")
            async with node(chaos, telegram, postgres_dsn, "b"):
                telegram.world.say(ME, "two")
                await said(telegram, "re: one", "re: two")
                assert (await first.store.place("chn_tg")).owner == "a"
        telegram.world.say(ME, "three")
        async with node(chaos, telegram, postgres_dsn, "b") as second:
            await said(telegram, "re: one", "re: two", "re: three")
            assert (await second.store.place("chn_tg")).owner == "b"
            state = await state_of(second)
            (session_id,) = state.chats
            assert len((await second.supervisor.view(session_id)).session.runs) == 3
    assert len(telegram.world.done("sendMessage")) == 3
