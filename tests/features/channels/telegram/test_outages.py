"""A platform that is away for an hour, and a hundred chats of which one is at its limit."""

from msgspec.structs import replace

from agent.world import process
from fakes.telegram import FakeTelegram, TooManyRequests
from features.channels.lab import (
    LOG,
    ME,
    channel,
    echo,
    options_for,
    said,
    served_channels,
    state_of,
    until,
)
from holdfast import events as e
from holdfast.chaos import ChaosServer
from holdfast.features.channels.events import (
    ChannelConnected,
    ChannelFailed,
    ChannelUpdateLogged,
)
from ports import reserved_port
from runner.steered_clock import SteeredClock, settle
from serving import served, target_of
from stores import MemoryStore

MINUTES = 60
STRANGERS = range(500, 550)


async def until_logged(store: MemoryStore, kind: type[e.Event], *, times: int) -> None:
    """Wait until the channel's log has so many events of the kind."""
    seen = 0
    async for records in store.follow(LOG):
        seen += sum(isinstance(record.event, kind) for record in records)
        if seen >= times:
            return


async def test_a_platform_that_is_away_for_an_hour_is_red_and_then_gets_everything_in_order() -> None:
    """P3, P14: no pause is longer than a minute, the trouble is said once, and nothing is lost."""
    clock, store = SteeredClock(), MemoryStore()
    port = reserved_port()
    away = FakeTelegram(port=port)
    setting = replace(served_channels(options_for(away), clock=clock), store=store)
    async with ChaosServer(choose=echo) as chaos, served(target_of(chaos), setting=setting) as server:
        await until_logged(store, ChannelFailed, times=1)
        for number in range(3):
            intended = e.DeliveryIntended(
                at_ms=1, chat=str(ME), message=f"note {number}", body=f"note {number}"
            )
            await store.append(LOG, [intended])
        await until_logged(store, e.DeliveryPostponed, times=1)
        for minute in range(MINUTES):
            await settle()
            clock.advance(60)
            await until_logged(store, e.DeliveryPostponed, times=minute + 2)  # it was tried again
        _, health = await server.get("/health/detailed")
        (shown,) = health["channels"]
        assert (shown["state"], shown["undelivered"]) == ("failed", 3)
        assert "can't connect" in shown["problem"]
        found = [record.event for record in await store.read(LOG, limit=10_000)]
        assert sum(isinstance(one, ChannelFailed) for one in found) == 1
        async with FakeTelegram(port=port) as telegram:
            telegram.world.say(ME, "are you there?")
            await settle()
            clock.advance(60)
            await until(telegram, lambda: len(telegram.world.chat(ME).texts()) == 4)
            texts = telegram.world.chat(ME).texts()
            assert [text for text in texts if text.startswith("note")] == ["note 0", "note 1", "note 2"]
            assert "re: are you there?" in texts
            await until_logged(store, ChannelConnected, times=1)
            _, health = await server.get("/health/detailed")
            assert health["channels"][0]["state"] == "connected"
        found = [record.event for record in await store.read(LOG, limit=10_000)]
        assert not any(isinstance(one, e.DeliveryUnknown) for one in found)


async def test_a_hundred_chats_have_their_answers_while_one_is_at_its_limit() -> None:
    """P10: the chat that waits for an hour holds up nobody, and keeps its own order."""
    clock, people = SteeredClock(), range(1_000, 1_100)
    limited = people[0]
    async with FakeTelegram() as telegram, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        telegram.scripts.add(f"sendMessage@{limited}", [TooManyRequests(3_600)])
        allowed = frozenset(str(chat) for chat in people)
        async with channel(world, options_for(telegram, allow=allowed), clock=clock):
            telegram.world.say(limited, "first")
            await world.until(LOG, e.DeliveryPostponed)
            telegram.world.say(limited, "second")
            for chat in people[1:]:
                telegram.world.say(chat, f"hello from {chat}")
            for chat in people[1:]:
                await said(telegram, f"re: hello from {chat}", chat=chat)
            assert telegram.world.chat(limited).texts() == []
            await settle()
            clock.advance(3_600)
            await said(telegram, "re: first", "re: second", chat=limited)


async def test_strangers_get_one_refusal_each_and_reach_no_model() -> None:
    """P11: who isn't allowed costs one entry on the log, however much they write."""
    async with FakeTelegram() as telegram, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with channel(world, options_for(telegram)):
            for _ in range(5):
                for stranger in STRANGERS:
                    telegram.world.say(stranger, "let me in")
                    telegram.world.send_file(stranger, b"x" * 1_000)
            telegram.world.say(ME, "hi")
            await said(telegram, "re: hi")
            await until(
                telegram, lambda: all(len(telegram.world.chat(one).texts()) == 1 for one in STRANGERS)
            )
        assert chaos.seen.requests_seen == 1
        assert len((await state_of(world)).sessions) == 1
        taken = [one.event for one in await world.log(LOG) if isinstance(one.event, ChannelUpdateLogged)]
        assert sum(one.became == "refused" for one in taken) == len(STRANGERS)
        assert telegram.world.done("getFile") == []
