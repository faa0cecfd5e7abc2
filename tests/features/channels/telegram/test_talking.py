"""People talk to the agent in Telegram: one run for each message, one reply for each run."""

from agent.world import process
from fakes.telegram import Double, FakeTelegram, Reverse
from features.channels.lab import LOG, ME, channel, last_user_text, options_for, said, state_of, until
from holdfast import events as e
from holdfast.chaos import ChaosServer, Drop, Gate, Hang, Say, Script, SeenRequest, Wait, bad_key
from holdfast.features.channels.events import (
    ChannelUpdateLogged,
)
from holdfast.features.channels.texts import TOO_LATE_TO_EDIT
from holdfast.runner.inbox import IncomingMessage, Sent
from holdfast.runner.supervisor import RunnerLimits
from holdfast.values import FilePart, ImagePart

GROUP = -5


def echo(request: SeenRequest) -> Script:
    return [Say(f"you said **{last_user_text(request)}**")]


async def test_a_message_is_answered_and_the_next_one_belongs_to_the_same_conversation() -> None:
    async with FakeTelegram() as telegram, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with channel(world, options_for(telegram)):
            telegram.world.say(ME, "hello <b>")
            await said(telegram, "you said hello <b>")
            telegram.world.say(ME, "again")
            await said(telegram, "you said hello <b>", "you said again")
            telegram.world.say(ME, "/new")
            await said(telegram, "you said hello <b>", "you said again", "Started a new conversation.")
            telegram.world.say(ME, "third")
            await until(telegram, lambda: len(telegram.world.chat(ME).texts()) == 4)
        state = await state_of(world)
        assert state.account == "holdfast_bot"
        assert not state.awaited
        sessions = [len((await world.supervisor.view(one)).session.runs) for one in state.chats]
        assert sessions == [2, 1]
        assert [one["command"] for one in telegram.world.commands][:2] == ["new", "stop"]


async def test_updates_that_come_twice_or_in_another_order_are_each_one_message() -> None:
    """P14: the same update again becomes nothing."""
    async with FakeTelegram() as telegram, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        for number in range(3):
            telegram.world.say(100 + number, str(number))
            telegram.world.say(100 + number, f"{number} again")
        telegram.scripts.add("getUpdates", [Double()], [Reverse()])
        allow = frozenset({"100", "101", "102"})
        async with channel(world, options_for(telegram, allow=allow)):
            await until(
                telegram,
                lambda: all(
                    any("again" in text for text in telegram.world.chat(100 + number).texts())
                    for number in range(3)
                ),
            )
        found = [record.event for record in await world.log(LOG)]
        taken = [event.key for event in found if isinstance(event, ChannelUpdateLogged)]
        assert sorted(taken) == [f"m:{100 + number}:{at}" for number in range(3) for at in (1, 2)]


async def test_in_a_group_only_what_mentions_the_bot_is_for_it_and_a_topic_is_a_conversation() -> None:
    async with FakeTelegram() as telegram, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with channel(world, options_for(telegram)):
            telegram.world.say(GROUP, "just talking", user_id=ME)
            telegram.world.say(GROUP, "@holdfast_bot what is up", user_id=ME)
            telegram.world.say(GROUP, "@holdfast_bot and here", user_id=ME, thread=7)
            await until(telegram, lambda: len(telegram.world.chat(GROUP).texts()) == 2)
        texts = sorted(telegram.world.chat(GROUP).texts())
        assert texts == ["you said User 42: and here", "you said User 42: what is up"]
        state = await state_of(world)
        assert set(state.sessions) == {"-5", "-5/7"}


async def test_while_the_agent_works_a_message_steers_it_and_one_that_waits_can_be_edited() -> None:
    gate = Gate()

    def script(request: SeenRequest) -> Script:
        return [Say("done: " + last_user_text(request))] if gate.is_open else [Say("x"), Wait(gate)]

    async with FakeTelegram() as telegram, ChaosServer(choose=script) as chaos, process(chaos) as world:
        async with channel(world, options_for(telegram)):
            first = telegram.world.say(ME, "work")
            await gate.reached()
            second = telegram.world.say(ME, "and hurry")
            telegram.world.edit(ME, second["message_id"], "and take your time")
            telegram.world.edit(ME, first["message_id"], "too late")
            await said(telegram, TOO_LATE_TO_EDIT)
            gate.open()
            await until(telegram, lambda: len(telegram.world.chat(ME).texts()) == 2)
        assert telegram.world.chat(ME).texts()[-1].endswith("done: and take your time")
        state = await state_of(world)
        assert not state.awaited


