"""Late journals: the store can be read but not written, and nothing is lost, doubled or out of its place."""

import asyncio
import errno
import os
import stat
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import apsw
import pytest

from agent.world import Effect, World, asks_about, process
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Wait
from holdfast.events import Event
from holdfast.folds.transcript import fold, output
from holdfast.interfaces.journal import Record, StoreLocked
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.retrying_append import RetryingAppend, absorb
from holdfast.journal.spool import Spool, Spooled, read_spool, spool_files
from holdfast.journal.sqlite.tuning import Tuning
from holdfast.runner.inbox import IncomingMessage, Sent
from holdfast.targets import Patience
from journal.sample import AT_MS, answered, asked, begin, delta, ended
from stores import MemoryStore, SqliteStore


async def sent(world: World) -> str:
    accepted = await world.inbox.send("s", IncomingMessage(text="hi"))
    assert isinstance(accepted, Sent)
    return accepted.run_id


def events_of(records: list[Record]) -> list[Event]:
    return [record.event for record in records]


async def test_a_foreign_lock_in_mid_answer_pauses_the_run_and_nothing_is_lost(tmp_path: Path) -> None:
    """P1, P2: what cannot be saved is not shown, waits in the spool, and lands in its place, once."""
    first, second = Gate(), Gate()
    store = await SqliteStore.open(tmp_path / "journal.db", tuning=Tuning(lock_s=0.05))
    spool = Spool(tmp_path / "spool")
    script = [Say("one "), Wait(first), Say("two "), Wait(second), Say("three")]
    async with (
        ChaosServer(script) as chaos,
        process(chaos, store=store, spool=spool, patience=Patience()) as world,
    ):
        run_id = await sent(world)
        await world.until("s", e.TextDelta)
        lock = apsw.Connection(str(tmp_path / "journal.db"))
        lock.execute("BEGIN IMMEDIATE")
        before = await store.last_seq("s")
        first.open()
        while not await asyncio.to_thread(spool_files, tmp_path / "spool"):  # noqa: ASYNC110  # files ring no bell
            await asyncio.sleep(0)
        assert await store.last_seq("s") == before
        owner = world.supervisor.owner("s")
        assert owner is not None
        assert "saving is delayed" in owner.logs[run_id].live_line()
        lock.execute("ROLLBACK")
        lock.close()
        second.open()
        log = await world.until("s", e.RunEnded)
        seen = fold((record.seq, record.event) for record in log)
        assert output(seen, run_id) == "one two three"
        assert [record.seq for record in log] == list(range(1, len(log) + 1))
    assert not await asyncio.to_thread(spool_files, tmp_path / "spool")
    await store.close()


async def test_all_that_a_run_says_while_the_store_is_late_is_spooled_and_its_end_waits_for_no_lock(
    tmp_path: Path,
) -> None:
    """P1, P6: a shutdown under a foreign lock is quick, and the next process has all of it, in order."""
    first, second, third = Gate(), Gate(), Gate()
    store = await SqliteStore.open(tmp_path / "journal.db", tuning=Tuning(lock_s=0.05))
    folder = tmp_path / "spool"
    script = [Wait(first), Say("one "), Wait(second), Say("two "), Wait(third)]
    async with ChaosServer(script, [Say("anew")]) as chaos:
        async with process(chaos, store=store, spool=Spool(folder), patience=Patience()) as world:
            run_id = await sent(world)
            await world.until("s", e.AttemptStarted)
            lock = apsw.Connection(str(tmp_path / "journal.db"))
            lock.execute("BEGIN IMMEDIATE")
            first.open()
            await until_spooled(folder, b"one ")
            second.open()
            await until_spooled(folder, b"two ")
        lock.close()
        async with process(chaos, store=store, spool=Spool(folder), patience=Patience()) as world:
            log = await world.until("s", e.RunEnded)
    texts = [record.event.text for record in log if isinstance(record.event, e.TextDelta)]
    assert "".join(texts) == "one two anew"
    assert output(fold((record.seq, record.event) for record in log), run_id) == "anew"
    await store.close()


async def until_spooled(folder: Path, text: bytes) -> None:
    def spooled() -> bytes:
        return b"".join(path.read_bytes() for path in spool_files(folder))

    while text not in await asyncio.to_thread(spooled):  # noqa: ASYNC110  # files ring no bell
        await asyncio.sleep(0)


