"""What cannot be written: half a character is told in whole ones, and a bug of ours ends its run."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from agent.world import Effect, asks_about, ending, messages, people, process, send, tool_ends
from holdfast import events as e
from holdfast.agent.runlog import RunLog, Unwritable
from holdfast.chaos import CallTool, ChaosServer, Gate, Say
from holdfast.interfaces.journal import Following, Record, StoreLocked
from holdfast.interfaces.system_clock import SystemClock
from holdfast.redaction import NO_SECRETS, Redactor
from holdfast.tools.files.contents import FilesSeen
from holdfast.tools.files.edits import WriteFile
from holdfast.tools.files.listing import ListFiles
from stores import MemoryStore

OLD_NAME = b"caf\xe9.txt"


@pytest.mark.parametrize(
    "secrets", [NO_SECRETS, Redactor(["key-of-somebody"])], ids=["no secret", "a secret"]
)
async def test_a_file_whose_name_is_no_utf8_is_listed_and_the_run_goes_on(
    tmp_path: Path, secrets: Redactor
) -> None:
    """P3, P4: what a folder holds ends no run."""
    await asyncio.to_thread(lambda: Path(os.fsdecode(bytes(tmp_path) + b"/" + OLD_NAME)).touch())
    async with (
        ChaosServer([CallTool("list_files")], [Say("seen")]) as chaos,
        process(chaos, ListFiles(), workspace=tmp_path, secrets=secrets) as world,
    ):
        await send(world)
        log = await world.until("s", e.RunEnded)
        assert ending(log).outcome == "completed"
        assert [ended.result for ended in tool_ends(log)] == [r"caf\udce9.txt"]
        assert messages(chaos.seen.request(2))[-1]["content"] == r"caf\udce9.txt"


async def test_an_approval_about_a_file_whose_name_is_no_utf8_counts(tmp_path: Path) -> None:
    """P8: what people are shown is compared as they were shown it."""

    def linked() -> None:
        Path(os.fsdecode(bytes(tmp_path) + b"/" + OLD_NAME)).write_text("old\n")
        (tmp_path / "link").symlink_to(os.fsdecode(OLD_NAME))

    await asyncio.to_thread(linked)
    write = CallTool("write_file", {"path": "link", "content": "new\n"})
    async with (
        ChaosServer([write], [Say("written")]) as chaos,
        process(chaos, WriteFile(FilesSeen()), judge=asks_about("write_file"), workspace=tmp_path) as world,
    ):
        await send(world)
        answering = asyncio.create_task(people(world, "s"))
        log = await world.until("s", e.RunEnded)
        answering.cancel()
        assert ending(log).outcome == "completed"
        assert sum(isinstance(record.event, e.ApprovalAsked) for record in log) == 1


@pytest.mark.parametrize("when", ["at once", "after a lock", "after it was written"])
async def test_what_cannot_be_written_ends_its_run_as_a_bug_of_ours(when: str) -> None:
    """P3, P4: it is no trouble of the store, so nothing is waited for, and the session goes on."""

    class Stumbling(MemoryStore):
        is_locked = when == "after a lock"

        async def append_run(self, session_id: str, events: Sequence[e.Event], **rest: Any) -> Any:
            if any(isinstance(event, e.ToolEnded) and event.ok for event in events):
                if self.is_locked:
                    self.is_locked = False
                    raise StoreLocked("a backup has the file")
                if when == "after it was written":
                    await super().append_run(session_id, events, **rest)
                raise TypeError("this cannot be encoded")
            return await super().append_run(session_id, events, **rest)

    async with (
        ChaosServer([CallTool("one")], [Say("ok")]) as chaos,
        process(chaos, Effect("one", []), store=Stumbling()) as world,
    ):
        await send(world)
        log = await world.until("s", e.RunEnded)
        assert (ending(log).outcome, ending(log).cause) == ("failed", "local_bug")
        assert "this cannot be encoded" in str(ending(log).failure)
        is_written = when == "after it was written"
        assert [ended.ending for ended in tool_ends(log)] == ["finished" if is_written else "killed"]
        await send(world, "and now?")
        last = (await world.until("s", e.RunEnded, times=2))[-1].event
        assert isinstance(last, e.RunEnded)
        assert last.outcome == "completed"


async def test_what_was_written_after_all_is_ended_once_although_its_reader_lags() -> None:
    """P4: the ending is made from what is on the disk, not from how far the log was followed."""

    class Lagging:
        """A reader that is not shown the end of a tool before the end of its run."""

        def __init__(self, inner: Following, until: Gate) -> None:
            self._inner, self._until = inner, until
            self.wake = inner.wake

        def __aiter__(self) -> Self:
            return self

        async def __anext__(self) -> Sequence[Record]:
            records = await anext(self._inner)
            if any(isinstance(record.event, e.ToolEnded) for record in records):
                await self._until.passed()
            return records

    class Stumbling(MemoryStore):
        run_ended = Gate()

        def follow(self, session_id: str, **how: Any) -> Any:
            return Lagging(super().follow(session_id, **how), self.run_ended)

        async def append_run(self, session_id: str, events: Sequence[e.Event], **rest: Any) -> Any:
            appended = await super().append_run(session_id, events, **rest)
            if any(isinstance(event, e.RunEnded) for event in events):
                self.run_ended.open()
            if any(isinstance(event, e.ToolEnded) and event.ok for event in events):
                raise TypeError("this cannot be encoded")
            return appended

    async with (
        ChaosServer([CallTool("one")]) as chaos,
        process(chaos, Effect("one", []), store=Stumbling()) as world,
    ):
        await send(world)
        log = await world.until("s", e.RunEnded)
        assert [ended.ending for ended in tool_ends(log)] == ["finished"]
        assert ending(log).cause == "local_bug"


async def test_what_is_said_behind_it_does_not_hold_up_the_ending() -> None:
    """P3: a tool that is under way goes on speaking while nothing is taken."""

    class Stumbling(MemoryStore):
        stumbles = True

        async def append_run(self, session_id: str, events: Sequence[e.Event], **rest: Any) -> Any:
            if self.stumbles:
                self.stumbles = False
                raise TypeError("this cannot be encoded")
            return await super().append_run(session_id, events, **rest)

    store = Stumbling()
    await store.append("s", [e.SessionCreated(at_ms=1, epoch="e")])
    spoken = e.RunStarted(at_ms=1, run_id="r")
    async with RunLog(store, SystemClock(), run=("s", "r"), fence=await store.claim("s")) as log:
        log.emit(spoken)
        with pytest.raises(Unwritable):
            await log.flush()
        log.emit(spoken)
        await asyncio.sleep(0)  # its write finds that nothing is taken
        log.drop_unwritable()
        log.emit(spoken)
        await log.flush()
    assert [record.event for record in await store.read("s")][1:] == [spoken]
