"""What no platform should send, and what any platform may: nothing of it takes a channel down."""

from agent.world import process
from channels import lab as telegram_lab
from channels.discord import lab as discord_lab
from channels.slack import slack_lab
from holdfast.channels.incoming import ButtonPress, ChatFile, PlatformMessage
from holdfast.chaos import ChaosServer
from holdfast.chaos.discord import FakeDiscord
from holdfast.chaos.slack import FakeSlack
from holdfast.chaos.telegram import FakeTelegram

HALF = "a\ud800b"  # half of a character, which JSON can escape and UTF-8 can't hold
CLEAN = "a\ufffdb"


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
        ChaosServer(choose=slack_lab.echo) as chaos,
        process(chaos) as world,
    ):
        telegram.world.say(99, HALF)
        telegram.world.say(telegram_lab.ME, HALF)
        async with telegram_lab.channel(world, telegram_lab.options_for(telegram)):
            await telegram_lab.said(telegram, f"re: {CLEAN}")


async def test_half_a_character_in_slack_is_replaced_and_takes_nobody_down() -> None:
    """P14: what a stranger sends doesn't keep others from being answered."""
    async with FakeSlack() as slack, ChaosServer(choose=slack_lab.echo) as chaos, process(chaos) as world:
        async with slack_lab.talking(world, slack):
            slack.world.say("D99", HALF)
            slack.world.say(slack_lab.MY, HALF)
            await slack_lab.said(slack, f"re: {CLEAN}")


async def test_half_a_character_in_discord_is_replaced_and_takes_nobody_down() -> None:
    """P14: what a stranger sends doesn't keep others from being answered."""
    async with FakeDiscord() as discord, ChaosServer(choose=slack_lab.echo) as chaos, process(chaos) as world:
        async with discord_lab.channel(world, discord):
            discord_lab.say(discord, HALF, 99)
            discord_lab.say(discord, HALF)
            await discord_lab.said(discord, f"re: {CLEAN}")
