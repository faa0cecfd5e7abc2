"""Two nodes on one database: one holds the Slack channel, and the other continues when it leaves."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from agent.world import World, process
from fakes.slack import FakeSlack
from features.channels.lab import QUICK, channel, echo
from features.channels.slack.slack_lab import LOG, MY, options_for, said, state_of, until
from holdfast.chaos import ChaosServer
from stores import PostgresStore


@asynccontextmanager
async def node(chaos: ChaosServer, slack: FakeSlack, dsn: str, name: str) -> AsyncGenerator[World]:
    store = await PostgresStore.open(dsn, name=name, tuning=QUICK)
    try:
        async with process(chaos, store=store) as world, channel(world, options_for(slack)):
            yield world
    finally:
        await store.close()


async def test_a_channel_moves_to_another_node_and_nothing_is_lost_or_doubled(postgres_dsn: str) -> None:
    """P14, P6: each message has one run and one reply, whichever node holds the channel."""
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos:
        async with node(chaos, slack, postgres_dsn, "a") as first:
            await until(slack, lambda: bool(slack.sockets.open))
            slack.world.say(MY, "one")
            await said(slack, "re: one")
            async with node(chaos, slack, postgres_dsn, "b"):
                slack.world.say(MY, "two")
                await said(slack, "re: one", "re: two")
                assert (await first.store.place(LOG)).owner == "a"
                assert len(slack.sockets.open) == 1
        await until(slack, lambda: not slack.sockets.open)
        slack.world.say(MY, "three")
        async with node(chaos, slack, postgres_dsn, "b") as second:
            await said(slack, "re: one", "re: two", "re: three")
            assert (await second.store.place(LOG)).owner == "b"
            state = await state_of(second)
            (session_id,) = state.chats
            assert len((await second.supervisor.view(session_id)).session.runs) == 3
    assert len(slack.world.done("chat.postMessage")) == 3