async def test_an_edited_message_keeps_its_file() -> None:
    gate = Gate()

    def script(_: SeenRequest) -> Script:
        return [Say("ok")] if gate.is_open else [Say("x"), Wait(gate)]

    async with (
        FakeTelegram() as telegram,
        ChaosServer(choose=script) as chaos,
        process(chaos) as world,
        channel(world, options_for(telegram)),
    ):
        telegram.world.say(ME, "work")
        await gate.reached()
        sent = telegram.world.send_file(ME, b"text", name="notes.txt", caption="read this")
        await world.until(LOG, ChannelUpdateLogged, times=2)
        telegram.world.edit(ME, sent["message_id"], "read that")
        (session_id,) = (await state_of(world)).chats
        edited = [one.event for one in await world.until(session_id, e.MessageEdited)][-1]
        gate.open()
        assert isinstance(edited, e.MessageEdited)
        assert (edited.text, [type(part) for part in edited.parts]) == ("read that", [FilePart])


async def test_no_message_passes_an_earlier_one_of_its_chat_that_waits_for_its_own_run() -> None:
    """Of four messages that come as a run starts, the model reads the first first and the last last."""
    gates = {"hold": Gate(), "1": Gate()}

    def script(request: SeenRequest) -> Script:
        text = last_user_text(request)
        return [*([Wait(gates[text])] if text in gates else []), Say(f"re: {text}")]

    async with (
        FakeTelegram() as telegram,
        ChaosServer(choose=script) as chaos,
        process(chaos, limits=RunnerLimits(runs_max=1)) as world,
        channel(world, options_for(telegram, allow=frozenset({str(ME), "43"}))),
    ):
        telegram.world.say(43, "hold")
        await gates["hold"].reached()
        telegram.world.say(ME, "1")
        telegram.world.say(ME, "2")
        await world.until(LOG, ChannelUpdateLogged, times=3)
        gates["hold"].open()
        await gates["1"].reached()
        telegram.world.say(ME, "3")
        telegram.world.say(ME, "4")
        records = await world.until(LOG, ChannelUpdateLogged, times=5)
        taken = [one.event for one in records if isinstance(one.event, ChannelUpdateLogged)]
        assert {one.became for one in taken} == {"message"}
        gates["1"].open()
        await said(telegram, "re: 1", "re: 2", "re: 3", "re: 4")


async def test_files_images_and_voice_come_in_as_blobs() -> None:
    async with FakeTelegram() as telegram, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with channel(world, options_for(telegram, file_bytes_max=1_000)):
            telegram.world.send_file(ME, b"text", name="notes.txt", caption="read this")
            telegram.world.send_file(ME, b"\xff\xd8jpeg", kind="photo", name="p.jpg")
            telegram.world.send_file(ME, b"ogg", kind="voice", name="v.oga")
            telegram.world.send_file(ME, b"x" * 1_001, name="big.bin")
            await until(
                telegram, lambda: any("too large" in text for text in telegram.world.chat(ME).texts())
            )
        (session_id,) = (await state_of(world)).chats
        accepted = [
            record.event
            for record in await world.log(session_id)
            if isinstance(record.event, e.MessageAccepted)
        ]
        parts = [part for event in accepted for part in event.parts]
        assert [type(part) for part in parts] == [FilePart, ImagePart, FilePart]
        assert accepted[0].text == "read this"
        files = [part for part in parts if isinstance(part, FilePart | ImagePart)]
        kept = [await world.store.blob(part.blob) for part in files]
        assert kept == [b"text", b"\xff\xd8jpeg", b"ogg"]


async def test_a_call_that_recovers_leaves_no_trace_in_the_chat_and_a_failure_is_said_once() -> None:
    """P9: quiet when it works, complete when it does not."""
    scripts: list[Script] = [[Say("half an ans"), Drop()], [Drop()], [Say("hello")], [bad_key()]]
    async with FakeTelegram() as telegram, ChaosServer(*scripts, after_last="repeat") as chaos:
        async with process(chaos) as world, channel(world, options_for(telegram)):
            telegram.world.say(ME, "hi")
            await said(telegram, "hello")
            telegram.world.say(ME, "again")
            await until(telegram, lambda: len(telegram.world.chat(ME).texts()) == 2)
            failure = telegram.world.chat(ME).texts()[1]
            assert "/retry" in failure
            assert failure.startswith("Failed")
        sent = telegram.world.done("sendMessage")
        assert len(sent) == 2
        assert not telegram.world.done("editMessageText")


