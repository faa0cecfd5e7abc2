"""Files that the agent sends to a chat on Discord: with their bytes, once, or told of in words."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from agent.world import World, process
from fakes.discord import Accept, DiscordError, FakeDiscord, ResetConnection
from features.channels.crash_lab import MortalStore, lives, states_in, until_settled
from features.channels.discord.lab import LOG, ME, channel, options_for, said, say, starting, state_of, until
from features.channels.lab import file_then_words
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Say, Script
from holdfast.features.channels.discord.carrier import FILE_BYTES_MAX
from holdfast.tools.files.send_file import SendFile
from stores import MemoryStore

MB = 1024 * 1024
NOT_TAKEN = "Couldn't send the file a.txt: Discord rejected it."


def sends(*calls: Mapping[str, object]) -> list[Script]:
    """The model sends files, then says that it did."""
    return [[CallTool("send_file", args) for args in calls], [Say("there you are")]]


def files(discord: FakeDiscord) -> list[tuple[str, bytes]]:
    """The files that the bot's messages in the chat show: names and bytes."""
    messages = [one for one in discord.world.direct(ME).messages.values() if one["author"].get("bot")]
    shown = [attachment for one in messages for attachment in one["attachments"]]
    kept = discord.world.files
    return [(one["filename"], kept[one["proxy_url"].removeprefix(f"{discord.url}/")][1]) for one in shown]


async def test_files_arrive_with_their_bytes_before_the_answer(tmp_path: Path) -> None:
    (tmp_path / "bücher & co.txt").write_bytes(b"all is well")
    (tmp_path / "chart.png").write_bytes(b"\x89PNG\r\n\x1a\n and the rest")
    script = sends(
        {"path": "bücher & co.txt", "caption": "the **report** for @everyone"}, {"path": "chart.png"}
    )
    async with (
        FakeDiscord() as discord,
        ChaosServer(*script) as chaos,
        process(chaos, SendFile(), workspace=tmp_path) as world,
    ):
        async with channel(world, discord):
            say(discord, "report, please")
            await said(discord, "the **report** for @everyone", "", "there you are")
            await world.until(LOG, e.DeliveryConfirmed, times=3)
        sent = [("bücher & co.txt", b"all is well"), ("chart.png", b"\x89PNG\r\n\x1a\n and the rest")]
        assert files(discord) == sent
        first = discord.world.done("createMessage")[0].parameters
        assert first["allowed_mentions"] == {"parse": []}
        assert first["enforce_nonce"]
        deliveries = (await state_of(world)).outbox.deliveries.values()
        assert [one.key.partition("/")[2] for one in deliveries] == ["file/0", "file/1", "answer/0"]
        assert {one.state for one in deliveries} == {"confirmed"}


async def test_a_file_that_is_too_big_is_told_of_in_words(tmp_path: Path) -> None:
    """P14: never silently not at all."""
    (tmp_path / "most.bin").write_bytes(b"x" * FILE_BYTES_MAX)
    (tmp_path / "more_*.bin").write_bytes(b"x" * (FILE_BYTES_MAX + MB))
    script = sends({"path": "more_*.bin"}, {"path": "most.bin"})
    async with (
        FakeDiscord() as discord,
        ChaosServer(*script) as chaos,
        process(chaos, SendFile(), workspace=tmp_path) as world,
    ):
        async with channel(world, discord):
            say(discord, "send them")
            why = "It's 11.0 MB, but Discord's limit is 10 MB."
            words = f"Couldn't send the file more_*.bin. {why}"
            await said(discord, words, "", "there you are")
        assert [(name, len(data)) for name, data in files(discord)] == [("most.bin", FILE_BYTES_MAX)]


@pytest.mark.parametrize(
    "refusal",
    [
        DiscordError("Request entity too large", 413, 40005),
        DiscordError("Missing Permissions", 403, 50013),
        DiscordError("Explicit content cannot be sent to the desired recipient(s)", 403, 20009),
    ],
    ids=["too large", "no permission", "explicit"],
)
async def test_a_file_that_is_refused_is_told_of_in_words_and_the_chat_goes_on(
    refusal: DiscordError, tmp_path: Path
) -> None:
    """P14: never silently not at all."""
    (tmp_path / "a.txt").write_bytes(b"abc")
    async with (
        FakeDiscord() as discord,
        ChaosServer(*sends({"path": "a.txt"})) as chaos,
        process(chaos, SendFile(), workspace=tmp_path) as world,
    ):
        discord.scripts.add("createMessage", [refusal])
        async with channel(world, discord):
            say(discord, "send it")
            await said(discord, NOT_TAKEN, "there you are")
        assert files(discord) == []


@pytest.mark.parametrize(
    ("fault", "found"),
    [([Accept(), ResetConnection()], True), ([ResetConnection()], False)],
    ids=["arrived", "lost"],
)
async def test_a_file_that_may_have_arrived_is_looked_for(
    fault: Sequence[Accept | ResetConnection], tmp_path: Path, *, found: bool
) -> None:
    """P14: neither twice nor not at all, and no mark is needed; it is found without its nonce."""
    (tmp_path / "a.txt").write_bytes(b"abc")
    async with (
        FakeDiscord() as discord,
        ChaosServer(*sends({"path": "a.txt", "caption": "notes"})) as chaos,
        process(chaos, SendFile(), workspace=tmp_path) as world,
    ):
        discord.scripts.add("createMessage", fault)
        async with channel(world, discord):
            say(discord, "send it")
            await world.until(LOG, e.DeliveryUnknown)
            discord.world.forget_nonces()
            await said(discord, "notes", "there you are")
            await world.until(LOG, e.DeliveryConfirmed, times=2)
        events = [one.event for one in await world.log(LOG)]
        assert files(discord) == [("a.txt", b"abc")]
        assert [one.found for one in events if isinstance(one, e.DeliveryConfirmed)] == [found, False]
        assert not any(one.marked for one in events if isinstance(one, e.DeliveryAttempted))


@asynccontextmanager
async def sending(
    discord: FakeDiscord, chaos: ChaosServer, folder: Path, store: MortalStore
) -> AsyncGenerator[World]:
    """A process with the channel, whose agent can send files."""
    async with (
        process(chaos, SendFile(), store=store, workspace=folder) as world,
        starting(world, options_for(discord), clock=store.clock),
    ):
        yield world


async def ask(discord: FakeDiscord, store: MemoryStore) -> None:
    """Ask for the file, and wait for all that comes of it."""
    await until(discord, lambda: bool(discord.world.sessions.known))
    direct = discord.world.direct(ME)
    if not direct.messages:
        say(discord, "send it")
    await until(discord, lambda: "there you are" in direct.texts())
    await until_settled(store, LOG)


@pytest.mark.long
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_file_is_there_once_wherever_the_process_dies(tmp_path: Path, *, after: bool) -> None:
    """P14, P6: the process dies at each append in turn; the file is neither lost nor repeated nor marked."""
    (tmp_path / "a.txt").write_bytes(b"abc")
    for life in lives(after=after, log=LOG, at_least=6):
        async with FakeDiscord() as discord, ChaosServer(choose=file_then_words) as chaos:
            send, asked = partial(sending, discord, chaos, tmp_path), partial(ask, discord)
            await life.lived(send, asked)
            discord.world.forget_nonces()
            await life.lived_again(send, asked)
            assert files(discord) == [("a.txt", b"abc")]
            assert discord.world.direct(ME).texts() == ["notes", "there you are"]
            assert await states_in(life.disk, LOG) == {"confirmed"}
