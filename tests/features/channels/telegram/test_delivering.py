"""What is said arrives once, or says that it may be a repeat, or its failure is on the log."""

import pytest

from agent.world import process
from fakes.telegram import Accept, FakeTelegram, RefuseWith, ResetConnection, TooManyRequests
from features.channels.lab import LOG, ME, channel, echo, last_user_text, options_for, said, state_of, until
from holdfast import events as e
from holdfast.chaos import ChaosServer, Say, Script, SeenRequest
from holdfast.features.channels.events import (
    ChannelConnected,
    ChannelFailed,
    ChannelUserAllowed,
)
from holdfast.features.channels.owner import NOT_TAKEN
from holdfast.features.channels.texts import MARK
from ports import reserved_port
from runner.steered_clock import SteeredClock, settle

OTHER = 43
BOTH = frozenset({str(ME), str(OTHER)})


async def test_what_may_have_arrived_is_sent_once_more_and_says_that_it_may_be_a_repeat() -> None:
    """P14: never silently twice, never silently not at all."""
    clock = SteeredClock()
    async with FakeTelegram() as telegram, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        telegram.scripts.add("sendMessage", [Accept(), ResetConnection()])
        async with channel(world, options_for(telegram), clock=clock):
            telegram.world.say(ME, "hi")
            await world.until(LOG, e.DeliveryUnknown)
            await settle()
            clock.advance(1)
            await said(telegram, "re: hi", f"{MARK}\nre: hi")
            telegram.scripts.add("sendMessage", [ResetConnection()])
            telegram.world.say(ME, "ho")
            await world.until(LOG, e.DeliveryUnknown, times=2)
            await settle()
            clock.advance(1)
            await said(telegram, "re: hi", f"{MARK}\nre: hi", f"{MARK}\nre: ho")
        found = [one.event for one in await world.log(LOG)]
        assert sum(isinstance(one, e.DeliveryUnknown) for one in found) == 2
        assert {one.state for one in (await state_of(world)).outbox.deliveries.values()} == {"confirmed"}


async def test_a_chat_at_its_limit_waits_alone_and_keeps_its_order() -> None:
    """P10: one noisy chat delays no other."""
    clock = SteeredClock()
    async with FakeTelegram() as telegram, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        telegram.scripts.add(f"sendMessage@{ME}", [TooManyRequests(30)])
        async with channel(world, options_for(telegram, allow=BOTH), clock=clock):
            telegram.world.say(ME, "first")
            await until(telegram, lambda: any("retry after" in call.outcome for call in telegram.world.calls))
            telegram.world.say(ME, "second")
            telegram.world.say(OTHER, "other")
            await said(telegram, "re: other", chat=OTHER)
            await world.store.append(LOG, [ChannelUserAllowed(at_ms=1, user="1")])
            assert telegram.world.chat(ME).texts() == []
            await settle()
            clock.advance(30)
            await said(telegram, "re: first", "re: second")


async def test_a_chat_that_blocked_the_bot_ends_its_deliveries_until_someone_writes_there_again() -> None:
    async with FakeTelegram() as telegram, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with channel(world, options_for(telegram)):
            telegram.world.say(ME, "hi")
            telegram.world.chat(ME).blocked = True
            await until(telegram, lambda: any("blocked" in call.outcome for call in telegram.world.calls))
            await said(telegram)
            telegram.world.chat(ME).blocked = False
            telegram.world.say(ME, "back")
            await said(telegram, "re: back")
        states = [one.state for one in (await state_of(world)).outbox.deliveries.values()]
        assert states == ["rejected", "confirmed"]


