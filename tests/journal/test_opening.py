"""A store that cannot be written when it is opened: it is read meanwhile, and opens by itself."""

import asyncio
import logging
import sys
import threading
from pathlib import Path
from typing import cast

import apsw
import pytest

from agent.world import process
from holdfast import events as e
from holdfast.chaos import ChaosServer, Say
from holdfast.interfaces.journal import (
    TRANSIENT,
    FenceLost,
    JournalError,
    StoreClosed,
    StoreFailed,
    StoreLocked,
    StoreReadOnly,
)
from holdfast.journal.spool import Spool, spool_files
from holdfast.journal.sqlite.commits import Commits
from holdfast.journal.sqlite.tuning import Tuning
from holdfast.journal.sqlite.writer import Writer
from journal.labs import until
from journal.sample import begin, delta, message
from scene import Scene
from stores import SqliteStore

# A lock that another program keeps is waited for no longer than this.
QUICK = Tuning(lock_s=0.05)


def lock(path: Path) -> apsw.Connection:
    """Someone else's write lock; closing it lets go."""
    foreign = apsw.Connection(str(path))
    foreign.execute("BEGIN EXCLUSIVE")
    return foreign


async def left_by_a_dead_process(path: Path) -> None:
    """A session with a run in its first call."""
    scene = Scene()
    scene.put(e.SessionCreated, epoch="e")
    scene.send("hi", run_id="r1")
    scene.call()
    store = await SqliteStore.open(path)
    await store.append("s1", cast("list[e.Input]", [event for _, event in scene.log]))
    await store.close()


STRANGER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(connection.execute("SELECT max(seq) FROM log").fetchone()[0])
connection.close()
"""


async def seen_by_a_stranger(path: Path) -> int:
    """The newest seq as another program sees it, which then closes the file."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", STRANGER, str(path), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await child.communicate()
    return int(said)


async def test_a_second_try_to_open_a_store_lets_go_of_no_lock_that_its_readers_have(tmp_path: Path) -> None:
    """P1: else the next program that looks at the file takes the log away under us, and what is in it."""
    path = tmp_path / "journal.db"
    store = await SqliteStore.open(path)
    await begin(store)
    again = await SqliteStore.open(path)
    assert await seen_by_a_stranger(path) == 1
    await store.append("s1", [message("still there")])
    assert await seen_by_a_stranger(path) == 2
    await again.close()
    await store.close()


async def test_a_log_that_was_taken_away_is_noticed_before_anything_is_lost_in_it(tmp_path: Path) -> None:
    """P1, P2: whoever reads the file within this process makes SQLite's locks void for a stranger."""
    path = tmp_path / "journal.db"
    store = await SqliteStore.open(path)
    fence = await begin(store)
    await asyncio.to_thread(path.read_bytes)
    assert await seen_by_a_stranger(path) == 1
    for _ in range(2):
        with pytest.raises(StoreFailed, match="Nothing more is accepted"):
            await store.append("s1", [message("lost?")])
        with pytest.raises(StoreFailed, match="Nothing more is accepted"):
            await store.append_run("s1", [delta("lost?")], fence=fence)
    await until(lambda: "restart Holdfast" in str(store.trouble))
    await store.close()
    store = await SqliteStore.open(path)
    await store.append("s1", [message("kept")])
    assert await seen_by_a_stranger(path) == 2
    await store.close()


async def test_a_log_that_was_taken_away_before_the_first_commit_is_noticed_too(tmp_path: Path) -> None:
    """P1, P2: also where the store was opened by another name."""
    path = tmp_path / "link.db"
    path.symlink_to(tmp_path / "journal.db")
    store = await SqliteStore.open(path)
    await begin(store)
    await store.close()
    store = await SqliteStore.open(path)
    await asyncio.to_thread(path.read_bytes)
    assert await seen_by_a_stranger(path) == 1
    with pytest.raises(StoreFailed, match="Nothing more is accepted"):
        await store.append("s1", [message("lost?")])
    await store.close()


