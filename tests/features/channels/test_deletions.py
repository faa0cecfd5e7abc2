"""Someone deletes a message in the chat: one that waits is taken out of the queue, and the chat says so."""

from agent.world import World, process
from fakes.discord import FakeDiscord
from fakes.slack import FakeSlack
from features.channels.discord import lab as discord_lab
from features.channels.lab import last_user_text
from features.channels.slack import slack_lab
from holdfast.chaos import ChaosServer, Gate, Say, Script, SeenRequest, Wait
from holdfast.features.channels.discord.updates import read_deletions
from holdfast.features.channels.events import (
    ChannelChatBound,
    ChannelMessageClosed,
    ChannelUpdateLogged,
)
from holdfast.features.channels.slack.events import SlackInstallation, read_envelope
from holdfast.features.channels.texts import TAKEN_OUT, TOO_LATE_TO_DELETE, with_lead


def holding(gate: Gate) -> ChaosServer:
    """A model that waits at the gate, and answers at once when it is open."""

    def script(request: SeenRequest) -> Script:
        return [Say(f"re: {last_user_text(request)}")] if gate.is_open else [Say("x"), Wait(gate)]

    return ChaosServer(choose=script)


async def accepted(world: World, log_id: str) -> list[str]:
    """What the model was to be told, in the only session of the channel."""
    bound = [one.event for one in await world.log(log_id) if isinstance(one.event, ChannelChatBound)]
    (session_id,) = [one.session_id for one in bound]
    view = await world.supervisor.view(session_id)
    return [run.message_id for run in view.session.runs.values()]


@slack_lab.in_both_forms
async def test_a_message_that_is_deleted_in_slack_while_it_waits_is_never_answered(
    talking: slack_lab.Talking,
) -> None:
    """P14: it is on the log what became of it, and the chat is told."""
    gate = Gate()
    async with FakeSlack() as slack, holding(gate) as chaos, process(chaos) as world:
        async with talking(world, slack):
            first = slack.world.say(slack_lab.MY, "work")
            await gate.reached()
            second = slack.world.say(slack_lab.MY, "and hurry")
            await world.until(slack_lab.LOG, ChannelUpdateLogged, times=2)
            slack.world.delete(slack_lab.MY, second["ts"])
            texts = slack.world.conversation(slack_lab.MY).texts
            await slack_lab.until(slack, lambda: TAKEN_OUT in texts())
            slack.world.delete(slack_lab.MY, first["ts"])
            await slack_lab.until(slack, lambda: with_lead(TOO_LATE_TO_DELETE, "!") in texts())
            gate.open()
            await world.until(slack_lab.LOG, ChannelMessageClosed, times=2)
            slack.world.say(slack_lab.MY, "last")
            await slack_lab.until(slack, lambda: "re: last" in texts())
        assert len(await accepted(world, slack_lab.LOG)) == 2, "the deleted one had no run"
        assert "hurry" not in "".join(str(one.body) for one in chaos.seen.requests)


async def test_a_message_that_is_deleted_in_discord_while_it_waits_is_never_answered() -> None:
    """P14: it is on the log what became of it, and the chat is told."""
    gate = Gate()
    async with FakeDiscord() as discord, holding(gate) as chaos, process(chaos) as world:
        chat = discord.world.direct(discord_lab.ME)
        async with discord_lab.channel(world, discord):
            first = discord_lab.say(discord, "work")
            await gate.reached()
            second = discord_lab.say(discord, "and hurry")
            await world.until(discord_lab.LOG, ChannelUpdateLogged, times=2)
            discord.world.delete(chat, str(second["id"]))
            await discord_lab.until(discord, lambda: TAKEN_OUT in chat.texts())
            discord.world.delete(chat, str(first["id"]))
            await discord_lab.until(discord, lambda: TOO_LATE_TO_DELETE in chat.texts())
            gate.open()
            await world.until(discord_lab.LOG, ChannelMessageClosed, times=2)
            last = discord_lab.say(discord, "last")
            await discord_lab.until(discord, lambda: "re: last" in chat.texts())
            said = chat.texts()
            discord.world.delete(chat, str(last["id"]))  # of what is long answered, nobody needs to be told
            await world.until(discord_lab.LOG, ChannelUpdateLogged, times=6)
            assert chat.texts() == said
        assert len(await accepted(world, discord_lab.LOG)) == 2, "the deleted one had no run"
        assert "hurry" not in "".join(str(one.body) for one in chaos.seen.requests)


def test_deletions_are_read_with_the_chat_that_the_message_was_in() -> None:
    """In a channel, a message is the beginning of a thread, which is a conversation of its own."""

    def slack(**event: object) -> tuple[str, str] | None:
        message = {"type": "message", "subtype": "message_deleted", **event}
        us = SlackInstallation("B", "T")
        found = read_envelope("events_api", {"event": message, "team_id": "T"}, us=us)
        return (found.chat, found.platform_id) if found is not None else None

    assert slack(channel="D1", deleted_ts="5.1") == ("D1", "5.1")
    assert slack(channel="C1", deleted_ts="5.1") == ("C1/5.1", "5.1")
    before = {"ts": "5.1", "thread_ts": "4.1", "user": "U1"}
    assert slack(channel="C1", deleted_ts="5.1", previous_message=before) == ("C1/4.1", "5.1")
    assert slack(channel="C1") is None
    assert slack(deleted_ts="5.1") is None
    several = read_deletions({"ids": ["1", "x", "2"], "channel_id": "7"})
    assert [(one.chat, one.platform_id, one.key) for one in several] == [("7", "1", "d:1"), ("7", "2", "d:2")]
    assert read_deletions({"id": 5}) == []
