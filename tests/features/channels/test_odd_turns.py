"""Turns that a talk can take: files as answers, other bots, deleted sessions, results nobody asked for."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from msgspec.structs import replace

from agent.world import World, process
from fakes.discord import FakeDiscord
from fakes.telegram import FakeTelegram
from features.channels.discord import lab as discord_lab
from features.channels.lab import LOG, ME, acts, channel, echo, options_for, state_of, until
from features.channels.samples import DIALECT, channel_of, session_of
from holdfast import events as e
from holdfast.chaos import ChaosServer, Script, SeenRequest
from holdfast.features.channels.chat_commands import GONE
from holdfast.features.channels.deliveries import pending_events
from holdfast.features.channels.events import (
    ChannelConnected,
    ChannelResultRequested,
)
from holdfast.features.channels.state import ChannelState, apply_to_channel
from holdfast.features.channels.texts import DELETED, EDIT_OF_OTHER
from holdfast.folds.session_fold import SessionFold
from holdfast.interfaces.journal import IfSessionKnown
from holdfast.runner.inbox import IncomingMessage, Sent
from holdfast.values import FilePart


@asynccontextmanager
async def chatting(choose: Callable[[SeenRequest], Script]) -> AsyncGenerator[tuple[FakeTelegram, World]]:
    """A bot, and a process that answers there."""
    async with (
        FakeTelegram() as telegram,
        ChaosServer(choose=choose) as chaos,
        process(chaos) as world,
        channel(world, options_for(telegram)),
    ):
        yield telegram, world


async def test_a_file_that_answers_a_question_is_kept_with_its_caption() -> None:
    """P2: what was accepted is kept: the caption answers, and the run reads the file."""
    async with chatting(acts) as (telegram, world):
        telegram.world.say(ME, "a colour")
        await until(telegram, lambda: bool(telegram.world.buttons(ME)))
        telegram.world.send_file(ME, b"#ff0000", name="red.txt", caption="this one")
        await until(telegram, lambda: "result: this one" in telegram.world.chat(ME).texts())
        (session_id,) = (await state_of(world)).chats
        accepted = [one.event for one in await world.log(session_id)]
        parts = [one.parts for one in accepted if isinstance(one, e.MessageAccepted) and one.parts]
        assert [part.name for (part,) in parts if isinstance(part, FilePart)] == ["red.txt"]


async def test_a_file_alone_answers_a_question() -> None:
    """P3: nobody waits for words that nobody knows are missing."""
    async with chatting(acts) as (telegram, _):
        telegram.world.say(ME, "a colour")
        await until(telegram, lambda: bool(telegram.world.buttons(ME)))
        telegram.world.send_file(ME, b"#ff0000", name="red.txt")
        await until(telegram, lambda: "result: (sent red.txt)" in telegram.world.chat(ME).texts())


async def test_another_bot_counts_its_messages_for_itself() -> None:
    """P2: a message is a repeat only if it is the same one, of the same bot."""
    async with ChaosServer(choose=echo) as chaos, process(chaos) as world:
        for name in ("one", "two"):
            telegram = FakeTelegram()
            telegram.world.bot["username"] = f"{name}_bot"
            async with telegram, channel(world, options_for(telegram)):
                texts = telegram.world.chat(ME).texts
                telegram.world.say(ME, f"hi, {name}")
                await until(telegram, lambda texts=texts: bool(texts()))
                telegram.world.say(ME, "/queue")
                await until(telegram, lambda texts=texts: len(texts()) == 2)
            assert texts() == [f"re: hi, {name}", "The queue is empty."]


async def test_a_bot_that_is_renamed_on_discord_takes_nothing_twice() -> None:
    """P2: its messages have the same ids as before, and the history is read again after a pause."""
    async with FakeDiscord() as discord, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with discord_lab.channel(world, discord):
            discord_lab.say(discord, "one")
            await discord_lab.said(discord, "re: one")
        discord.world.bot["username"] = "renamed"
        discord.world.sessions.forget()
        async with discord_lab.channel(world, discord):
            discord_lab.say(discord, "two")
            await discord_lab.said(discord, "re: one", "re: two")
        assert chaos.seen.requests_seen == 2


async def test_the_question_of_a_trigger_is_answered_by_what_is_written_next() -> None:
    """P8: the card says so."""
    async with chatting(acts) as (telegram, world):
        await world.until(LOG, ChannelConnected)
        sent = await world.inbox.send("ses_t", IncomingMessage(text="a colour"))
        assert isinstance(sent, Sent)
        wanted = ChannelResultRequested(
            at_ms=1, chat=str(ME), session_id="ses_t", message_id=sent.message_id, title="news"
        )
        await world.store.append(LOG, [wanted], when=[IfSessionKnown()])
        await until(telegram, lambda: bool(telegram.world.buttons(ME)))
        telegram.world.say(ME, "green")
        await until(telegram, lambda: len(telegram.world.chat(ME).texts()) == 2)
        assert telegram.world.chat(ME).texts()[1] == "From news:\n\nresult: green"


async def test_of_two_questions_the_newest_is_answered_first() -> None:
    """P3: whatever is written is an answer to one of them, and then to the other."""
    async with chatting(acts) as (telegram, world):
        texts = telegram.world.chat(ME).texts
        telegram.world.say(ME, "a colour")
        await until(telegram, lambda: len(texts()) == 1)
        sent = await world.inbox.send("ses_t", IncomingMessage(text="a colour"))
        assert isinstance(sent, Sent)
        wanted = ChannelResultRequested(
            at_ms=1, chat=str(ME), session_id="ses_t", message_id=sent.message_id, title="news"
        )
        await world.store.append(LOG, [wanted], when=[IfSessionKnown()])
        await until(telegram, lambda: len(texts()) == 2)
        telegram.world.say(ME, "green")
        await until(telegram, lambda: "From news:\n\nresult: green" in texts())
        telegram.world.say(ME, "red")
        await until(telegram, lambda: "result: red" in texts())


def test_a_failed_trigger_does_not_tell_people_to_retry_something_else() -> None:
    """P9: a failure says what to do, and that is right."""
    failed = session_of("", "failed")
    state = ChannelState()
    apply_to_channel(
        state, 1, ChannelResultRequested(at_ms=1, chat="1", session_id="s", message_id="m", title="news")
    )
    for channel_state, has_retry in ((channel_of(), True), (state, False)):
        (said, *_) = pending_events(channel_state, "s", failed, text_format=DIALECT, now_ms=9)
        assert isinstance(said, e.DeliveryIntended)
        assert ("retry" in said.body) is has_retry


def test_what_waits_in_a_session_that_is_deleted_is_said_to_be_gone_once() -> None:
    """P14: nothing is dropped in silence."""
    session, state = SessionFold(), channel_of()
    state.awaited["m2"] = replace(state.awaited["m"], message_id="m2")
    log: list[e.Event] = [
        e.SessionCreated(at_ms=1, epoch="e"),
        e.MessageAccepted(at_ms=1, message_id="m", text="hi", mode="queue"),
        e.MessageAccepted(at_ms=1, message_id="m2", text="more", mode="queue"),
        e.SessionDeleted(at_ms=2, purge_at_ms=9),
    ]
    for seq, event in enumerate(log, 1):
        session.apply(seq, event)
    found = pending_events(state, "s", session, text_format=DIALECT, now_ms=9)
    for seq, event in enumerate(found, 10):
        apply_to_channel(state, seq, event)
    assert [one.intended.body for one in state.outbox.deliveries.values()] == [DELETED]
    assert not state.awaited


async def test_a_retry_in_a_deleted_session_says_so() -> None:
    """P9: it isn't still working."""
    async with chatting(echo) as (telegram, world):
        texts = telegram.world.chat(ME).texts
        telegram.world.say(ME, "work")
        await until(telegram, lambda: texts() == ["re: work"])
        (session_id,) = (await state_of(world)).chats
        deleted = e.SessionDeleted(at_ms=9, purge_at_ms=2**52)
        await world.store.append(session_id, [deleted], when=[IfSessionKnown()])
        telegram.world.say(ME, "/retry")
        await until(telegram, lambda: texts()[1:] == [GONE])


async def test_an_edit_of_what_was_no_message_is_ignored_visibly() -> None:
    """P9: of a command, or of an answer to a question."""
    async with chatting(acts) as (telegram, _):
        texts = telegram.world.chat(ME).texts
        command = telegram.world.say(ME, "/queue")
        await until(telegram, lambda: len(texts()) == 1)
        telegram.world.edit(ME, command["message_id"], "/status")
        await until(telegram, lambda: texts().count(EDIT_OF_OTHER) == 1)
        telegram.world.say(ME, "a colour")
        await until(telegram, lambda: bool(telegram.world.buttons(ME)))
        answer = telegram.world.say(ME, "green")
        await until(telegram, lambda: "result: green" in texts())
        telegram.world.edit(ME, answer["message_id"], "blue")
        await until(telegram, lambda: texts().count(EDIT_OF_OTHER) == 2)