async def test_a_withdrawal_in_the_spool_takes_back_no_answer_that_came_before_it_landed(
    tmp_path: Path,
) -> None:
    """P8: the answer stands, and the log is still one that can be folded."""
    store = await SqliteStore.open(tmp_path / "journal.db")
    fence = await begin(store, run_id="r1")
    await store.append_run("s1", [asked("a1"), asked("a2")], fence=fence)
    await store.append("s1", [answered("a1")])
    spool = Spool(tmp_path)
    for approval_id in ("a1", "a2"):
        withdrawn = e.ApprovalWithdrawn(at_ms=AT_MS, run_id="r1", approval_id=approval_id, cause="user_stop")
        await spool.put("s1", "r1", [withdrawn])
    await absorb(store, tmp_path, now_ms=AT_MS)
    tail = events_of(list(await store.read("s1")))[-2:]
    assert tail[0] == answered("a1")
    assert isinstance(tail[1], e.ApprovalWithdrawn)
    assert tail[1].approval_id == "a2"
    assert await asyncio.to_thread(spool_files, tmp_path) == []
    await store.close()


async def test_a_spool_that_cannot_be_read_is_put_aside_and_keeps_nothing_else_from_landing(
    tmp_path: Path,
) -> None:
    """P6: one bad file, say of a newer version, does not keep a server from starting."""
    store = await SqliteStore.open(tmp_path / "journal.db")
    await begin(store, run_id="r1")
    await Spool(tmp_path).put("s1", "r1", [delta("from the future")])
    (path,) = await asyncio.to_thread(spool_files, tmp_path)
    data = (await asyncio.to_thread(path.read_bytes)).replace(b"text.delta", b"text.gamma")[8:]
    await asyncio.to_thread(path.write_bytes, struct.pack("<II", len(data), crc32(data)) + data)
    await Spool(tmp_path).put("s1", "r1", [delta("whole")])
    assert await absorb(store, tmp_path, now_ms=AT_MS) == 1
    assert events_of(list(await store.read("s1")))[-1] == delta("whole")
    assert await asyncio.to_thread(lambda: [file.suffix for file in tmp_path.glob(f"{path.stem}*")]) == [
        ".unreadable"
    ]
    await store.close()


async def test_what_a_dead_process_left_in_its_spool_lands_once_however_often_it_is_absorbed(
    tmp_path: Path,
) -> None:
    """P6: (spool, n) is named in the transaction, so a crash between append and clean-up doubles nothing."""
    store = await SqliteStore.open(tmp_path / "journal.db")
    await begin(store, run_id="r1")
    folder = tmp_path / "spool"
    await Spool(folder).put("s1", "r1", [delta("late")])
    (path,) = await asyncio.to_thread(spool_files, folder)
    data = await asyncio.to_thread(path.read_bytes)
    assert await absorb(store, folder, now_ms=AT_MS) == 1
    await asyncio.to_thread(path.write_bytes, data)
    assert await absorb(store, folder, now_ms=AT_MS) == 1
    assert await absorb(store, folder, now_ms=AT_MS) == 0
    assert events_of(list(await store.read("s1"))).count(delta("late")) == 1
    await store.close()


async def test_output_of_a_run_that_has_ended_meanwhile_is_recovered_above_its_ending(tmp_path: Path) -> None:
    """P6: late is not lost."""
    store = await SqliteStore.open(tmp_path / "journal.db")
    fence = await begin(store, run_id="r1")
    folder = tmp_path / "spool"
    await Spool(folder).put("s1", "r1", [delta("late")])
    await store.append_run("s1", [ended("r1", outcome="interrupted")], fence=fence)
    await absorb(store, folder, now_ms=AT_MS)
    recovered = events_of(list(await store.read("s1")))[-1]
    assert isinstance(recovered, e.OutputRecovered)
    assert recovered.run_id == "r1"
    await store.close()


async def test_output_of_a_purged_session_brings_nothing_back(tmp_path: Path) -> None:
    """P12: what was purged stays purged."""
    store = await SqliteStore.open(tmp_path / "journal.db")
    await begin(store, run_id="r1")
    await Spool(tmp_path / "spool").put("s1", "r1", [delta("late")])
    await store.purge("s1")
    await absorb(store, tmp_path / "spool", now_ms=AT_MS)
    assert await store.last_seq("s1") == 0
    await store.close()


