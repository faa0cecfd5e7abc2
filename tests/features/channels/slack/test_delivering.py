"""What is said in Slack arrives once: a message whose answer was lost is found there by its key."""

import pytest

from agent.world import World, process
from fakes.slack import Accept, FakeSlack, ResetConnection, SlackError, SlackLimit
from features.channels.lab import channel, echo, last_user_text
from features.channels.slack.slack_lab import LOG, ME, MY, options_for, said, state_of, talking
from holdfast import events as e
from holdfast.chaos import ChaosServer, Say, Script, SeenRequest
from holdfast.features.channels.events import (
    ChannelConnected,
    ChannelFailed,
)
from holdfast.features.channels.texts import MARK
from ports import reserved_port
from runner.steered_clock import SteeredClock, settle

BOTH = frozenset({ME, "U43"})


async def passing(world: World, slack: FakeSlack, clock: SteeredClock, *texts: str) -> None:
    """Let time pass until the bot has said exactly this, and knows it."""
    conversation = slack.world.conversation(MY)
    while conversation.texts() != list(texts) or (await state_of(world)).outbox.queues:
        await settle(200)
        if clock.next_s is not None:
            clock.advance(clock.next_s)


@pytest.mark.parametrize("arrived", [True, False])
async def test_what_may_have_arrived_is_looked_for_and_never_said_twice(*, arrived: bool) -> None:
    """P14: no repeat and no mark, whether it arrived or not."""
    clock = SteeredClock()
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with talking(world, slack, clock=clock):
            steps = [Accept(), ResetConnection()] if arrived else [ResetConnection()]
            slack.scripts.add("chat.postMessage", steps)
            slack.scripts.add("conversations.history", [SlackLimit(7)], [ResetConnection()])
            slack.world.say(MY, "hi")
            await world.until(LOG, e.DeliveryUnknown)
            await passing(world, slack, clock, "re: hi")
            await world.until(LOG, e.DeliveryConfirmed)
        (delivery,) = (await state_of(world)).outbox.deliveries.values()
        assert (delivery.state, delivery.was_marked) == ("confirmed", False)
        assert delivery.platform_id in slack.world.conversation(MY).messages
        assert len(slack.world.done("chat.postMessage")) == 1


async def test_what_cannot_be_looked_for_is_marked() -> None:
    clock = SteeredClock()
    async with (
        FakeSlack() as slack,
        ChaosServer(choose=echo) as chaos,
        process(chaos) as world,
        talking(world, slack, clock=clock),
    ):
        slack.scripts.add("chat.postMessage", [Accept(), ResetConnection()])
        slack.scripts.add("conversations.history", [SlackError("missing_scope")])
        slack.world.say(MY, "hi")
        await world.until(LOG, e.DeliveryUnknown)
        await passing(world, slack, clock, "re: hi", f"{MARK}\nre: hi")


async def test_a_chat_at_its_limit_waits_alone_and_keeps_its_order() -> None:
    """P10: one noisy chat delays no other."""
    clock = SteeredClock()
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        slack.scripts.add(f"chat.postMessage@{MY}", [SlackLimit(30)])
        async with talking(world, slack, clock=clock, allow=BOTH):
            slack.world.say(MY, "first")
            await world.until(LOG, e.DeliveryPostponed)
            slack.world.say(MY, "second")
            slack.world.say("D43", "other")
            await said(slack, "re: other", chat="D43")
            assert slack.world.conversation(MY).texts() == []
            await passing(world, slack, clock, "re: first", "re: second")


@pytest.mark.parametrize("error", ["channel_not_found", "is_archived"])
async def test_a_chat_that_is_gone_ends_its_deliveries_until_someone_writes_there_again(error: str) -> None:
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with talking(world, slack):
            slack.scripts.add("chat.postMessage", [SlackError(error)])
            slack.world.say(MY, "hi")
            await world.until(LOG, e.DeliveryRejected)
            slack.world.say(MY, "back")
            await said(slack, "re: back")
        states = [one.state for one in (await state_of(world)).outbox.deliveries.values()]
        assert states == ["rejected", "confirmed"]


async def test_a_platform_that_is_away_is_red_and_everything_arrives_once_it_is_back() -> None:
    """P3, P14: a platform that is down takes nothing else down, and nothing waits without being seen."""
    clock = SteeredClock()
    async with ChaosServer(choose=echo) as chaos, process(chaos) as world:
        port = reserved_port()
        async with channel(world, options_for(FakeSlack(port=port)), clock=clock):
            await world.until(LOG, ChannelFailed)
            note = e.DeliveryIntended(at_ms=1, chat=MY, message="note", body="**hello**")
            await world.store.append(LOG, [note])
            await world.until(LOG, e.DeliveryPostponed)
            assert "can't connect" in (await state_of(world)).trouble
        async with FakeSlack(port=port) as slack, channel(world, options_for(slack), clock=clock):
            slack.world.conversation(MY)
            await passing(world, slack, clock, "hello")
            await world.until(LOG, ChannelConnected)


@pytest.mark.parametrize(("which", "hint"), [("token", "xoxb"), ("app_token", "xapp")])
async def test_a_wrong_token_is_said_with_what_to_do_and_never_shown(which: str, hint: str) -> None:
    """P11: the token is in no event."""
    async with FakeSlack() as slack, ChaosServer() as chaos, process(chaos) as world:
        wrong = options_for(slack, **{which: f"{hint}-wrong-token"})
        async with channel(world, wrong, clock=SteeredClock()):
            records = await world.until(LOG, ChannelFailed)
        failed = records[-1].event
        assert isinstance(failed, ChannelFailed)
        assert failed.why == "invalid_auth"
        assert hint in failed.hint
        assert not any(b"-token" in record.body for record in await world.log(LOG))


async def test_an_answer_whose_formatting_is_refused_arrives_as_plain_text() -> None:
    """P14: never silently not at all."""

    def formatted(request: SeenRequest) -> Script:
        return [Say(f"**re**: `a < b` {last_user_text(request)}")]

    async with FakeSlack() as slack, ChaosServer(choose=formatted) as chaos, process(chaos) as world:
        slack.scripts.add("chat.postMessage", [SlackError("invalid_blocks")])
        async with talking(world, slack):
            slack.world.say(MY, "hi & ho")
            await said(slack, "re: a < b hi & ho")
            (sent,) = slack.world.done("chat.postMessage")
            assert "blocks" not in sent.arguments


async def test_an_answer_whose_preview_was_deleted_comes_as_a_new_message() -> None:
    """P14: an edit that Slack refuses is said anew."""
    clock = SteeredClock()
    async with (
        FakeSlack() as slack,
        ChaosServer(choose=echo) as chaos,
        process(chaos) as world,
        talking(world, slack, clock=clock),
    ):
        preview = e.DeliveryIntended(at_ms=1, chat=MY, message="note", body="a preview")
        slack.world.conversation(MY)
        await world.store.append(LOG, [preview])
        await said(slack, "a preview")
        (ts,) = slack.world.conversation(MY).messages
        slack.world.delete(MY, ts)
        ending = e.DeliveryIntended(
            at_ms=1, chat=MY, message="ending", run="r", body="the end", edits=preview.key
        )
        await world.store.append(LOG, [ending])
        await said(slack, "the end")
        again = e.DeliveryIntended(
            at_ms=1, chat=MY, message="x.removed", run="r", edits=preview.key, removes=True
        )
        await world.store.append(LOG, [again])
        await world.until(LOG, e.DeliveryConfirmed, times=3)
