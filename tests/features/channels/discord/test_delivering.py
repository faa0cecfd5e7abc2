"""What is said on Discord arrives once, or says that it may be a repeat, or its failure is on the log."""

import pytest

from agent.world import process
from fakes.discord import Accept, DiscordError, DiscordLimit, FakeDiscord, ResetConnection
from features.channels.discord.lab import (
    LOG,
    ME,
    channel,
    options_for,
    said,
    say,
    starting,
    state_of,
    texts,
    until,
)
from features.channels.lab import echo
from holdfast import events as e
from holdfast.chaos import ChaosServer, Gate, Say, Script, SeenRequest, Wait
from holdfast.features.channels.events import (
    ChannelConnected,
    ChannelFailed,
)
from holdfast.features.channels.texts import MARK
from ports import reserved_port
from runner.steered_clock import SteeredClock, settle

OTHER = 43
BOTH = frozenset({str(ME), str(OTHER)})


async def test_what_may_have_arrived_is_looked_for_and_there_is_one_of_it() -> None:
    """P14: neither twice nor not at all, and no mark is needed."""
    async with FakeDiscord() as discord, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with channel(world, discord):
            discord.scripts.add("createMessage", [Accept(), ResetConnection()], [ResetConnection()])
            say(discord, "hi")
            await said(discord, "re: hi")
            await world.until(LOG, e.DeliveryConfirmed)
            discord.world.forget_nonces()
            say(discord, "ho")
            await said(discord, "re: hi", "re: ho")
            await world.until(LOG, e.DeliveryConfirmed, times=2)
        found = [one.event for one in await world.log(LOG)]
        assert [one.found for one in found if isinstance(one, e.DeliveryConfirmed)] == [True, False]
        attempts = [
            (one.nth, one.marked, one.absent) for one in found if isinstance(one, e.DeliveryAttempted)
        ]
        assert attempts == [(1, False, False), (1, False, False), (2, False, True)]


async def test_an_attempt_that_arrives_after_the_look_is_the_same_message() -> None:
    """P14: the nonce makes one message of two requests, even if the first was carried out last."""
    async with FakeDiscord() as discord, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with channel(world, discord):
            discord.scripts.add("createMessage", [Accept(), ResetConnection()])
            discord.scripts.add("listMessages", [DiscordError("Unknown Channel", 404, 10003)])
            say(discord, "hi")
            await world.until(LOG, e.DeliveryConfirmed)
            await said(discord, "re: hi")
        nonces = [call.parameters["nonce"] for call in discord.world.calls if call.name == "createMessage"]
        assert len(nonces) == 2
        assert len(set(nonces)) == 1


async def test_where_the_history_cannot_be_read_a_repeat_says_so() -> None:
    """P14: never silently twice."""
    async with (
        FakeDiscord() as discord,
        ChaosServer(choose=echo) as chaos,
        process(chaos) as world,
        channel(world, discord),
    ):
        discord.scripts.add("createMessage", [ResetConnection()])
        discord.scripts.add("listMessages", [DiscordError("Missing Access", 403, 50001)])
        say(discord, "hi")
        await said(discord, f"{MARK}\nre: hi")


async def test_a_chat_at_its_limit_waits_alone_and_keeps_its_order() -> None:
    """P10: one noisy chat delays no other; a limit of the whole bot holds all."""
    clock = SteeredClock()
    async with FakeDiscord() as discord, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with channel(world, discord, allow=BOTH, clock=clock):
            mine = discord.world.direct(ME).channel_id
            discord.scripts.add(f"createMessage@{mine}", [DiscordLimit(30)])
            say(discord, "first")
            await world.until(LOG, e.DeliveryPostponed)
            say(discord, "second")
            say(discord, "other", OTHER)
            await said(discord, "re: other", user=OTHER)
            assert texts(discord) == []
            await settle()
            clock.advance(31)
            await said(discord, "re: first", "re: second")
            discord.scripts.add("createMessage", [DiscordLimit(20, "global")])
            say(discord, "third")
            await world.until(LOG, e.DeliveryPostponed, times=2)
            say(discord, "held", OTHER)
            await world.until(LOG, e.DeliveryPostponed, times=3)
            held = [one for one in discord.world.calls if one.name == "createMessage"]
            await settle()
            clock.advance(21)
            await said(discord, "re: other", "re: held", user=OTHER)
            await said(discord, "re: first", "re: second", "re: third")
        refused = [one for one in held if one.outcome != "done"]
        assert len(refused) == 2, "what is held back isn't even asked for"