async def test_a_spool_cut_anywhere_keeps_its_whole_records_and_takes_further_ones(tmp_path: Path) -> None:
    """P1: a torn last record does not destroy the next one."""
    spool = Spool(tmp_path)
    for text in ("one", "two"):
        await spool.put("s1", "r1", [delta(text)])
    (path,) = await asyncio.to_thread(spool_files, tmp_path)
    data = await asyncio.to_thread(path.read_bytes)
    first = len(data) // 2
    for length in range(0, len(data), 7):
        await asyncio.to_thread(path.write_bytes, data[:length])
        whole = await asyncio.to_thread(lambda: list(read_spool(path)))
        assert len(whole) == (0 if length < first else 1), length
        await spool.put("s1", "r1", [delta("three")])
        again = await asyncio.to_thread(lambda: list(read_spool(path)))
        assert len(again) == len(whole) + 1


async def test_what_comes_behind_something_that_only_memory_has_is_kept_there_too(tmp_path: Path) -> None:
    """P6: a crash loses the rest of what was said, and leaves no hole in it."""

    class FullAtFirst(Spool):
        is_full = True

        async def put(
            self,
            session_id: str,
            run_id: str,
            events: Sequence[Event],
            *,
            unknown_after: int | None = None,
            after: int | None = None,
        ) -> Spooled:
            if self.is_full:
                self.is_full = False
                raise OSError(errno.ENOSPC, "no room")
            return await super().put(session_id, run_id, events, unknown_after=unknown_after, after=after)

    store, spool, all_said = MemoryStore(), FullAtFirst(tmp_path), asyncio.Event()
    fence = await begin(store, run_id="r1")
    later = [[delta("three")], [delta("two")]]

    async def meanwhile() -> Sequence[Event]:
        if later:
            return later.pop()
        all_said.set()
        return await asyncio.get_running_loop().create_future()

    late = RetryingAppend(store, SystemClock(), run=("s1", "r1"), fence=fence, spool=spool)
    locked = StoreLocked("a backup has the file")
    waiting = asyncio.create_task(late.wait_out(locked, [delta("one")], meanwhile=meanwhile))
    await all_said.wait()
    waiting.cancel()
    await asyncio.wait({waiting})
    assert not spool.is_full
    assert not await asyncio.to_thread(spool_files, tmp_path)


async def test_what_the_spool_could_not_make_safe_is_not_found_in_it_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: the run keeps it elsewhere, and so it would land twice."""
    spool = Spool(tmp_path)
    await spool.put("s1", "r1", [delta("one")])
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="worn out"):
            await spool.put("s1", "r1", [delta("two")])
    await spool.put("s1", "r1", [delta("three")])
    (path,) = await asyncio.to_thread(spool_files, tmp_path)
    kept = await asyncio.to_thread(lambda: list(read_spool(path)))
    assert [b"two" in bytes(record.events[0]) for record in kept] == [False, False]


async def test_a_record_whose_file_has_no_safe_name_is_not_found_in_it_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: as one that could not be made safe itself."""
    spool = Spool(tmp_path)
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fails_for_folders)
        with pytest.raises(OSError, match="worn out"):
            await spool.put("s1", "r1", [delta("one")])
    (path,) = await asyncio.to_thread(spool_files, tmp_path)
    assert await asyncio.to_thread(lambda: list(read_spool(path))) == []


def fails_for_folders(descriptor: int) -> None:
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        fails(descriptor)


def fails(_: int) -> None:
    raise OSError(errno.EIO, "the disk is worn out")


async def test_an_expiry_that_cannot_be_saved_at_once_is_saved_later_and_the_run_goes_on() -> None:
    """P3: a backup at the wrong moment costs a moment, not the run."""
    refused: list[e.Event] = []

    class LockedAtExpiry(MemoryStore):
        async def append_run(self, session_id: str, events: Sequence[e.Event], **rest: Any) -> Any:
            if isinstance(events[0], e.ApprovalExpired) and not refused:
                refused.append(events[0])
                raise StoreLocked("a backup has the file")
            return await super().append_run(session_id, events, **rest)

    done: list[str] = []
    async with (
        ChaosServer([CallTool("one")], [Say("pity")]) as chaos,
        process(
            chaos, Effect("one", done), store=LockedAtExpiry(), judge=asks_about("one"), asks_expire_s=0.05
        ) as world,
    ):
        await world.inbox.send("s", IncomingMessage(text="hi"))
        log = await world.until("s", e.RunEnded)
    end = log[-1].event
    assert isinstance(end, e.RunEnded)
    assert (end.outcome, done, len(refused)) == ("completed", [], 1)
