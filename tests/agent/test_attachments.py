"""Attachments that the model can't read: files in the workspace, on disk before anybody is told of them."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

from agent.world import CrashingStore, World, either, ending, messages, process
from fakes.crash import Crashed, CrashPoint
from holdfast import events as e
from holdfast.agent.attachments import HEAD_CHARS_MAX, TEXT_BYTES_MAX
from holdfast.chaos import ChaosServer, Say
from holdfast.events import Event
from holdfast.interfaces.journal import JournalError, Record
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.runner.inbox import IncomingMessage, Sent
from holdfast.tools.files.contents import FilesSeen
from holdfast.tools.files.read_file import ReadFile
from holdfast.values import FilePart, HistoryMessage, ImagePart, Part, RunSettings, SavedFile
from stores import MemoryStore

ZIP = b"PK\x03\x04\0\xff" * 10


async def attach(world: World, data: bytes, *, media_type: str = "application/zip", name: str) -> FilePart:
    return FilePart(blob=await world.store.put_blob(data), media_type=media_type, name=name)


async def send(world: World, *parts: Part, session_id: str = "s", **fields: object) -> str:
    message = IncomingMessage(text="look", parts=parts, **fields)  # pyright: ignore[reportArgumentType]
    sent = await world.inbox.send(session_id, message)
    assert isinstance(sent, Sent)
    return sent.run_id


def saved(log: Sequence[Record]) -> list[SavedFile]:
    return [file for one in log if isinstance(one.event, e.AttachmentsSaved) for file in one.event.files]


def files_of(root: Path) -> dict[str, bytes]:
    """The attachments of a workspace by their paths."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.glob("attachments/[!.]*")}


def reader() -> ReadFile:
    return ReadFile(FilesSeen())


async def test_a_file_that_no_model_reads_is_in_the_workspace_and_the_model_knows_where(
    tmp_path: Path,
) -> None:
    async with (
        ChaosServer([Say("I see")], after_last="repeat") as chaos,
        process(chaos, reader(), workspace=tmp_path) as world,
    ):
        await send(world, await attach(world, ZIP, name="data.zip"))
        (file,) = saved(await world.until("s", e.RunEnded))
        assert await asyncio.to_thread(files_of, tmp_path) == {file.path: ZIP}
        shown = str(messages(chaos.seen.request(1))[-1]["content"])
        assert f"data.zip (application/zip, 60 bytes) is in the workspace at {file.path}." in shown
        # The next run is shown the same, without saving anything again.
        await send(world)
        assert saved(await world.until("s", e.RunEnded, times=2)) == [file]
        assert file.path in str(messages(chaos.seen.request(2)))


async def test_a_long_text_is_a_file_and_the_model_is_shown_how_it_begins(tmp_path: Path) -> None:
    """A short text of any type, an image and a PDF are shown as they are."""
    long = "".join(f"line {n}\n" for n in range(6_000))
    async with ChaosServer([Say("ok")]) as chaos, process(chaos, reader(), workspace=tmp_path) as world:
        assert len(long) > TEXT_BYTES_MAX
        image = ImagePart(blob=await world.store.put_blob(b"\x89PNG\0"), media_type="image/png")
        pdf = await attach(world, b"%PDF\0", media_type="application/pdf", name="a.pdf")
        source = await attach(world, b"fn main() {}", media_type="application/octet-stream", name="a.rs")
        text = await attach(world, long.encode(), media_type="text/plain", name="build.log")
        await send(world, image, pdf, source, text)
        (file,) = saved(await world.until("s", e.RunEnded))
        assert (file.name, file.head) == ("build.log", long[:HEAD_CHARS_MAX])
        assert await asyncio.to_thread(files_of, tmp_path) == {file.path: long.encode()}
        shown = str(messages(chaos.seen.request(1))[-1]["content"])
        assert "fn main() {}" in shown
        assert "line 100" in shown
        assert "line 5999" not in shown


async def test_files_of_a_history_and_of_another_workspace_are_saved_where_their_run_works(
    tmp_path: Path,
) -> None:
    """A client that sends the whole conversation each time sends its files as part of it."""
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        await asyncio.to_thread(folder.mkdir)
    async with (
        ChaosServer([Say("ok")], after_last="repeat") as chaos,
        process(chaos, reader(), workspace=one) as world,
    ):
        part = await attach(world, ZIP, name="data.zip")
        history = (HistoryMessage(role="user", content="here", parts=(part,)),)
        await send(world, history=history)
        await world.until("s", e.RunEnded)
        await send(world, part, settings=RunSettings(workspace=str(two)))
        files = saved(await world.until("s", e.RunEnded, times=2))
        for folder in (one, two):
            assert await asyncio.to_thread(files_of, folder) == {files[0].path: ZIP}
        assert files[0] == files[1]
        assert all(files[0].path in str(messages(chaos.seen.request(nth))) for nth in (1, 2))


