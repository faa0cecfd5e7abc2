"""Files that the agent sends to a conversation in Slack: with their bytes, once, or told of in words."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from agent.world import World, process
from fakes.exchanges import PlatformStep
from fakes.slack import Accept, FakeSlack, ResetConnection, SlackError, SlackLimit
from features.channels.crash_lab import MortalStore, lives, states_in, until_settled
from features.channels.lab import channel, file_then_words
from features.channels.slack.slack_lab import LOG, MY, options_for, said, state_of, talking
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Say, Script
from holdfast.features.channels.channel_log import channel_state
from holdfast.features.channels.slack.carrier import HINT
from holdfast.features.channels.texts import MARK
from holdfast.tools.files.send_file import SendFile
from stores import MemoryStore

PNG = b"\x89PNG\r\n\x1a\n" + bytes(3 * 1024 * 1024)
SHARE = "files.completeUploadExternal"
NOT_TAKEN = f"Couldn't send the file a.txt: Slack rejected it. {HINT}"


def sends(*calls: Mapping[str, object]) -> list[Script]:
    """The model sends files, then says that it did."""
    return [[CallTool("send_file", args) for args in calls], [Say("there you are")]]


def files(slack: FakeSlack, chat: str = MY, thread: str = "") -> list[tuple[str, bytes]]:
    """The files that the bot's messages show: names and bytes."""
    messages = slack.world.conversation(chat).of_bot(thread)
    shown = [file for one in messages for file in one.get("files", [])]
    return [(one["name"], slack.world.contents[one["id"]]) for one in shown]


async def test_files_arrive_with_their_bytes_before_the_answer(tmp_path: Path) -> None:
    (tmp_path / "bücher & co.txt").write_bytes(b"all is well")
    (tmp_path / "chart.png").write_bytes(PNG)
    script = sends(
        {"path": "bücher & co.txt", "caption": "the *report* for <!channel>"}, {"path": "chart.png"}
    )
    async with (
        FakeSlack() as slack,
        ChaosServer(*script) as chaos,
        process(chaos, SendFile(), workspace=tmp_path) as world,
    ):
        async with talking(world, slack):
            slack.world.say(MY, "report, please")
            await said(slack, "the *report* for <!channel>", "", "there you are")
            await world.until(LOG, e.DeliveryConfirmed, times=3)
        sent = [("bücher & co.txt", b"all is well"), ("chart.png", PNG)]
        assert files(slack) == sent
        deliveries = (await state_of(world)).outbox.deliveries.values()
        assert [one.key.partition("/")[2] for one in deliveries] == ["file/0", "file/1", "answer/0"]
        assert {one.state for one in deliveries} == {"confirmed"}


async def test_a_file_arrives_in_the_thread_that_asked_for_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"abc")
    async with (
        FakeSlack() as slack,
        ChaosServer(*sends({"path": "a.txt"})) as chaos,
        process(chaos, SendFile(), workspace=tmp_path) as world,
    ):
        async with talking(world, slack):
            root = slack.world.say("C7", "@bot send it", user="U42")["ts"]
            await said(slack, "", "there you are", chat="C7")
        assert files(slack, "C7", root) == [("a.txt", b"abc")]


