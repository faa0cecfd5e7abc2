"""People talk to the agent in Slack: one run for each message, one reply for each run."""

import asyncio

from agent.world import process
from fakes.slack import Double, FakeSlack, MissAcknowledgement, ResetConnection, Reverse
from features.channels.lab import echo, last_user_text
from features.channels.slack.slack_lab import (
    LOG,
    ME,
    MY,
    Talking,
    in_both_forms,
    said,
    state_of,
    talking,
    until,
)
from holdfast import events as e
from holdfast.chaos import ChaosServer, Drop, Gate, Hang, Say, Script, SeenRequest, Wait, bad_key
from holdfast.features.channels.events import (
    ChannelUpdateLogged,
)
from holdfast.features.channels.texts import TOO_LATE_TO_EDIT
from holdfast.values import FilePart, ImagePart
from runner.steered_clock import SteeredClock, settle


@in_both_forms
async def test_a_message_is_answered_and_the_next_one_belongs_to_the_same_conversation(
    talking: Talking,
) -> None:
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with talking(world, slack):
            slack.world.say(MY, "hello <!channel> & <b>")
            await said(slack, "re: hello <!channel> & <b>")
            slack.world.say(MY, "again")
            await said(slack, "re: hello <!channel> & <b>", "re: again")
            slack.world.say(MY, "!new")
            await until(slack, lambda: len(slack.world.conversation(MY).texts()) == 3)
            slack.world.command(MY, "status")
            await until(slack, lambda: len(slack.world.conversation(MY).texts()) == 4)
            slack.world.say(MY, "third")
            await until(slack, lambda: len(slack.world.conversation(MY).texts()) == 5)
        texts = slack.world.conversation(MY).texts()
        assert texts[2] == "Started a new conversation."
        assert texts[4] == "re: third"
        state = await state_of(world)
        assert state.account == "holdfast"
        assert not state.awaited
        sessions = [len((await world.supervisor.view(one)).session.runs) for one in state.chats]
        assert sessions == [2, 1]
        assert state.last_taken[MY].platform_id == [*slack.world.conversation(MY).messages][-2]


@in_both_forms
async def test_envelopes_that_come_twice_late_or_in_another_order_are_each_one_message(
    talking: Talking,
) -> None:
    """P14: the same message again becomes nothing, also if Slack tells of it in two ways."""
    async with FakeSlack(ack_s=1.0) as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        slack.scripts.add("event", [Double()], [MissAcknowledgement()], [Reverse()])
        async with talking(world, slack, allow=frozenset({ME, "U43", "U44"})):
            slack.world.say(MY, "one")
            slack.world.say("D43", "two")
            slack.world.say("D44", "three")
            slack.world.say("C5", "@bot four", user=ME)
            conversations = [slack.world.conversation(one) for one in (MY, "D43", "D44", "C5")]
            await until(slack, lambda: all(one.texts() for one in conversations))
            await until(slack, lambda: not slack.waiting)
        assert [one.texts() for one in conversations] == [
            ["re: one"],
            ["re: two"],
            ["re: three"],
            ["re: User 42: four"],
        ]
        found = [record.event for record in await world.log(LOG)]
        taken = [event.key for event in found if isinstance(event, ChannelUpdateLogged)]
        assert len(taken) == len(set(taken)) == 4
        assert chaos.seen.requests_seen == 4


@in_both_forms
async def test_in_a_channel_a_mention_begins_a_thread_and_a_thread_is_a_conversation(
    talking: Talking,
) -> None:
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with talking(world, slack):
            slack.world.say("C5", "just talking", user=ME)
            first = slack.world.say("C5", "@bot what is up", user=ME)
            second = slack.world.say("C5", "@bot and here", user=ME)
            channel = slack.world.conversation("C5")
            await until(slack, lambda: len(channel.texts()) == 2)
            slack.world.say("C5", "@bot more", user=ME, thread=first["ts"])
            slack.world.say("C5", "not for the bot", user=ME, thread=first["ts"])
            await until(slack, lambda: len(channel.texts()) == 3)
        assert channel.texts(first["ts"]) == ["re: User 42: what is up", "re: User 42: more"]
        assert channel.texts(second["ts"]) == ["re: User 42: and here"]
        assert set((await state_of(world)).sessions) == {f"C5/{first['ts']}", f"C5/{second['ts']}"}


@in_both_forms
async def test_while_the_agent_works_a_message_steers_it_and_one_that_waits_can_be_edited(
    talking: Talking,
) -> None:
    gate = Gate()

    def script(request: SeenRequest) -> Script:
        return [Say("done: " + last_user_text(request))] if gate.is_open else [Say("x"), Wait(gate)]

    async with (
        FakeSlack() as slack,
        ChaosServer(choose=script) as chaos,
        process(chaos) as world,
        talking(world, slack),
    ):
        first = slack.world.say(MY, "work")
        await gate.reached()
        second = slack.world.say(MY, "and hurry")
        await world.until(LOG, ChannelUpdateLogged, times=2)
        slack.world.edit(MY, second["ts"], "and take your time")
        await world.until(LOG, ChannelUpdateLogged, times=3)
        slack.world.edit(MY, first["ts"], "too late")
        await until(slack, lambda: TOO_LATE_TO_EDIT in slack.world.conversation(MY).texts())
        gate.open()
        await until(slack, lambda: "done: and take your time" in slack.world.conversation(MY).texts()[-1])