async def test_a_locked_store_is_read_at_once_and_written_when_the_lock_is_let_go(tmp_path: Path) -> None:
    """P2: until then every write is refused, and what was refused is not there afterwards."""
    path = tmp_path / "journal.db"
    await left_by_a_dead_process(path)
    foreign = lock(path)
    store = await SqliteStore.open_readable(path, tuning=QUICK)
    before = await store.read("s1")
    assert before
    assert isinstance(store.trouble, StoreLocked)
    for write in (store.append("s1", [message("x")]), store.claim("s1"), store.put_note("k", b"v")):
        with pytest.raises(StoreLocked, match="wait until it is done"):
            await write
    waiting = asyncio.create_task(store.writable())
    following = asyncio.create_task(anext(store.follow("s1", after=before[-1].seq)))
    assert await store.note("k") is None
    assert not waiting.done()
    foreign.close()
    await waiting
    assert store.trouble is None
    fence = await store.claim("s1")
    await store.append_run("s1", [delta("on")], fence=fence)
    assert [record.event for record in await following] == [delta("on")]
    await store.close()


async def test_the_fence_is_raised_when_the_store_opens_for_writing_not_before(tmp_path: Path) -> None:
    """P6: an owner that still lives keeps its fence until then, and loses it then."""
    path = tmp_path / "journal.db"
    owner = await SqliteStore.open(path)
    fence = await begin(owner, run_id="r1")
    foreign = lock(path)
    late = await SqliteStore.open_readable(path, tuning=QUICK)
    foreign.close()
    await late.writable()
    with pytest.raises(FenceLost):
        await owner.append_run("s1", [delta("too late")], fence=fence)
    await late.close()
    await owner.close()


async def test_a_store_without_a_schema_is_waited_for_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """P3: the wait is visible."""
    path = tmp_path / "journal.db"
    foreign = lock(path)
    caplog.set_level(logging.WARNING)
    opening = asyncio.create_task(SqliteStore.open_readable(path, tuning=QUICK))
    await until(lambda: "can't be read yet" in caplog.text)
    assert not opening.done()
    foreign.close()
    store = await opening
    assert store.trouble is None
    await begin(store)
    await store.close()


async def test_closing_a_store_that_never_opened_leaves_no_thread_and_nobody_waiting(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await left_by_a_dead_process(path)
    threads = set(threading.enumerate())
    foreign = lock(path)
    store = await SqliteStore.open_readable(path, tuning=QUICK)
    waiting = asyncio.create_task(store.writable())
    await store.close()
    with pytest.raises(JournalError):
        await waiting
    with pytest.raises(StoreClosed):
        await store.append("s1", [message("x")])
    await until(lambda: set(threading.enumerate()) <= threads)
    foreign.close()


async def test_what_does_not_pass_by_itself_is_an_error_at_once(tmp_path: Path) -> None:
    """P12: nobody waits for a newer schema or for a directory to appear."""
    with pytest.raises(StoreReadOnly, match="check that the directory exists"):
        await SqliteStore.open_readable(tmp_path / "nowhere" / "journal.db")
    path = tmp_path / "journal.db"
    database = apsw.Connection(str(path))
    database.pragma("journal_mode", "wal")
    database.pragma("user_version", 999)
    database.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreReadOnly, match="written by a newer Holdfast"):
        await SqliteStore.open_readable(path, tuning=QUICK)
    database.close()


async def test_runs_go_on_only_after_the_lock_is_let_go_and_the_spool_absorbed(tmp_path: Path) -> None:
    """P6: what an input asks for meanwhile happens after it, too."""
    path = tmp_path / "journal.db"
    await left_by_a_dead_process(path)
    await Spool(tmp_path / "spool").put("s1", "r1", [delta("late")])
    foreign = lock(path)
    store = await SqliteStore.open_readable(path, tuning=QUICK)
    async with (
        ChaosServer([Say("on")]) as chaos,
        process(chaos, store=store, spool=Spool(tmp_path / "spool")) as world,
    ):
        world.supervisor.wake("s1", 1)
        assert world.supervisor.active == 0
        foreign.close()
        log = await world.until("s1", e.RunResumed)
    events = [record.event for record in log]
    assert events.index(delta("late")) < next(
        n for n, one in enumerate(events) if isinstance(one, e.RunResumed)
    )
    assert not await asyncio.to_thread(spool_files, tmp_path / "spool")
    await store.close()


async def test_nobody_waits_for_a_writer_whose_thread_has_ended(tmp_path: Path) -> None:
    """P3: the trouble of opening may pass, but not for a thread that no longer tries."""

    def connect() -> Commits:
        raise RuntimeError("a bug")

    writer = Writer(tmp_path / "journal.db", connect, forget=lambda: None)
    with pytest.raises(StoreClosed, match=r"restart Holdfast: StoreFailed.*a bug"):
        await writer.open()
    assert not isinstance(writer.trouble, TRANSIENT)
    await writer.close()
