"""An action that is too long for one message is said above its card, or nobody can allow it in the chat."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import pytest

from agent.world import Effect, World, asks_about, process
from fakes.discord import FakeDiscord
from fakes.slack import FakeSlack
from fakes.telegram import FakeTelegram
from features.channels.discord import lab as discord_lab
from features.channels.lab import ME, acting, approval_of, channel, options_for, until
from features.channels.slack import slack_lab
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Script, SeenRequest
from holdfast.features.channels.approvals import DENIED
from holdfast.features.channels.cards import ALL_ABOVE, TOO_LONG
from holdfast.features.channels.events import (
    ChannelUpdateLogged,
)
from holdfast.runner.asks import Answered, ApprovalVerdict
from runner.steered_clock import SteeredClock, settle

LONG = {"text": "x" * 5_000 + " the end"}
ENDLESS = {"text": "x" * 60_000}


def at_length(request: SeenRequest) -> Script:
    return acting(request, dict(LONG))


def endlessly(request: SeenRequest) -> Script:
    return acting(request, dict(ENDLESS))


Choose: TypeAlias = Callable[[SeenRequest], Script]


@asynccontextmanager
async def acting_world(choose: Choose, done: list[str]) -> AsyncGenerator[World]:
    """A process whose model acts, and asks before it does."""
    async with (
        ChaosServer(choose=choose) as chaos,
        process(chaos, Effect("act", done), judge=asks_about("act")) as world,
    ):
        yield world


@asynccontextmanager
async def on_telegram(choose: Choose, done: list[str]) -> AsyncGenerator[tuple[FakeTelegram, World]]:
    """It talks on Telegram."""
    async with (
        FakeTelegram() as telegram,
        acting_world(choose, done) as world,
        channel(world, options_for(telegram)),
    ):
        yield telegram, world


@asynccontextmanager
async def on_slack(choose: Choose, done: list[str]) -> AsyncGenerator[tuple[FakeSlack, World]]:
    """It talks on Slack."""
    async with FakeSlack() as slack, acting_world(choose, done) as world, slack_lab.talking(world, slack):
        yield slack, world


@asynccontextmanager
async def on_discord(choose: Choose, done: list[str]) -> AsyncGenerator[tuple[FakeDiscord, World]]:
    """It talks on Discord."""
    async with (
        FakeDiscord() as discord,
        acting_world(choose, done) as world,
        discord_lab.channel(world, discord),
    ):
        yield discord, world


async def test_on_telegram_it_is_said_above_its_card_and_can_be_allowed() -> None:
    """P8: whoever allows it has all of it in the chat, to the last word."""
    done: list[str] = []
    async with on_telegram(at_length, done) as (telegram, world):
        texts = telegram.world.chat(ME).texts
        telegram.world.say(ME, "do it")
        approval_id = await approval_of(world, "chn_tg")
        await until(telegram, lambda: bool(telegram.world.buttons(ME)))
        *above, card = texts()
        assert above[0].startswith(approval_id)
        assert "".join(above).count("x") >= 5_000
        assert "the end" in above[-1]
        assert ALL_ABOVE.format(count=2) in card
        telegram.world.click(ME, *telegram.world.buttons(ME)["Allow once"])
        await until(telegram, lambda: "well" in texts())
    assert len(done) == 1


async def test_on_slack_it_is_said_above_its_card_and_can_be_allowed() -> None:
    """P8: whoever allows it has all of it in the chat, to the last word."""
    done: list[str] = []
    async with on_slack(at_length, done) as (slack, _):
        my = slack_lab.MY
        slack.world.say(my, "do it")
        await slack_lab.until(slack, lambda: bool(slack.world.buttons(my)))
        assert "the end" in "".join(slack.world.conversation(my).texts()[:-1])
        slack.world.click(my, *slack.world.buttons(my)["Allow once"])
        await slack_lab.until(slack, lambda: "well" in slack.world.conversation(my).texts())
    assert len(done) == 1


async def test_on_discord_it_is_said_above_its_card_and_can_be_allowed() -> None:
    """P8: whoever allows it has all of it in the chat, to the last word."""
    done: list[str] = []
    async with on_discord(at_length, done) as (discord, _):
        chat = discord.world.direct(discord_lab.ME)
        discord_lab.say(discord, "do it")
        await discord_lab.until(discord, lambda: bool(discord.world.buttons(chat)))
        assert "the end" in "".join(chat.texts()[:-1])
        discord.world.click(chat, *discord.world.buttons(chat)["Allow once"])
        await discord_lab.until(discord, lambda: "well" in chat.texts())
    assert len(done) == 1


async def test_a_long_question_is_said_above_its_buttons() -> None:
    """P8: whoever answers has read all of the question, and can press a choice."""

    def choose(request: SeenRequest) -> Script:
        script = acting(request, {})
        question = {"text": f"{'why ' * 1_500} at the end?", "choices": ["red", "blue"]}
        return [CallTool("ask_user", question)] if isinstance(script[0], CallTool) else script

    async with (
        FakeTelegram() as telegram,
        ChaosServer(choose=choose) as chaos,
        process(chaos) as world,
        channel(world, options_for(telegram)),
    ):
        texts = telegram.world.chat(ME).texts
        telegram.world.say(ME, "do it")
        await until(telegram, lambda: bool(telegram.world.buttons(ME)))
        *above, _ = texts()
        assert "at the end?" in above[-1]
        telegram.world.click(ME, *telegram.world.buttons(ME)["blue"])
        await until(telegram, lambda: "well" in texts())


async def test_if_a_message_above_its_card_is_missing_it_can_only_be_denied() -> None:
    """P8: what Telegram refuses, formatted and plain, nobody there has seen."""
    done: list[str] = []
    async with on_telegram(at_length, done) as (telegram, world):
        refused = 'refuse text="Bad Request: no" code=400'
        telegram.scripts.add_text(f"sendMessage: accept | {refused} | {refused}")
        telegram.world.say(ME, "do it")
        approval_id = await approval_of(world, "chn_tg")
        await until(telegram, lambda: bool(telegram.world.buttons(ME)))
        assert list(telegram.world.buttons(ME)) == ["Deny"]
        message_id, data = telegram.world.buttons(ME)["Deny"]
        telegram.world.click(ME, message_id, data.replace("deny", "once"))
        await until(telegram, lambda: len(telegram.world.done("answerCallbackQuery")) == 1)
        telegram.world.say(ME, f"/approve {approval_id}")
        await until(telegram, lambda: TOO_LONG in telegram.world.chat(ME).texts())
    assert not done


async def test_a_decision_on_the_page_ends_what_was_still_to_be_said() -> None:
    """P14: nobody is told at length about what is decided."""
    done: list[str] = []
    async with on_telegram(at_length, done) as (telegram, world):
        telegram.scripts.add_text("sendMessage: accept | retry-after 1")
        telegram.world.say(ME, "do it")
        approval_id = await approval_of(world, "chn_tg")
        await world.until("chn_tg", e.DeliveryPostponed)
        row = await world.store.ask(approval_id)
        assert row is not None
        denied = ApprovalVerdict("deny")
        assert await world.inbox.answer(approval_id, denied) == Answered(approval_id)
        await until(telegram, lambda: "well" in telegram.world.chat(ME).texts())
        assert "the end" not in "".join(telegram.world.chat(ME).texts())
    assert not done


async def test_on_telegram_what_no_chat_can_show_can_only_be_denied() -> None:
    """P8: nobody allows what they can't see."""
    done: list[str] = []
    async with on_telegram(endlessly, done) as (telegram, world):
        texts = telegram.world.chat(ME).texts
        telegram.world.say(ME, "do it")
        approval_id = await approval_of(world, "chn_tg")
        await until(telegram, lambda: bool(telegram.world.buttons(ME)))
        assert list(telegram.world.buttons(ME)) == ["Deny"]
        message_id, data = telegram.world.buttons(ME)["Deny"]
        telegram.world.click(ME, message_id, data.replace("deny", "always"))
        await until(telegram, lambda: len(telegram.world.done("answerCallbackQuery")) == 1)
        assert telegram.world.done("answerCallbackQuery")[0].parameters["text"] == TOO_LONG
        for number, command in enumerate(("/approve", f"/approve {approval_id}"), 2):
            telegram.world.say(ME, command)
            await until(telegram, lambda number=number: len(texts()) == number)
        assert texts()[1:] == [TOO_LONG, TOO_LONG]
        telegram.world.say(ME, f"/deny {approval_id}")
        await until(telegram, lambda: DENIED in texts())
    assert not done


