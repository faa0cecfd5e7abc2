"""The gateway: resumed where it was taken; where it can't be, the history of the chats is read."""

import pytest

from agent.world import process
from fakes.discord import CloseSocket, DiscordError, FakeDiscord, Ignore, ResetConnection
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
from features.channels.lab import LeapingClock, echo
from holdfast import events as e
from holdfast.chaos import ChaosServer
from holdfast.features.channels.discord.api import open_discord
from holdfast.features.channels.discord.carrier import KeptProgress, Progress
from holdfast.features.channels.events import (
    ChannelConnected,
    ChannelFailed,
)
from holdfast.interfaces.system_clock import SystemClock
from runner.steered_clock import SteeredClock, settle


def opcodes(discord: FakeDiscord) -> list[int]:
    """How the bot introduced itself, each time."""
    return [one["op"] for one in discord.gateway.heard if one["op"] in {2, 6}]


async def test_a_dropped_socket_is_resumed_and_nothing_is_missed() -> None:
    """P14: by RESUME, with the sequence of what is on the log."""
    async with FakeDiscord() as discord, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with channel(world, discord, clock=LeapingClock(4.0)):
            say(discord, "one")
            await said(discord, "re: one")
            discord.world.sessions.drop()
            say(discord, "two")
            await said(discord, "re: one", "re: two")
            discord.world.sessions.ask_to_reconnect()
            say(discord, "three")
            await said(discord, "re: one", "re: two", "re: three")
            discord.scripts.add("MESSAGE_CREATE", [CloseSocket(4000)])
            say(discord, "four")
            await said(discord, "re: one", "re: two", "re: three", "re: four")
        assert opcodes(discord) == [2, 6, 6, 6]
        failed = [one for one in await world.log(LOG) if isinstance(one.event, ChannelFailed)]
        assert not failed, "a socket that comes back at once is nobody's trouble"


async def test_another_process_resumes_and_gets_also_what_the_history_has_not() -> None:
    """P14, P6: a click of while nobody was there."""
    async with FakeDiscord() as discord, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with channel(world, discord):
            say(discord, "one")
            await said(discord, "re: one")
            await world.until(LOG, e.DeliveryConfirmed)
            assert await KeptProgress(world.store, LOG).load() is not None
        say(discord, "from someone new", 43)
        discord.world.command(discord.world.direct(ME), "new")
        say(discord, "two")
        async with channel(world, discord, allow=frozenset({"42", "43"})):
            await said(discord, "re: from someone new", user=43)
            await said(discord, "re: one", "Started a new conversation.", "re: two")
        assert opcodes(discord) == [2, 6]


async def test_where_the_session_is_forgotten_the_history_of_known_chats_is_read() -> None:
    """P14: messages of known chats are taken, in order; what Discord itself no longer tells is lost."""
    async with FakeDiscord() as discord, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        general, mention = discord.world.channel(), discord.world.mention
        both = frozenset({"42", "43"})
        async with channel(world, discord, allow=both):
            discord.world.say(general, f"{mention} one", user=ME)
            await until(discord, lambda: len(general.texts()) == 1)
        discord.world.sessions.forget()
        for number in range(250):
            text = f"{mention} missed {number}" if number % 100 == 0 else "just talking"
            discord.world.say(general, text, user=ME)
        say(discord, "a new chat", 43)
        async with channel(world, discord, allow=both):
            discord.world.say(general, f"{mention} live", user=ME)
            await until(discord, lambda: any("live" in text for text in general.texts()))
        assert texts(discord, 43) == []
        (session_id,) = (await state_of(world)).chats
        log = await world.log(session_id)
        accepted = [one.event.text for one in log if isinstance(one.event, e.MessageAccepted)]
        wanted = ["one", "missed 0", "missed 100", "missed 200", "live"]
        assert accepted == [f"User 42: {text}" for text in wanted]
        assert opcodes(discord) == [2, 6, 2]
        connected = [one.event for one in await world.log(LOG) if isinstance(one.event, ChannelConnected)]
        assert [bool(one.missed) for one in connected] == [False, True], "what may be lost is on the log"