async def test_a_platform_that_is_away_is_red_and_everything_arrives_once_it_is_back() -> None:
    """P3, P14: a platform that is down takes nothing else down, and nothing waits without being seen."""
    clock = SteeredClock()
    async with ChaosServer(choose=echo) as chaos, process(chaos) as world:
        port = reserved_port()
        away = FakeTelegram(port=port)
        async with channel(world, options_for(away), clock=clock):
            intended = e.DeliveryIntended(at_ms=1, chat=str(ME), message="note", body="**hello**")
            await world.until(LOG, ChannelFailed)
            await world.store.append(LOG, [intended])
            await world.until(LOG, e.DeliveryPostponed)
            state = await state_of(world)
            assert "can't connect" in state.trouble
        async with FakeTelegram(port=port) as telegram, channel(world, options_for(telegram), clock=clock):
            telegram.world.chat(ME)
            await world.until(LOG, ChannelConnected)
            await settle()
            clock.advance(60)
            await said(telegram, "hello")


async def test_a_wrong_token_is_said_with_what_to_do_and_never_shown() -> None:
    """P11: the token is in no event."""
    async with FakeTelegram() as telegram, ChaosServer() as chaos, process(chaos) as world:
        wrong = options_for(telegram, token=telegram.token + "-wrong")
        async with channel(world, wrong, clock=SteeredClock()):
            records = await world.until(LOG, ChannelFailed)
        failed = records[-1].event
        assert isinstance(failed, ChannelFailed)
        assert failed.why == "Unauthorized"
        assert "BotFather" in failed.hint
        assert not any(b"fake-token" in record.body for record in await world.log(LOG))


async def test_an_answer_whose_formatting_is_refused_arrives_as_plain_text() -> None:
    """P14: never silently not at all."""

    def formatted(request: SeenRequest) -> Script:
        return [Say(f"**re**: `a < b` {last_user_text(request)}")]

    async with FakeTelegram() as telegram, ChaosServer(choose=formatted) as chaos, process(chaos) as world:
        telegram.scripts.add("sendMessage", [RefuseWith("Bad Request: can't parse entities")])
        async with channel(world, options_for(telegram)):
            telegram.world.say(ME, "hi & ho")
            await said(telegram, "re: a < b hi & ho")
            (sent,) = telegram.world.done("sendMessage")
            assert "parse_mode" not in sent.parameters
            (postponed,) = [
                one.event for one in await world.log(LOG) if isinstance(one.event, e.DeliveryPostponed)
            ]
            assert postponed.plain
            telegram.world.say(ME, "again")
            await said(telegram, "re: a < b hi & ho", "re: a < b again")
        assert telegram.world.done("sendMessage")[-1].parameters["parse_mode"] == "HTML"


@pytest.mark.parametrize(
    ("refusal", "attempts", "told"),
    [
        ("Bad Request: can't parse entities", 2, [NOT_TAKEN.format(why="Bad Request: can't parse entities")]),
        ("Bad Request: chat not found", 1, []),
    ],
)
async def test_what_the_platform_never_takes_is_rejected_once(
    refusal: str, attempts: int, told: list[str]
) -> None:
    async with FakeTelegram() as telegram, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        telegram.scripts.add("sendMessage", *[[RefuseWith(refusal)]] * attempts)
        async with channel(world, options_for(telegram)):
            telegram.world.say(ME, "hi")
            await world.until(LOG, e.DeliveryRejected)
            telegram.world.say(ME, "ho")
            await said(telegram, *told, "re: ho")


async def test_words_of_a_session_are_in_its_log_alone_and_go_with_it() -> None:
    """P11: what a purge removes is not kept in the channel's log."""
    clock = SteeredClock()
    async with FakeTelegram() as telegram, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        telegram.scripts.add("sendMessage", [TooManyRequests(30)])
        async with channel(world, options_for(telegram), clock=clock):
            telegram.world.say(ME, "a secret")
            await world.until(LOG, e.DeliveryPostponed)
            assert not any(b"a secret" in record.body for record in await world.log(LOG))
            (session_id,) = (await state_of(world)).chats
            assert await world.store.purge(
                session_id, then=lambda: world.supervisor.resources.folds.forget(session_id)
            )
            await settle()
            clock.advance(30)
            records = await world.until(LOG, e.DeliveryRejected)
        rejected = records[-1].event
        assert isinstance(rejected, e.DeliveryRejected)
        assert "no longer exists" in rejected.why
        assert telegram.world.chat(ME).texts() == []
