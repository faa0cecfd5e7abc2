"""People talk to the agent on Discord: one run for each message, one reply for each run."""

from agent.world import process
from fakes.discord import Double, FakeDiscord, Reverse
from features.channels.discord.lab import (
    LOG,
    ME,
    channel,
    options_for,
    said,
    say,
    starting,
    state_of,
    texts,
    until,
)
from features.channels.lab import last_user_text
from holdfast import events as e
from holdfast.chaos import ChaosServer, Drop, Gate, Hang, Say, Script, SeenRequest, Wait, bad_key
from holdfast.features.channels.events import (
    ChannelFailed,
    ChannelUpdateLogged,
)
from holdfast.features.channels.texts import TOO_LATE_TO_EDIT
from holdfast.runner.supervisor import RunnerLimits
from holdfast.values import FilePart, ImagePart


def echo(request: SeenRequest) -> Script:
    return [Say(f"you said **{last_user_text(request)}**")]


async def test_a_message_is_answered_and_the_next_one_belongs_to_the_same_conversation() -> None:
    async with FakeDiscord() as discord, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with channel(world, discord):
            say(discord, "hello <b>")
            await said(discord, "you said hello <b>")
            say(discord, "again")
            await said(discord, "you said hello <b>", "you said again")
            discord.world.command(discord.world.direct(ME), "new")
            await until(discord, lambda: len(texts(discord)) == 3)
            say(discord, "third")
            await until(discord, lambda: len(texts(discord)) == 4)
        assert texts(discord)[2:] == ["Started a new conversation.", "you said third"]
        state = await state_of(world)
        assert state.account == "holdfast"
        assert not state.awaited
        sessions = [len((await world.supervisor.view(one)).session.runs) for one in state.chats]
        assert sessions == [2, 1]
        assert [one["name"] for one in discord.world.commands][:2] == ["new", "stop"]
        (command,) = discord.world.interactions.values()
        assert command.answer == 5, "Discord heard of it in time"
        assert discord.world.done("deleteAnswer"), "and nothing of that stays"
        mentions = [call.parameters["allowed_mentions"] for call in discord.world.done("createMessage")]
        assert mentions == [{"parse": []}] * 4


async def test_events_that_come_twice_or_in_another_order_are_each_one_message() -> None:
    """P14: the same message again becomes nothing."""
    async with FakeDiscord() as discord, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        people = (100, 101, 102)
        async with channel(world, discord, allow=frozenset(map(str, people))):
            discord.scripts.add(
                "MESSAGE_CREATE", [Double()], [Reverse()], [Double()], [Reverse()], [], [Double()]
            )
            sent = [say(discord, f"{at} of {user}", user)["id"] for at in range(2) for user in people]
            await until(discord, lambda: all(len(texts(discord, user)) == 2 for user in people))
        found = [record.event for record in await world.log(LOG)]
        taken = [event.key for event in found if isinstance(event, ChannelUpdateLogged)]
        assert sorted(taken) == sorted(f"m:{one}" for one in sent)


async def test_in_a_server_only_what_mentions_the_bot_is_for_it_and_a_thread_is_a_conversation() -> None:
    async with FakeDiscord() as discord, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        discord.world.message_content = False  # it isn't needed for this
        general = discord.world.channel("general")
        thread = discord.world.thread(general, "bugs")
        async with channel(world, discord):
            discord.world.say(general, "just talking", user=ME)
            discord.world.say(general, f"{discord.world.mention} what is up, <@43>?", user=ME)
            discord.world.say(thread, f"{discord.world.mention} and here", user=ME)
            await until(discord, lambda: bool(general.texts() and thread.texts()))
            answered = next(key for key, one in general.messages.items() if one["author"].get("bot"))
            pinged = [discord.world.bot]
            discord.world.say(general, "thanks", user=ME, replies_to=answered, mentions=pinged)
            await until(discord, lambda: len(general.texts()) == 2)
        assert general.texts() == ["you said User 42: what is up, @User 43?", "you said User 42: thanks"]
        assert thread.texts() == ["you said User 42: and here"]
        assert set((await state_of(world)).sessions) == {general.channel_id, thread.channel_id}
        mentions = [one["mentions"] for one in general.messages.values() if one["author"].get("bot")]
        assert mentions == [[], []]


async def test_all_of_a_servers_talk_needs_the_privileged_intent_and_says_so() -> None:
    async with FakeDiscord() as discord, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        discord.world.message_content = False
        async with starting(world, options_for(discord, groups="all")):
            records = await world.until(LOG, ChannelFailed)
        failed = records[-1].event
        assert isinstance(failed, ChannelFailed)
        assert "Message Content" in failed.why
        assert "discord.com/developers" in failed.hint
        assert [one["op"] for one in discord.gateway.heard] == [2], "4014 is final: it isn't tried again"
        discord.world.message_content = True
        async with channel(world, discord, groups="all"):
            discord.world.say(discord.world.channel(), "anyone here?", user=ME)
            await until(
                discord, lambda: discord.world.channel().texts() == ["you said User 42: anyone here?"]
            )


async def test_while_the_agent_works_a_message_steers_it_and_one_that_waits_can_be_edited() -> None:
    gate = Gate()

    def script(request: SeenRequest) -> Script:
        return [Say("done: " + last_user_text(request))] if gate.is_open else [Say("x"), Wait(gate)]

    async with FakeDiscord() as discord, ChaosServer(choose=script) as chaos, process(chaos) as world:
        chat = discord.world.direct(ME)
        async with channel(world, discord):
            first = say(discord, "work")
            await gate.reached()
            second = say(discord, "and hurry")
            discord.world.edit(chat, str(second["id"]), "and take your time")
            discord.world.edit(chat, str(first["id"]), "too late")
            await said(discord, TOO_LATE_TO_EDIT)
            gate.open()
            await until(discord, lambda: len(texts(discord)) == 2)
        assert texts(discord)[-1].endswith("done: and take your time")
        assert not (await state_of(world)).awaited