async def test_stop_takes_back_what_waits_in_the_chat_and_says_so() -> None:
    """P14: nothing that was taken waits for ever, and its sender is told."""

    def hangs_first(request: SeenRequest) -> Script:
        text = last_user_text(request)
        return [Say("half"), Hang()] if text == "first" else [Say(f"re: {text}")]

    async with FakeTelegram() as telegram, ChaosServer(choose=hangs_first) as chaos, process(chaos) as world:
        async with channel(world, options_for(telegram)):
            telegram.world.say(ME, "first")
            await chaos.seen.until_request(1)
            (session_id,) = (await state_of(world)).chats
            await world.until(session_id, e.TextDelta)
            telegram.world.say(ME, "second")
            telegram.world.say(ME, "third")
            telegram.world.say(ME, "/queue")
            await said(telegram, "1. second\n2. third")
            telegram.world.say(ME, "/stop")
            await until(telegram, lambda: len(telegram.world.chat(ME).texts()) == 4)
            telegram.world.say(ME, "fourth")
            await until(telegram, lambda: len(telegram.world.chat(ME).texts()) == 5)
            telegram.world.say(ME, "/queue")
            await until(telegram, lambda: len(telegram.world.chat(ME).texts()) == 6)
        _, *after, answer, queue = telegram.world.chat(ME).texts()
        assert {"half", "Stopped."} < set(after)
        (told,) = set(after) - {"half", "Stopped."}
        assert told.startswith("Removed from the queue")
        assert told.endswith("1. second\n2. third")
        assert (answer, queue) == ("re: fourth", "The queue is empty.")
        assert not (await state_of(world)).awaited
        assert chaos.seen.requests_seen == 2


async def test_stop_ends_the_run_and_retry_answers_the_message_again() -> None:
    scripts: list[Script] = [[Say("half"), Hang()], [Say("whole")]]
    async with FakeTelegram() as telegram, ChaosServer(*scripts) as chaos, process(chaos) as world:
        async with channel(world, options_for(telegram)):
            telegram.world.say(ME, "/stop")
            await until(telegram, lambda: len(telegram.world.chat(ME).texts()) == 1)
            telegram.world.say(ME, "hi")
            await chaos.seen.until_request(1)
            (session_id,) = (await state_of(world)).chats
            await world.until(session_id, e.TextDelta)
            telegram.world.say(ME, "/status")
            await until(telegram, lambda: len(telegram.world.chat(ME).texts()) == 2)
            telegram.world.say(ME, "/stop")
            await until(telegram, lambda: len(telegram.world.chat(ME).texts()) == 4)
            telegram.world.say(ME, "/retry")
            await until(telegram, lambda: len(telegram.world.chat(ME).texts()) == 5)
        nothing, status, half, stopped, whole = telegram.world.chat(ME).texts()
        assert "No conversation" in nothing
        assert "Working" in status
        assert (half, stopped, whole) == ("half", "Stopped.", "whole")


async def test_stop_says_that_what_was_sent_on_the_page_is_paused() -> None:
    """P14: what the chat doesn't take back waits for someone, and the chat says where."""

    def hangs_first(request: SeenRequest) -> Script:
        text = last_user_text(request)
        return [Say("half"), Hang()] if text == "first" else [Say(f"re: {text}")]

    async with FakeTelegram() as telegram, ChaosServer(choose=hangs_first) as chaos, process(chaos) as world:
        async with channel(world, options_for(telegram)):
            telegram.world.say(ME, "first")
            await chaos.seen.until_request(1)
            (session_id,) = (await state_of(world)).chats
            await world.until(session_id, e.TextDelta)
            sent = await world.inbox.send(
                session_id, IncomingMessage(text="from the page", when_busy="queue")
            )
            assert isinstance(sent, Sent)
            telegram.world.say(ME, "/stop")
            await until(telegram, lambda: len(telegram.world.chat(ME).texts()) == 3)
        (told,) = [text for text in telegram.world.chat(ME).texts() if text not in {"half", "Stopped."}]
        assert told.startswith("Paused messages from elsewhere")
        assert told.endswith("1. from the page")
