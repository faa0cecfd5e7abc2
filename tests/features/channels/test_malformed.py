"""Answers that aren't the platform's: the channel is red with a plain sentence, and tries again by itself."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import pytest

from agent.world import process
from fakes.discord import FakeDiscord
from fakes.exchanges import Garble, Scripts
from fakes.slack import FakeSlack
from fakes.telegram import FakeTelegram
from features.channels.discord import lab as discord_lab
from features.channels.lab import ME, channel, echo, forward, options_for, until
from features.channels.slack import slack_lab
from holdfast import events as e
from holdfast.chaos import ChaosServer
from holdfast.chaos.gates import Notifier
from holdfast.features.channels.deps import ChannelOptions
from holdfast.features.channels.events import (
    ChannelFailed,
)
from holdfast.features.channels.owner import OWNER_FAILED
from runner.steered_clock import SteeredClock, settle

TEXTS = [
    "<html>Bad Gateway</html>",
    "",
    "{}",
    "[]",
    '{"ok": true}',
    '{"ok": true, "result": 5}',
    '"x"',
    "null",
]


@dataclass(frozen=True, slots=True)
class Fake:
    """A fake platform, and which of its answers are needed before anything else."""

    server: AbstractAsyncContextManager[Any]
    scripts: Scripts
    changed: Notifier
    options: Callable[[], ChannelOptions]
    log_id: str
    first: tuple[str, ...]
    say: Callable[[], object]
    texts: Callable[[], list[str]]
    is_reachable: Callable[[], bool] = lambda: True


def _telegram() -> Fake:
    fake = FakeTelegram()
    return Fake(
        fake,
        fake.scripts,
        fake.world.changed,
        lambda: options_for(fake),
        "chn_tg",
        ("getMe", "getUpdates"),
        lambda: fake.world.say(ME, "hi"),
        lambda: fake.world.chat(ME).texts(),
    )


def _slack() -> Fake:
    fake = FakeSlack()
    return Fake(
        fake,
        fake.scripts,
        fake.world.changed,
        lambda: slack_lab.options_for(fake),
        slack_lab.LOG,
        ("auth.test", "apps.connections.open"),
        lambda: fake.world.say(slack_lab.MY, "hi"),
        lambda: fake.world.conversation(slack_lab.MY).texts(),
        lambda: bool(fake.sockets.open),
    )


def _discord() -> Fake:
    fake = FakeDiscord()
    return Fake(
        fake,
        fake.scripts,
        fake.world.changed,
        lambda: discord_lab.options_for(fake),
        discord_lab.LOG,
        ("getMe", "getGateway"),
        lambda: discord_lab.say(fake, "hi"),
        lambda: discord_lab.texts(fake),
        lambda: bool(fake.world.commands and fake.world.sessions.sockets and fake.world.sessions.known),
    )


@pytest.mark.parametrize("made", [_telegram, _slack, _discord], ids=["telegram", "slack", "discord"])
@pytest.mark.parametrize("at", [0, 1])
async def test_answers_that_cannot_be_read_are_trouble_that_passes_and_no_crash(
    made: Callable[[], Fake], at: int, caplog: pytest.LogCaptureFixture
) -> None:
    """P3, P14: whatever stands in front of the platform says, the channel is red and then works again."""
    fake, clock = made(), SteeredClock()
    async with fake.server, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        fake.scripts.add(fake.first[at], *([Garble(text)] for text in TEXTS))
        async with channel(world, fake.options(), clock=clock):
            await world.until(fake.log_id, ChannelFailed)
            while fake.scripts.attempts[fake.first[at].lower()]:
                await settle()
                clock.advance(60)
            await settle()
            clock.advance(60)
            await fake.changed.until(fake.is_reachable)
            fake.say()
            await fake.changed.until(lambda: "re: hi" in fake.texts())
        failed = [one.event for one in await world.log(fake.log_id) if isinstance(one.event, ChannelFailed)]
    assert all("Can't reach" in one.why for one in failed), failed
    assert OWNER_FAILED not in [one.why for one in failed]
    assert not [one for one in caplog.records if one.levelname == "ERROR"], "no owner began again"


async def test_a_listing_that_cannot_be_read_does_not_make_slack_send_twice() -> None:
    """P14: what may have arrived is looked for until Slack lists it."""
    clock = SteeredClock()
    listings = ['{"ok": true, "messages": 5}', '{"ok": true, "messages": [5]}']
    unreadable = [*(text or "{" for text in TEXTS), *listings]
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        slack.scripts.add_text("chat.postMessage: accept; reset")
        slack.scripts.add("conversations.history", *([Garble(text)] for text in unreadable))
        async with slack_lab.talking(world, slack, clock=clock):
            slack.world.say(slack_lab.MY, "hi")
            await world.until(slack_lab.LOG, e.DeliveryUnknown)
            confirmed = asyncio.create_task(world.until(slack_lab.LOG, e.DeliveryConfirmed))
            await forward(clock, confirmed.done)
        assert slack.world.conversation(slack_lab.MY).texts() == ["re: hi"]
        log = await world.log(slack_lab.LOG)
        assert sum(isinstance(one.event, e.DeliveryPostponed) for one in log) == len(unreadable)


async def test_a_listing_of_discord_that_cannot_be_read_is_no_reason_to_say_that_nothing_is_there() -> None:
    """P14: nobody can tell, so the repeat is marked."""
    async with FakeDiscord() as discord, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        discord.scripts.add_text("createMessage: accept; reset")
        discord.scripts.add("listMessages", [Garble('[{"id": 5}]')])
        async with discord_lab.channel(world, discord):
            discord_lab.say(discord, "hi")
            await world.until(discord_lab.LOG, e.DeliveryConfirmed)
        shown = discord_lab.texts(discord)
        assert shown[0] == "re: hi"
        assert all("may be a repeat" in one for one in shown[1:])


async def test_an_update_of_telegram_without_a_number_is_not_asked_for_at_full_speed() -> None:
    """P3: what can't be acknowledged would come again at once, for ever."""
    clock = SteeredClock()
    async with (
        FakeTelegram() as telegram,
        ChaosServer(choose=echo) as chaos,
        process(chaos) as world,
    ):
        telegram.scripts.add("getUpdates", [Garble('{"ok": true, "result": [{"message": {}}, 5]}')])
        async with channel(world, options_for(telegram), clock=clock):
            await world.until("chn_tg", ChannelFailed)
            await settle()
            clock.advance(60)
            telegram.world.say(ME, "hi")
            await until(telegram, lambda: telegram.world.chat(ME).texts() == ["re: hi"])
