"""Events wait in the order of their arrival before they move into their logs, and nobody can tell."""

import asyncio
import logging
import shutil
from pathlib import Path
from typing import cast

import apsw
import pytest

from holdfast.interfaces.journal import Appended
from holdfast.journal.sqlite.reader import SqliteReader
from holdfast.journal.sqlite.store_files import LEFT_BYTES_MIN, STEP_BYTES, WalReserve
from holdfast.journal.sqlite.tuning import Tuning
from journal.sample import begin, delta, message, seqs
from stores import SqliteStore

SESSIONS = ("s1", "s2", "s3")
COUNT = "SELECT (SELECT count(*) FROM recent), (SELECT count(*) FROM events)"


def counted(path: Path) -> tuple[int, int]:
    """How many events wait, and how many are in their logs."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return cast("tuple[int, int]", connection.execute(COUNT).fetchall()[0])
    finally:
        connection.close()


async def write(store: SqliteStore, rounds: int) -> None:
    for session_id in SESSIONS:
        await begin(store, session_id)
    fence = await store.claim("")
    for nth in range(rounds):
        for session_id in SESSIONS:
            await store.append_run(session_id, [delta(f"{nth}"), delta("on")], fence=fence)


@pytest.mark.parametrize("moved_min", [7, 2_000])
async def test_wherever_events_are_each_log_reads_whole_and_in_order(tmp_path: Path, moved_min: int) -> None:
    """P2, P7: for the process that wrote them, for another one, and for the next owner."""
    path = tmp_path / "journal.db"
    tuning = Tuning(moved_min=moved_min, moved_of_log=1)
    store = await SqliteStore.open(path, window_bytes_max=0, tuning=tuning)
    await write(store, 10)
    waiting, moved = await asyncio.to_thread(counted, path)
    assert waiting + moved == len(SESSIONS) * 21
    assert waiting < moved_min
    assert (moved > 0) == (moved_min == 7)
    reader = SqliteReader(path, vfs=None)
    for session_id in SESSIONS:
        assert seqs(await store.read(session_id)) == list(range(1, 22))
        assert seqs(await reader.read(session_id, after=5, limit=3)) == [6, 7, 8]
        assert await reader.last_seq(session_id) == 21
    assert await reader.last_seq("nobody") == 0
    await reader.close()
    killed = await asyncio.to_thread(shutil.copytree, tmp_path, tmp_path / "killed")
    await store.close()
    store = await SqliteStore.open(killed / "journal.db")
    assert await asyncio.to_thread(counted, killed / "journal.db") == (0, len(SESSIONS) * 21)
    for session_id in SESSIONS:
        assert seqs(await store.read(session_id)) == list(range(1, 22))
        assert await store.append(session_id, [message("on")]) == Appended(22, 22)
    await store.close()


async def test_a_large_append_goes_into_its_log_at_once_and_keeps_its_place(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "journal.db", window_bytes_max=0)
    await begin(store)
    fence = await store.claim("s1")
    await store.append_run("s1", [delta("a")], fence=fence)
    await store.append_run("s1", [delta("b" * 5_000), delta("c")], fence=fence)
    await store.append_run("s1", [delta("d")], fence=fence)
    assert await asyncio.to_thread(counted, tmp_path / "journal.db") == (3, 2)
    assert [len(record.body) > 5_000 for record in await store.read("s1")] == [
        False,
        False,
        True,
        False,
        False,
    ]
    await store.close()


async def test_a_purge_takes_what_waits_along_and_the_store_opens_again(tmp_path: Path) -> None:
    """P6: the newest arrivals are gone, and nobody takes that for damage."""
    path = tmp_path / "journal.db"
    store = await SqliteStore.open(path)
    await write(store, 2)
    await store.purge("s3")
    assert (await asyncio.to_thread(counted, path))[0] == 2 * 5
    await store.close()
    store = await SqliteStore.open(path)
    assert [len(await store.read(session_id)) for session_id in SESSIONS] == [5, 5, 0]
    await store.close()


async def test_the_log_s_file_is_longer_than_what_is_in_it(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "journal.db")
    await begin(store)
    assert (tmp_path / "journal.db-wal").stat().st_size >= STEP_BYTES
    await store.close()


def test_room_is_made_a_step_at_a_time_and_no_more_than_the_log_may_need(tmp_path: Path) -> None:
    log = tmp_path / "s.db-wal"
    log.write_bytes(bytes(5_000))
    room = WalReserve(tmp_path / "s.db", page_bytes=4_096, pages_max=200)
    # 50 pages fit into the first step, 60 and 130 need one more each, and 195 are more than the log may have.
    for pages, steps in ((1, 1), (50, 1), (60, 2), (130, 3), (195, 3)):
        room.make(pages)
        assert log.stat().st_size == 5_000 + steps * STEP_BYTES, pages
    log.write_bytes(b"")
    room.forget()
    room.make(0)
    assert log.stat().st_size == STEP_BYTES > LEFT_BYTES_MIN
    room.close()


def test_where_no_room_can_be_made_it_is_tried_once_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """P9: a full disk is the commit's to report; each commit would try, and say, the same again."""
    caplog.set_level(logging.INFO)
    (tmp_path / "s.db-wal").symlink_to("/dev/full")
    room = WalReserve(tmp_path / "s.db", page_bytes=4_096, pages_max=100)
    for pages in (1, 2, 50):
        room.make(pages)
    assert [record.getMessage() for record in caplog.records] == [
        f"can't reserve space in {tmp_path / 's.db-wal'}: No space left on device"
    ]
    room.close()
