"""What no platform should send, and what any platform may: nothing of it takes a channel down."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from agent.world import process
from fakes.discord import FakeDiscord
from fakes.slack import FakeSlack
from fakes.telegram import FakeTelegram
from features.channels.discord import lab as discord_lab
from features.channels.discord.lab import channel as on_discord
from features.channels.lab import LOG, ME, channel, deps_of, echo, options_for, said, state_of
from features.channels.slack import slack_lab
from features.channels.slack.slack_lab import talking
from holdfast.chaos import ChaosServer
from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.deps import ChannelDeps, ChannelOptions
from holdfast.features.channels.events import (
    ChannelConnected,
    ChannelUpdateLogged,
)
from holdfast.features.channels.incoming import ButtonPress, ChatFile, PlatformMessage
from holdfast.features.channels.owner import OWNER_FAILED, OWNER_HINT, Accept, ChatPlatform, own_channel
from holdfast.features.channels.telegram.channel import open_channel
from holdfast.features.channels.texts import FILE_LOST, NOT_ACCEPTED
from holdfast.runner.inbox import Inbox, IncomingMessage, OnceFor

HALF = "a\ud800b"  # half of a character, which JSON can escape and UTF-8 can't hold
CLEAN = "a\ufffdb"
DEEP = "[" * 3_000 + "]" * 3_000


def test_every_text_that_comes_in_can_be_written() -> None:
    file = ChatFile(HALF, HALF, HALF, 1)
    assert (file.handle, file.name, file.media_type) == (CLEAN, CLEAN, CLEAN)
    press = ButtonPress(key=HALF, chat=HALF, user=HALF, name=HALF, data=HALF, platform_id=HALF, click=HALF)
    assert {press.key, press.chat, press.user, press.name, press.data, press.platform_id, press.click} == {
        CLEAN
    }
    message = PlatformMessage(
        key="1",
        chat="1",
        user="1",
        name="ü",
        text="\ud83d\ude00é",
        platform_id="1",
        is_direct=True,
        is_for_us=True,
    )
    assert (message.name, message.text) == ("ü", "\U0001f600é")


async def test_half_a_character_in_telegram_is_replaced_and_takes_nobody_down() -> None:
    """P14: what a stranger sends doesn't keep others from being answered."""
    async with (
        FakeTelegram() as telegram,
        ChaosServer(choose=echo) as chaos,
        process(chaos) as world,
    ):
        telegram.world.say(99, HALF)
        telegram.world.say(ME, HALF)
        async with channel(world, options_for(telegram)):
            await said(telegram, f"re: {CLEAN}")


async def test_half_a_character_in_slack_is_replaced_and_takes_nobody_down() -> None:
    """P14: what a stranger sends doesn't keep others from being answered."""
    chaos_server = ChaosServer(choose=echo)
    async with FakeSlack() as slack, chaos_server as chaos, process(chaos) as world, talking(world, slack):
        slack.world.say("D99", HALF)
        slack.world.say(slack_lab.MY, HALF)
        await slack_lab.said(slack, f"re: {CLEAN}")


async def test_half_a_character_in_discord_is_replaced_and_takes_nobody_down() -> None:
    """P14: what a stranger sends doesn't keep others from being answered."""
    chaos_server = ChaosServer(choose=echo)
    fake = FakeDiscord()
    async with fake as discord, chaos_server as chaos, process(chaos) as world, on_discord(world, discord):
        discord_lab.say(discord, HALF, 99)
        discord_lab.say(discord, HALF)
        await discord_lab.said(discord, f"re: {CLEAN}")


@pytest.mark.parametrize(
    "frame",
    [
        f'{{"op": 0, "t": "MESSAGE_CREATE", "s": 3, "d": {DEEP}}}',
        '{"op": 0, "t": "MESSAGE_CREATE", "s": "abc", "d": {}}',
        '{"op": 0, "t": "READY", "s": 3, "d": {}}',
        '{"op": "?"}',
        "[]",
        "no JSON",
    ],
    ids=["deep", "sequence", "ready", "opcode", "list", "text"],
)
async def test_a_frame_of_discord_that_cannot_be_read_takes_nobody_down(
    frame: str, caplog: pytest.LogCaptureFixture
) -> None:
    """P14: what comes after it is taken, by the same owner."""
    chaos_server = ChaosServer(choose=echo)
    fake = FakeDiscord()
    async with fake as discord, chaos_server as chaos, process(chaos) as world, on_discord(world, discord):
        discord_lab.say(discord, "one")
        await discord_lab.said(discord, "re: one")
        discord.world.sessions.send_raw(frame)
        discord_lab.say(discord, "two")
        await discord_lab.said(discord, "re: one", "re: two")
    assert not [one for one in caplog.records if one.levelname == "ERROR"], "no owner began again"