async def test_no_message_passes_an_earlier_one_of_its_chat_that_waits_for_its_own_run() -> None:
    gates = {"hold": Gate(), "1": Gate()}

    def script(request: SeenRequest) -> Script:
        text = last_user_text(request)
        return [*([Wait(gates[text])] if text in gates else []), Say(f"re: {text}")]

    async with (
        FakeDiscord() as discord,
        ChaosServer(choose=script) as chaos,
        process(chaos, limits=RunnerLimits(runs_max=1)) as world,
        channel(world, discord, allow=frozenset({str(ME), "43"})),
    ):
        say(discord, "hold", 43)
        await gates["hold"].reached()
        say(discord, "1")
        say(discord, "2")
        await world.until(LOG, ChannelUpdateLogged, times=3)
        gates["hold"].open()
        await gates["1"].reached()
        say(discord, "3")
        say(discord, "4")
        await world.until(LOG, ChannelUpdateLogged, times=5)
        gates["1"].open()
        await said(discord, "re: 1", "re: 2", "re: 3", "re: 4")


async def test_files_and_images_come_in_as_blobs_and_only_from_discords_own_host() -> None:
    """P11: an address elsewhere isn't fetched, whoever sends it."""
    async with FakeDiscord() as discord, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        chat = discord.world.direct(ME)
        async with channel(world, discord, file_bytes_max=1_000):
            discord.world.send_file(chat, b"text", text="read this")
            discord.world.send_file(chat, b"\xff\xd8jpeg", name="p.jpg", media_type="image/jpeg")
            discord.world.send_file(chat, b"x" * 1_001, name="big.bin")
            await until(discord, lambda: any("too large" in text for text in texts(discord)))
            elsewhere = {"id": "1", "url": "http://localhost:1/x", "filename": "x", "size": 1}
            discord.world.say(chat, "", attachments=[elsewhere])
            await until(discord, lambda: any("Couldn't fetch" in text for text in texts(discord)))
        (session_id,) = (await state_of(world)).chats
        accepted = [
            one.event for one in await world.log(session_id) if isinstance(one.event, e.MessageAccepted)
        ]
        parts = [part for event in accepted for part in event.parts]
        assert [type(part) for part in parts] == [FilePart, ImagePart]
        assert accepted[0].text == "read this"
        files = [part for part in parts if isinstance(part, FilePart | ImagePart)]
        assert [await world.store.blob(part.blob) for part in files] == [b"text", b"\xff\xd8jpeg"]


async def test_a_call_that_recovers_leaves_no_trace_in_the_chat_and_a_failure_is_said_once() -> None:
    """P9: quiet when it works, complete when it does not."""
    scripts: list[Script] = [[Say("half an ans"), Drop()], [Drop()], [Say("hello")], [bad_key()]]
    async with FakeDiscord() as discord, ChaosServer(*scripts, after_last="repeat") as chaos:
        async with process(chaos) as world, channel(world, discord):
            say(discord, "hi")
            await said(discord, "hello")
            say(discord, "again")
            await until(discord, lambda: len(texts(discord)) == 2)
        failure = texts(discord)[1]
        assert "/retry" in failure
        assert failure.startswith("Failed")
        assert len(discord.world.done("createMessage")) == 2
        assert not discord.world.done("editMessage")


async def test_stop_ends_the_run_and_retry_answers_the_message_again() -> None:
    scripts: list[Script] = [[Say("half"), Hang()], [Say("whole")]]
    async with FakeDiscord() as discord, ChaosServer(*scripts) as chaos, process(chaos) as world:
        chat = discord.world.direct(ME)
        async with channel(world, discord):
            say(discord, "hi")
            await chaos.seen.until_request(1)
            (session_id,) = (await state_of(world)).chats
            await world.until(session_id, e.TextDelta)
            discord.world.command(chat, "status")
            await until(discord, lambda: len(texts(discord)) == 1)
            discord.world.command(chat, "stop")
            await until(discord, lambda: len(texts(discord)) == 3)
            discord.world.command(chat, "model", "other")
            await until(discord, lambda: len(texts(discord)) == 4)
            discord.world.command(chat, "retry")
            await until(discord, lambda: len(texts(discord)) == 5)
        status, half, stopped, model, whole = texts(discord)
        assert "Working" in status
        assert (half, stopped, whole) == ("half", "Stopped.", "whole")
        assert "other" in model


async def test_a_preview_shows_work_and_the_answer_takes_its_place() -> None:
    """P9, P14: the preview is a delivery; the answer is an edit of the same message."""
    gate = Gate()

    def script(request: SeenRequest) -> Script:
        del request
        return [Say("**hel"), Wait(gate), Say("lo**")]

    async with FakeDiscord() as discord, ChaosServer(choose=script) as chaos, process(chaos) as world:
        async with channel(world, discord, preview_after_s=0.0):
            say(discord, "hi")
            await until(discord, lambda: texts(discord) == ["**hel"])
            gate.open()
            await until(discord, lambda: texts(discord) == ["hello"])
            await world.until(LOG, e.DeliveryConfirmed, times=2)
        assert len(discord.world.done("createMessage")) == 1
        state = await state_of(world)
        assert {one.state for one in state.outbox.deliveries.values()} == {"confirmed"}