@in_both_forms
async def test_files_and_images_come_in_as_blobs_and_the_token_goes_to_slack_alone(talking: Talking) -> None:
    """P11: a file at another address isn't fetched."""
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with talking(world, slack, file_bytes_max=1_000):
            texts = slack.world.conversation(MY).texts
            slack.world.send_file(MY, b"text", name="notes.txt", text="read this")
            await until(slack, lambda: len(texts()) == 1)
            slack.world.send_file(MY, b"jpeg", name="p.jpg", mimetype="image/jpeg", text="and this")
            await until(slack, lambda: len(texts()) == 2)
            named = slack.world.keep_file(b"looked up", name="later.txt", mimetype="text/plain")
            later = {"id": named["id"], "file_access": "check_file_info"}
            slack.world.say(MY, "and that", subtype="file_share", files=[later])
            await until(slack, lambda: len(texts()) == 3)
            slack.world.send_file(MY, b"x" * 1_001, name="big.bin")
            await until(slack, lambda: len(texts()) == 4)
            elsewhere = {"id": "F9", "url_private": "http://127.0.0.1:1/secret", "size": 3, "name": "x"}
            slack.world.say(MY, "", subtype="file_share", files=[elsewhere])
            await until(slack, lambda: len(texts()) == 5)
        assert "too large" in slack.world.conversation(MY).texts()[3]
        assert "Couldn't fetch" in slack.world.conversation(MY).texts()[4]
        (session_id,) = (await state_of(world)).chats
        log = [one.event for one in await world.log(session_id)]
        parts = [part for one in log if isinstance(one, e.MessageAccepted) for part in one.parts]
        assert [type(part) for part in parts] == [FilePart, ImagePart, FilePart]
        kept = [await world.store.blob(part.blob) for part in parts if isinstance(part, FilePart | ImagePart)]
        assert kept == [b"text", b"jpeg", b"looked up"]


async def test_a_call_that_recovers_leaves_no_trace_in_the_chat_and_a_failure_is_said_once() -> None:
    """P9: the preview shows a half answer, and in the end only the whole one, or why there is none."""
    gates = [Gate(), Gate()]
    scripts: list[Script] = [
        [Say("half an ans"), Wait(gates[0]), Drop()],
        [Drop()],
        [Say("hello")],
        [Say("never"), Wait(gates[1]), bad_key()],
        [bad_key()],
    ]
    clock = SteeredClock()
    async with FakeSlack() as slack, ChaosServer(*scripts, after_last="repeat") as chaos:
        conversation = slack.world.conversation(MY)
        async with process(chaos) as world, talking(world, slack, clock=clock):

            async def preview(text: str, gate: Gate) -> None:
                slack.world.say(MY, "hi")
                await gate.reached()
                while text not in conversation.texts():
                    await settle()
                    await asyncio.sleep(0.01)
                    clock.advance(1)
                gate.open()

            await preview("half an ans", gates[0])
            await until(slack, lambda: conversation.texts() == ["hello"])
            await preview("never", gates[1])
            await until(slack, lambda: conversation.texts()[-1].startswith("Failed"))
        assert len(conversation.texts()) == 2
        assert "!retry" in conversation.texts()[1]
        assert len(slack.world.done("chat.postMessage")) == 2


@in_both_forms
async def test_stop_ends_the_run_and_retry_answers_the_message_again(talking: Talking) -> None:
    scripts: list[Script] = [[Say("half"), Hang()], [Say("whole")]]
    async with (
        FakeSlack() as slack,
        ChaosServer(*scripts) as chaos,
        process(chaos) as world,
        talking(world, slack),
    ):
        slack.world.say(MY, "hi")
        await chaos.seen.until_request(1)
        await world.until(LOG, ChannelUpdateLogged)
        (session_id,) = (await state_of(world)).chats
        await world.until(session_id, e.TextDelta)
        slack.world.command(MY, "stop")
        await until(slack, lambda: slack.world.conversation(MY).texts()[-1:] == ["Stopped."])
        slack.world.say(MY, "!retry")
        await until(slack, lambda: slack.world.conversation(MY).texts()[-1:] == ["whole"])


@in_both_forms
async def test_what_was_said_while_nobody_heard_it_is_found_in_the_history(talking: Talking) -> None:
    """P14: Slack doesn't tell of it again; known conversations are read from where the log ends."""
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        channel = slack.world.conversation("C5")
        async with talking(world, slack):
            slack.world.say(MY, "one")
            root = slack.world.say("C5", "@bot begin", user=ME)
            await said(slack, "re: one")
            await until(slack, lambda: len(channel.texts()) == 1)
        await until(slack, lambda: not slack.sockets.open)
        slack.hook.repeats_s = ()  # it gives up at once
        slack.world.say(MY, "two")
        slack.world.say("D43", "not known to us")
        slack.world.say("C5", "@bot in the thread", user=ME, thread=root["ts"])
        slack.world.say("C5", "@bot a new one", user=ME)
        await until(slack, lambda: len(slack.lost) == 6)
        async with talking(world, slack):
            await until(slack, lambda: len(channel.texts()) == 3)
            await said(slack, "re: one", "re: two")
            slack.scripts.add("event", [ResetConnection()])
            slack.world.say(MY, "four")
            await said(slack, "re: one", "re: two", "re: four")
        assert sorted(channel.texts()) == [
            "re: User 42: a new one",
            "re: User 42: begin",
            "re: User 42: in the thread",
        ]
        assert channel.texts(root["ts"])[1] == "re: User 42: in the thread"


async def test_a_socket_that_slack_wants_replaced_is_replaced_without_a_gap() -> None:
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with talking(world, slack):
            for number in range(3):
                before = set(slack.sockets.open)
                await slack.sockets.refresh()
                await until(slack, lambda before=before: not before & set(slack.sockets.open))
                slack.world.say(MY, f"hi {number}")
                await until(
                    slack, lambda number=number: f"re: hi {number}" in slack.world.conversation(MY).texts()
                )
                assert len(slack.sockets.open) == 1
        assert not slack.sockets.lost
        assert not slack.world.done("conversations.history")