async def test_a_frame_of_slack_that_cannot_be_read_takes_nobody_down() -> None:
    """P14: what comes after it is taken."""
    chaos_server = ChaosServer(choose=echo)
    async with FakeSlack() as slack, chaos_server as chaos, process(chaos) as world, talking(world, slack):
        for socket in list(slack.sockets.open):
            for frame in (
                f'{{"envelope_id": "e", "type": "events_api", "payload": {DEEP}}}',
                DEEP,
                "no JSON",
            ):
                await socket.send_str(frame)
        slack.world.say(slack_lab.MY, "one")
        await slack_lab.said(slack, "re: one")


async def test_an_attachment_with_half_an_address_is_not_fetched_and_takes_nobody_down() -> None:
    chaos_server = ChaosServer(choose=echo)
    fake = FakeDiscord()
    async with fake as discord, chaos_server as chaos, process(chaos) as world, on_discord(world, discord):
        direct = discord.world.direct(discord_lab.ME)
        sent = discord.world.new_message(direct, {"id": str(discord_lab.ME), "username": "me"}, "look")
        file = {"id": "1", "filename": "x", "size": 1, "url": "//elsewhere.example/x"}
        discord.world.tell(direct, "MESSAGE_CREATE", sent | {"attachments": [file]})
        discord_lab.say(discord, "two")
        await discord_lab.said(discord, FILE_LOST, "re: two")


class StumblingInbox(Inbox):
    """Fails at one message, in a way that nobody foresaw."""

    async def send(self, session_id: str, message: IncomingMessage, *, once: OnceFor | None = None):  # noqa: ANN201
        if message.text == "stumble":
            raise RuntimeError("nobody foresaw this")
        return await super().send(session_id, message, once=once)


async def test_a_message_that_cannot_be_taken_is_ignored_visibly_and_the_next_is_answered() -> None:
    """P14: it is on the log what became of it, its sender is told, and the platform's cursor moves on."""
    chaos_server = ChaosServer(choose=echo)
    async with (
        FakeTelegram() as telegram,
        chaos_server as chaos,
        process(chaos, inbox=StumblingInbox) as world,
    ):
        async with channel(world, options_for(telegram)):
            telegram.world.say(ME, "stumble")
            telegram.world.say(ME, "two")
            await said(telegram, NOT_ACCEPTED, "re: two")
        found = [one.event for one in await world.log(LOG)]
    taken = [one for one in found if isinstance(one, ChannelUpdateLogged)]
    assert [(one.became, one.why) for one in taken] == [
        ("ignored", "failed: RuntimeError"),
        ("message", ""),
    ]


async def test_an_owner_that_fails_says_so_on_the_log_and_begins_again() -> None:
    """A channel whose owner failed is red until it works again."""
    async with (
        FakeTelegram() as telegram,
        ChaosServer(choose=echo) as chaos,
        process(chaos) as world,
    ):
        options = options_for(telegram)

        @asynccontextmanager
        async def stumbling(
            deps: ChannelDeps, options: ChannelOptions, log: ChannelLog
        ) -> AsyncGenerator[ChatPlatform]:
            async def connect(_accept: Accept) -> None:
                connected = ChannelConnected(at_ms=1, account="x")
                await log.append(connected)
                raise RuntimeError("nobody foresaw this")

            async with open_channel(deps, options, log) as platform:
                yield replace(platform, connect=connect)

        async with channel(world, options):
            telegram.world.say(ME, "one")
            await said(telegram, "re: one")
        fence = await world.store.claim(LOG)
        with pytest.raises(ExceptionGroup):
            await own_channel(deps_of(world), options, fence, open_platform=stumbling)
        await world.store.release(LOG, fence)
        state = await state_of(world)
        assert (state.is_connected, state.trouble, state.hint) == (False, OWNER_FAILED, OWNER_HINT)
        async with channel(world, options):
            telegram.world.say(ME, "two")
            await said(telegram, "re: one", "re: two")
        assert (await state_of(world)).is_connected