async def test_a_route_without_any_requests_left_is_not_asked() -> None:
    """The headers of an answer close the gate before Discord has to refuse."""
    clock = SteeredClock()
    async with FakeDiscord(limit=1, per_s=3_600.0) as discord, ChaosServer(choose=echo) as chaos:
        async with process(chaos) as world, channel(world, discord, clock=clock):
            say(discord, "one")
            await said(discord, "re: one")
            say(discord, "two")
            records = await world.until(LOG, e.DeliveryPostponed)
        postponed = records[-1].event
        assert isinstance(postponed, e.DeliveryPostponed)
        assert "rate limit" in postponed.why
        assert all(call.outcome == "done" for call in discord.world.calls)


@pytest.mark.parametrize(
    "refusal",
    [
        (403, 50007, "Cannot send messages to this user"),
        (403, 50001, "Missing Access"),
        (404, 10003, "Unknown Channel"),
    ],
)
async def test_a_chat_that_takes_nothing_ends_its_deliveries_until_someone_writes_there_again(
    refusal: tuple[int, int, str],
) -> None:
    async with FakeDiscord() as discord, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with channel(world, discord):
            discord.world.direct(ME).refusal = refusal
            say(discord, "hi")
            records = await world.until(LOG, e.DeliveryRejected)
            rejected = records[-1].event
            assert isinstance(rejected, e.DeliveryRejected)
            assert (rejected.why, rejected.ends_chat) == (refusal[2], True)
            discord.world.direct(ME).refusal = None
            say(discord, "back")
            await said(discord, "re: back")
        states = [one.state for one in (await state_of(world)).outbox.deliveries.values()]
        assert states == ["rejected", "confirmed"]


async def test_an_answer_whose_preview_was_deleted_arrives_as_a_new_message() -> None:
    """P14: an edit that is refused is never an answer that is lost."""
    gate = Gate()

    def script(request: SeenRequest) -> Script:
        del request
        return [Say("half"), Wait(gate), Say(" and half")]

    async with FakeDiscord() as discord, ChaosServer(choose=script) as chaos, process(chaos) as world:
        chat = discord.world.direct(ME)
        async with channel(world, discord, preview_after_s=0.0):
            say(discord, "hi")
            await until(discord, lambda: texts(discord) == ["half"])
            preview = next(key for key, one in chat.messages.items() if one["author"].get("bot"))
            discord.world.delete(chat, preview)
            gate.open()
            await said(discord, "half and half")


async def test_a_platform_that_is_away_is_red_and_everything_arrives_once_it_is_back() -> None:
    """P3, P14: a platform that is down takes nothing else down, and nothing waits without being seen."""
    clock = SteeredClock()
    async with ChaosServer(choose=echo) as chaos, process(chaos) as world:
        port = reserved_port()
        away = FakeDiscord(port=port)
        async with starting(world, options_for(away), clock=clock):
            chat = away.world.direct(ME).channel_id
            intended = e.DeliveryIntended(at_ms=1, chat=chat, message="note", body="**hello**")
            await world.until(LOG, ChannelFailed)
            await world.store.append(LOG, [intended])
            await world.until(LOG, e.DeliveryPostponed)
            assert "can't connect" in (await state_of(world)).trouble
        async with FakeDiscord(port=port) as discord:
            discord.world.direct(ME)
            async with channel(world, discord, clock=clock):
                await world.until(LOG, ChannelConnected)
                await settle()
                clock.advance(60)
                await said(discord, "hello")


async def test_a_wrong_token_is_said_with_what_to_do_and_never_shown() -> None:
    """P11: the token is in no event."""
    async with FakeDiscord() as discord, ChaosServer() as chaos, process(chaos) as world:
        wrong = options_for(discord, token=discord.token + "-wrong")
        async with starting(world, wrong, clock=SteeredClock()):
            records = await world.until(LOG, ChannelFailed)
        failed = records[-1].event
        assert isinstance(failed, ChannelFailed)
        assert failed.why == "The token is wrong"
        assert "discord.com/developers" in failed.hint
        assert not any(b"fake.discord" in record.body for record in await world.log(LOG))
