"""A hundred conversations of which one is at its limit, history that isn't given, and long messages."""

from agent.world import World, process
from fakes.slack import FakeSlack, SlackError, SlackLimit
from features.channels.lab import channel, echo
from features.channels.slack.slack_lab import (
    LOG,
    MY,
    Talking,
    in_both_forms,
    options_for,
    said,
    state_of,
    talking,
    until,
)
from holdfast import events as e
from holdfast.chaos import ChaosServer
from holdfast.features.channels.events import (
    ChannelConnected,
    ChannelFailed,
    ChannelUpdateLogged,
)
from holdfast.features.channels.intake import TEXT_CHARS_MAX
from holdfast.features.channels.texts import TEXT_TOO_LONG
from runner.steered_clock import SteeredClock, settle

TOO_LONG = TEXT_TOO_LONG.format(chars=TEXT_CHARS_MAX)


async def test_a_hundred_conversations_have_their_answers_while_one_is_at_its_limit() -> None:
    """P10: the one that waits for an hour holds up nobody, and keeps its own order."""
    clock, people = SteeredClock(), range(1_000, 1_100)
    limited = f"D{people[0]}"
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        slack.scripts.add(f"chat.postMessage@{limited}", [SlackLimit(3_600)])
        allowed = frozenset(f"U{one}" for one in people)
        async with talking(world, slack, clock=clock, allow=allowed):
            slack.world.say(limited, "first")
            await world.until(LOG, e.DeliveryPostponed)
            slack.world.say(limited, "second")
            for one in people[1:]:
                slack.world.say(f"D{one}", f"hello from {one}")
            for one in people[1:]:
                await said(slack, f"re: hello from {one}", chat=f"D{one}")
            assert slack.world.conversation(limited).texts() == []
            await settle()
            clock.advance(3_600)
            await said(slack, "re: first", "re: second", chat=limited)


async def missed_of(world: World) -> str:
    """What may be lost, as soon as the log says so."""
    async for records in world.store.follow(LOG):
        for record in records:
            if isinstance(record.event, ChannelConnected) and record.event.missed:
                return record.event.missed
    raise AssertionError("the log ends")


@in_both_forms
async def test_history_that_slack_does_not_give_is_said_to_be_missed(talking: Talking) -> None:
    """P14: what may be lost is in the log, in words."""
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with talking(world, slack):
            slack.world.say(MY, "one")
            await said(slack, "re: one")
        slack.scripts.add("conversations.history", [SlackError("missing_scope")])
        async with talking(world, slack):
            missed = await missed_of(world)
        assert missed == f"messages in 1 conversations ({MY}) that Slack didn't list: missing_scope"


async def test_a_message_of_ten_megabytes_is_refused_aloud() -> None:
    """P12: it is on the log what became of it, its sender is told, and the next one is answered."""
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with talking(world, slack):
            slack.world.say(MY, "x" * 10_000_000)
            await said(slack, TOO_LONG)
            slack.world.say(MY, "two")
            await said(slack, TOO_LONG, "re: two")
            sent = slack.world.say(MY, "x" * TEXT_CHARS_MAX)
            await until(slack, lambda: len(slack.world.conversation(MY).texts()) > 2)
        taken = [one.event for one in await world.log(LOG) if isinstance(one.event, ChannelUpdateLogged)]
        assert [(one.became, one.why) for one in taken] == [
            ("ignored", "too long"),
            ("message", ""),
            ("message", ""),
        ]
        assert taken[-1].platform_id == sent["ts"]


async def test_swapped_tokens_are_said_to_be_swapped_before_anything_is_asked() -> None:
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        swapped = options_for(slack, token=slack.app_token, app_token=slack.token)
        async with channel(world, swapped):
            await world.until(LOG, ChannelFailed)
        state = await state_of(world)
        assert state.trouble == "The two tokens are swapped"
        assert "xoxb-" in state.hint
        assert not slack.world.calls