async def test_a_workspace_that_cannot_be_written_is_said_to_the_model_and_the_next_run_tries_again(
    tmp_path: Path,
) -> None:
    """P12: a file is never said to be where it isn't."""
    in_the_way = tmp_path / "attachments"
    await asyncio.to_thread(in_the_way.write_bytes, b"not a folder")
    async with (
        ChaosServer([Say("ok")], after_last="repeat") as chaos,
        process(chaos, reader(), workspace=tmp_path) as world,
    ):
        await send(world, await attach(world, ZIP, name="data.zip"))
        log = await world.until("s", e.RunEnded)
        (failed,) = saved(log)
        assert (failed.path, ending(log).outcome) == ("", "completed")
        assert f"couldn't be saved in the workspace, so you can't read it. {failed.why}" in str(
            messages(chaos.seen.request(1))
        )
        await asyncio.to_thread(in_the_way.unlink)
        await send(world)
        _, file = saved(await world.until("s", e.RunEnded, times=2))
        assert await asyncio.to_thread(files_of, tmp_path) == {file.path: ZIP}
        assert file.path in str(messages(chaos.seen.request(2)))


async def test_an_agent_without_a_tool_that_reads_files_gets_none(tmp_path: Path) -> None:
    async with ChaosServer([Say("ok")]) as chaos, process(chaos, workspace=tmp_path) as world:
        await send(world, await attach(world, ZIP, name="data.zip"))
        assert not saved(await world.until("s", e.RunEnded))
        assert not await asyncio.to_thread(files_of, tmp_path)
        assert "data.zip: application/zip, 60 bytes, not shown" in str(messages(chaos.seen.request(1)))


@dataclass(slots=True)
class Outside:
    """What does not die with the process."""

    root: Path
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    was_there: list[bool] = field(default_factory=list[bool])  # the file, each time the log was to say so


class LooksFirst(CrashingStore):
    """Looks for the file when the log is about to say where it is."""

    def __init__(self, outside: Outside, crash: CrashPoint) -> None:
        super().__init__(outside.disk, crash, after=False)
        append = self.append_run

        async def looking(session_id: str, events: Sequence[Event], **rest: Any) -> Any:
            for file in [file for one in events if isinstance(one, e.AttachmentsSaved) for file in one.files]:
                found = await asyncio.to_thread(files_of, outside.root)
                outside.was_there.append(found == {file.path: ZIP})
            return await append(session_id, events, **rest)

        self.append_run = looking


async def live(chaos: ChaosServer, outside: Outside, crash: CrashPoint) -> None:
    """One process, from its start to the run's end or its crash."""
    died = asyncio.Event()

    def die() -> NoReturn:
        died.set()
        raise Crashed

    crash.die = die
    store = LooksFirst(outside, crash)

    async def use(world: World) -> None:
        if not await world.store.last_seq("s"):
            await send(world, await attach(world, ZIP, name="data.zip"))
        await world.until("s", e.RunEnded)

    with suppress(Crashed, JournalError, BaseExceptionGroup):
        async with process(chaos, reader(), store=store, workspace=outside.root) as world:
            user, dead = asyncio.create_task(use(world)), asyncio.create_task(died.wait())
            await either(user, dead)


async def test_after_a_crash_at_any_append_the_file_is_there_once_and_before_the_model_is_told(
    tmp_path: Path,
) -> None:
    """P2, P6: a crash between the file and its event leaves a file that the next process finds again."""
    for nth in count(1):
        outside, crash = Outside(tmp_path / str(nth)), CrashPoint(nth)
        await asyncio.to_thread(outside.root.mkdir)
        async with ChaosServer([Say("ok")], after_last="repeat") as chaos:
            await live(chaos, outside, crash)
            await live(chaos, outside, CrashPoint(10_000))
        log = await MemoryStore(outside.disk).read("s", limit=1_000)
        (file,) = saved(log)
        assert await asyncio.to_thread(files_of, outside.root) == {file.path: ZIP}
        assert outside.was_there
        assert all(outside.was_there)
        assert file.path in str(messages(chaos.seen.request(1)))
        assert ending(list(log)).outcome == "completed"
        if not crash.has_crashed:
            break