@pytest.mark.parametrize("method", ["files.getUploadURLExternal", SHARE])
@pytest.mark.parametrize(
    "error", ["missing_scope", "file_upload_size_restricted", "file_uploads_disabled", "restricted_action"]
)
async def test_a_file_that_is_refused_is_told_of_in_words_and_the_chat_goes_on(
    method: str, error: str, tmp_path: Path
) -> None:
    """P14: never silently not at all, for example one that is too big for the workspace."""
    (tmp_path / "a.txt").write_bytes(b"abc")
    async with (
        FakeSlack() as slack,
        ChaosServer(*sends({"path": "a.txt"})) as chaos,
        process(chaos, SendFile(), workspace=tmp_path) as world,
    ):
        slack.scripts.add(method, [SlackError(error)])
        async with talking(world, slack):
            slack.world.say(MY, "send it")
            await said(slack, NOT_TAKEN, "there you are")
        assert files(slack) == []


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        ("files.getUploadURLExternal", [Accept(), ResetConnection()]),
        ("files.getUploadURLExternal", [SlackLimit(0)]),
        ("upload", [Accept(), ResetConnection()]),
        ("upload", [SlackError("try later", 503)]),
        (SHARE, [SlackLimit(0)]),
    ],
    ids=["address lost", "address limited", "upload cut", "upload refused for now", "share limited"],
)
async def test_what_fails_before_the_file_is_shared_is_simply_done_again(
    step: str, fault: Sequence[PlatformStep], tmp_path: Path
) -> None:
    """P14: nobody saw anything yet, so there is nothing to look for, and no mark."""
    (tmp_path / "a.txt").write_bytes(b"abc")
    async with (
        FakeSlack() as slack,
        ChaosServer(*sends({"path": "a.txt", "caption": "notes"})) as chaos,
        process(chaos, SendFile(), workspace=tmp_path) as world,
    ):
        slack.scripts.add(step, fault)
        async with talking(world, slack):
            slack.world.say(MY, "send it")
            await said(slack, "notes", "there you are")
            await world.until(LOG, e.DeliveryConfirmed, times=2)
        events = [one.event for one in await world.log(LOG)]
        assert files(slack) == [("a.txt", b"abc")]
        assert not any(isinstance(one, e.DeliveryUnknown) for one in events)


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ([Accept(), ResetConnection()], True),
        ([ResetConnection()], False),
        ([Accept(), SlackError("file_update_failed")], True),
        ([SlackError("file_update_failed")], False),
    ],
    ids=["shared", "lost", "shared with trouble", "not shared for trouble"],
)
async def test_a_file_that_may_have_been_shared_is_looked_for(
    fault: Sequence[PlatformStep], tmp_path: Path, *, found: bool
) -> None:
    """P14: neither twice nor not at all; a file of the person with the same name and bytes is not ours."""
    (tmp_path / "a.txt").write_bytes(b"abc")
    async with (
        FakeSlack() as slack,
        ChaosServer(*sends({"path": "a.txt"}, {"path": "a.txt", "caption": "again"})) as chaos,
        process(chaos, SendFile(), workspace=tmp_path) as world,
    ):
        slack.scripts.add(SHARE, [Accept()], fault)
        async with talking(world, slack):
            slack.world.send_file(MY, b"abc", name="a.txt", text="send me this")
            await said(slack, "", "again", "there you are")
            await world.until(LOG, e.DeliveryConfirmed, times=3)
        events = [one.event for one in await world.log(LOG)]
        assert files(slack) == [("a.txt", b"abc")] * 2
        assert [one.found for one in events if isinstance(one, e.DeliveryConfirmed)] == [False, found, False]
        assert not any(one.marked for one in events if isinstance(one, e.DeliveryAttempted))


async def test_a_repeat_says_so_where_nobody_can_look(tmp_path: Path) -> None:
    """P14: without the permission to read the conversation, the second one is marked."""
    (tmp_path / "a.txt").write_bytes(b"abc")
    async with (
        FakeSlack() as slack,
        ChaosServer(*sends({"path": "a.txt", "caption": "notes"})) as chaos,
        process(chaos, SendFile(), workspace=tmp_path) as world,
    ):
        slack.scripts.add(SHARE, [Accept(), ResetConnection()])
        async with talking(world, slack):
            slack.scripts.add("conversations.history", *[[SlackError("missing_scope")]] * 5)
            slack.world.say(MY, "send it")
            await said(slack, "notes", f"{MARK}\nnotes", "there you are")


@asynccontextmanager
async def sending(
    slack: FakeSlack, chaos: ChaosServer, folder: Path, store: MortalStore
) -> AsyncGenerator[World]:
    """A process with the channel, whose agent can send files."""
    async with (
        process(chaos, SendFile(), store=store, workspace=folder) as world,
        channel(world, options_for(slack), clock=store.clock),
    ):
        yield world


async def ask(slack: FakeSlack, store: MemoryStore) -> None:
    """Ask for the file, and wait for all that comes of it."""
    await slack.world.changed.until(lambda: bool(slack.sockets.open))
    conversation = slack.world.conversation(MY)
    is_lost = any(one.payload["event"]["channel"] == MY for one in slack.sockets.lost)
    is_taken = MY in (await channel_state(store, LOG)).last_taken
    if not conversation.messages or (is_lost and not is_taken):  # Slack forgets the first words
        slack.world.say(MY, "send it")
    await slack.world.changed.until(lambda: "there you are" in conversation.texts())
    await until_settled(store, LOG)


@pytest.mark.long
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_file_is_there_once_wherever_the_process_dies(tmp_path: Path, *, after: bool) -> None:
    """P14, P6: the process dies at each append in turn; the file is neither lost nor repeated nor marked."""
    (tmp_path / "a.txt").write_bytes(b"abc")
    for life in lives(after=after, at_least=15):
        async with FakeSlack(ack_s=5.0) as slack, ChaosServer(choose=file_then_words) as chaos:
            send, asked = partial(sending, slack, chaos, tmp_path), partial(ask, slack)
            await life.lived(send, asked)
            await life.lived_again(send, asked)
            assert files(slack) == [("a.txt", b"abc")]
            assert slack.world.conversation(MY).texts() == ["notes", "there you are"]
            assert await states_in(life.disk, LOG) == {"confirmed"}