async def test_on_slack_what_no_chat_can_show_can_only_be_denied() -> None:
    """P8: nobody allows what they can't see."""
    done: list[str] = []
    async with on_slack(endlessly, done) as (slack, world):
        my = slack_lab.MY
        slack.world.say(my, "do it")
        approval_id = await approval_of(world, slack_lab.LOG)
        await slack_lab.until(slack, lambda: bool(slack.world.buttons(my)))
        assert list(slack.world.buttons(my)) == ["Deny"]
        slack.world.say(my, f"!approve {approval_id}")
        await slack_lab.until(slack, lambda: TOO_LONG in slack.world.conversation(my).texts())
        slack.world.click(my, *slack.world.buttons(my)["Deny"])
        await slack_lab.until(slack, lambda: "well" in slack.world.conversation(my).texts())
    assert not done


async def test_on_discord_what_no_chat_can_show_can_only_be_denied() -> None:
    """P8: nobody allows what they can't see."""
    done: list[str] = []
    async with on_discord(endlessly, done) as (discord, world):
        chat = discord.world.direct(discord_lab.ME)
        discord_lab.say(discord, "do it")
        approval_id = await approval_of(world, discord_lab.LOG)
        await discord_lab.until(discord, lambda: bool(discord.world.buttons(chat)))
        assert list(discord.world.buttons(chat)) == ["Deny"]
        discord_lab.say(discord, f"/approve {approval_id}")
        await discord_lab.until(discord, lambda: TOO_LONG in chat.texts())
        discord.world.click(chat, *discord.world.buttons(chat)["Deny"])
        await discord_lab.until(discord, lambda: "well" in chat.texts())
    assert not done