async def test_a_history_that_cannot_be_read_now_is_waited_for_and_one_that_is_closed_is_not() -> None:
    async with FakeDiscord() as discord, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with channel(world, discord, allow=frozenset({"42", "43"})):
            for user in (42, 43):
                say(discord, "one", user)
                await said(discord, "re: one", user=user)
        discord.world.sessions.forget()
        say(discord, "two")
        say(discord, "lost", 43)
        mine, other = (discord.world.direct(user).channel_id for user in (42, 43))
        discord.scripts.add(f"listMessages@{mine}", [ResetConnection()])
        discord.scripts.add(f"listMessages@{other}", [DiscordError("Missing Access", 403, 50001)])
        async with channel(world, discord, allow=frozenset({"42", "43"})):
            say(discord, "three", 43)
            await said(discord, "re: one", "re: three", user=43)
            await said(discord, "re: one", "re: two")
            log = await world.until(LOG, ChannelConnected, times=3)
        (_, _, missed) = [one.event.missed for one in log if isinstance(one.event, ChannelConnected)]
        assert missed.startswith(f"messages in 1 chats ({other})"), "what may be lost is on the log"
        assert "Missing Access" in missed


async def test_a_gateway_that_no_longer_answers_heartbeats_is_left() -> None:
    """P3: no socket is waited for without end."""
    clock = SteeredClock()
    async with (
        FakeDiscord() as discord,
        ChaosServer(choose=echo) as chaos,
        process(chaos) as world,
        channel(world, discord, clock=clock),
    ):
        discord.scripts.add("heartbeat", [Ignore()])
        await settle()
        clock.advance(21)
        await until(discord, lambda: any(one["op"] == 1 for one in discord.gateway.heard))
        await settle()
        clock.advance(42)
        await until(discord, lambda: discord.world.sessions.sockets == 0)
        await settle()
        clock.advance(60)
        await until(discord, lambda: opcodes(discord) == [2, 6])


@pytest.mark.parametrize("code", [4004, 4013, 4014])
async def test_a_final_close_code_is_said_and_not_tried_again_at_once(code: int) -> None:
    clock = SteeredClock()
    async with FakeDiscord() as discord, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        discord.scripts.add("identify", [CloseSocket(code)])
        async with starting(world, options_for(discord), clock=clock):
            records = await world.until(LOG, ChannelFailed)
            failed = records[-1].event
            assert isinstance(failed, ChannelFailed)
            assert failed.hint
            await settle()
            clock.advance(500)
            await settle()
            assert opcodes(discord) == [2]
            clock.advance(200)
            await until(discord, lambda: opcodes(discord) == [2, 2])
            await world.until(LOG, ChannelConnected)


def test_the_sequence_moves_only_past_what_is_taken() -> None:
    progress = Progress("s", "u", 1)
    progress.begin(1, 2)
    assert not progress.is_taken
    progress.begin(2)
    progress.begin(3)
    progress.end(3)
    progress.end(1)
    assert not progress.is_taken, "a part of the beginning is open"
    progress.end(1)
    assert (progress.is_taken, progress.point.seq) == (True, 1)
    progress.end(2)
    assert progress.point.seq == 3
    progress.begin(4, 0)
    assert progress.point.seq == 4


async def test_the_token_goes_to_discord_alone() -> None:
    """P11: neither a gateway nor a file of another host."""
    async with open_discord(token="t", clock=SystemClock()) as api:  # noqa: S106
        assert api.is_gateway_address("wss://gateway.discord.gg")
        assert api.is_gateway_address("wss://gateway-us-east1-b.discord.gg/?v=10")
        assert api.is_file_address("https://cdn.discordapp.com/attachments/1/2/x.png?ex=1")
        for address in (
            "wss://discord.gg.evil.example",
            "ws://gateway.discord.gg",
            "wss://evil.example",
            "nonsense",
        ):
            assert not api.is_gateway_address(address)
        for address in (
            "https://evil.example/x",
            "http://cdn.discordapp.com/x",
            "https://cdn.discordapp.com:8443/x",
            "https://cdn.discordapp.com@evil.example/x",
            "/attachments/x",
            "",
        ):
            assert not api.is_file_address(address)
    async with open_discord(token="t", base_url="http://127.0.0.1:9", clock=SystemClock()) as own:  # noqa: S106
        assert own.is_file_address("http://127.0.0.1:9/attachments/x")
        assert not own.is_file_address("http://127.0.0.1:8/attachments/x")
