"""What a chat asked for before /new: it is not forgotten, and it can be stopped and decided."""

from agent.world import Effect, asks_about, process
from fakes.telegram import FakeTelegram
from features.channels.lab import ME, acting, approval_of, channel, options_for, until
from holdfast.chaos import ChaosServer, Hang, Say
from holdfast.features.channels.approvals import ALLOWED
from holdfast.features.channels.chat_commands import EARLIER, NEW, STILL_AT_WORK
from holdfast.features.channels.events import (
    ChannelMessageClosed,
)


async def test_stop_stops_what_an_earlier_conversation_of_the_chat_still_does() -> None:
    """P5: stop means stopped, also after /new."""
    async with (
        FakeTelegram() as telegram,
        ChaosServer([Say("so "), Hang()]) as chaos,
        process(chaos) as world,
    ):
        async with channel(world, options_for(telegram)):
            texts = telegram.world.chat(ME).texts
            telegram.world.say(ME, "work")
            await chaos.seen.until_request(1)
            for number, command in enumerate(("/new", "/status", "/stop"), 1):
                telegram.world.say(ME, command)
                await until(telegram, lambda number=number: len(texts()) >= number)
            await until(telegram, lambda: any("Stopped." in one for one in texts()))
            telegram.world.say(ME, "/status")
            await until(telegram, lambda: "Nothing is running." in texts())
        assert texts()[0] == f"{NEW} {STILL_AT_WORK}"
        assert texts()[1] == EARLIER


async def test_a_card_of_an_earlier_conversation_is_decided_by_command() -> None:
    """P8: /approve means the one card that is in the chat."""
    done: list[str] = []
    async with FakeTelegram() as telegram, ChaosServer(choose=lambda one: acting(one, {})) as chaos:
        working = process(chaos, Effect("act", done), judge=asks_about("act"))
        async with working as world, channel(world, options_for(telegram)):
            telegram.world.say(ME, "do it")
            await approval_of(world, "chn_tg")
            await until(telegram, lambda: bool(telegram.world.buttons(ME)))
            telegram.world.say(ME, "/new")
            telegram.world.say(ME, "/approve")
            await until(telegram, lambda: "well" in telegram.world.chat(ME).texts())
            assert ALLOWED in telegram.world.chat(ME).texts()
            await world.until("chn_tg", ChannelMessageClosed)
    assert done == ["act {}"]


async def test_an_approver_elsewhere_is_shown_an_action_before_they_can_allow_it() -> None:
    """P8: an id alone is no consent; the first /approve ID shows what it is, the next one allows it."""
    done: list[str] = []
    async with FakeTelegram() as telegram, ChaosServer(choose=lambda one: acting(one, {})) as chaos:
        working = process(chaos, Effect("act", done), judge=asks_about("act"))
        options = options_for(telegram, allow=frozenset({str(ME), "43"}))
        async with working as world, channel(world, options):
            telegram.world.say(43, "do it")
            approval_id = await approval_of(world, "chn_tg")
            mine = telegram.world.chat(ME).texts
            telegram.world.say(ME, f"/approve {approval_id}")
            await until(telegram, lambda: len(mine()) == 1)
            assert "act {}" in mine()[0]
            assert not done
            telegram.world.say(ME, f"/approve {approval_id}")
            await until(telegram, lambda: ALLOWED in mine())
            await until(telegram, lambda: "well" in telegram.world.chat(43).texts())
    assert done == ["act {}"]