@pytest.mark.parametrize("asker", [ME, 43], ids=["its own chat", "the approver's chat"])
async def test_an_action_whose_card_may_be_missing_is_shown_before_it_can_be_allowed(asker: int) -> None:
    """P8: /approve without an id is no consent to something unseen."""
    done: list[str] = []
    clock = SteeredClock()
    async with FakeTelegram() as telegram, ChaosServer(choose=lambda request: acting(request, {})) as chaos:
        working = process(chaos, Effect("act", done), judge=asks_about("act"), clock=clock)
        options = options_for(telegram, allow=frozenset({"42", "43"}))
        async with working as world, channel(world, options, clock=clock):
            telegram.scripts.add_text(f"sendMessage@{asker}: reset")
            telegram.world.say(asker, "do it")
            approval_id = await approval_of(world, "chn_tg")
            await world.until("chn_tg", e.DeliveryUnknown)
            telegram.world.say(ME, "/approve")
            await world.until("chn_tg", ChannelUpdateLogged, times=2)
            await settle()
            clock.advance(1)
            listed = f"{approval_id}:\n\nact {{}}"
            await until(telegram, lambda: any(listed in one for one in telegram.world.chat(ME).texts()))
            assert not done
            telegram.world.say(ME, f"/approve {approval_id}")
            await until(telegram, lambda: "well" in telegram.world.chat(asker).texts())
    assert done == ["act {}"]
