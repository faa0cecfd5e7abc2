"""Thinning in the file: a loss is still found, damage is left alone, and no power cut takes anything."""

import asyncio
import itertools
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import apsw
import pytest

from fakes.lossy_vfs import LossyVFS
from holdfast.codec import encode
from holdfast.folds import transcript
from holdfast.folds.transcript import Transcript
from holdfast.interfaces.journal import JournalError, Record, Store, StoreDamaged
from holdfast.journal.sqlite.integrity import Checked, check_store
from holdfast.journal.sqlite.queries import migrations
from journal.labs import SqliteLab
from journal.sample import message, seqs
from journal.thinning_scene import LATE_MS, new_scene, old_run, stored, texts, thin
from stores import SqliteStore

WORDS = [f"word{nth} " for nth in range(300)]


@pytest.fixture
def vfs() -> Iterator[LossyVFS]:
    with LossyVFS("lossy") as lossy:
        yield lossy


async def checked(path: Path) -> Checked:
    return await asyncio.to_thread(check_store, path, on_progress=lambda _, __: None)


async def made(folder: Path, *, runs: int = 1) -> SqliteLab:
    """A closed store with a session of so many old runs."""
    await asyncio.to_thread(folder.mkdir)
    lab = SqliteLab(folder)
    store = await lab.open()
    scene = new_scene()
    for nth in range(runs):
        old_run(scene, f"r{nth}", *WORDS)
    await stored(store, scene)
    await store.close()
    return lab


def damage(database: apsw.Connection, seq: int) -> None:
    """Change the event's checksum, wherever it is kept."""
    for table in ("events", "recent"):
        database.execute(f"UPDATE {table} SET crc = crc + 1 WHERE seq = {seq}")  # noqa: S608  # names of ours


def fold(records: list[Record]) -> Transcript:
    return transcript.fold((record.seq, record.event) for record in records)


async def whole(store: Store) -> list[Record]:
    return list(await store.read("s1", limit=10_000))


async def test_a_gap_that_thinning_left_is_no_loss_and_any_other_is(tmp_path: Path) -> None:
    """P1: the check knows the one from the other, wherever an event is lost."""
    lab = await made(tmp_path / "store", runs=2)
    store = await lab.open()
    assert await thin(store) == 2 * (len(WORDS) + 3 - 2)
    kept = seqs(await whole(store))
    await store.close()
    found = await checked(lab.path)
    assert (found.faults, found.events) == ([], len(kept))
    for seq in kept[:-1]:
        here = await asyncio.to_thread(shutil.copytree, tmp_path / "store", tmp_path / f"without{seq}")
        database = apsw.Connection(str(here / "journal.db"))
        database.execute("DELETE FROM events WHERE seq = ?", (seq,))
        database.close()
        (fault,) = (await checked(here / "journal.db")).faults
        assert f"seq {seq} is missing before it" in fault


async def test_a_damaged_log_is_left_as_it_is_and_not_looked_through_again(tmp_path: Path) -> None:
    """P1: what may be evidence is not rewritten."""
    lab = await made(tmp_path / "store")
    database = apsw.Connection(str(lab.path))
    damage(database, 40)
    rows = sorted(database.execute("SELECT * FROM log"))
    store = await lab.open()
    with pytest.raises(StoreDamaged, match="session s1 seq 40"):
        await thin(store)
    assert sorted(database.execute("SELECT * FROM log")) == rows
    assert list(await store.unthinned(before_ms=LATE_MS)) == []
    await store.append("s1", [message("on", at_ms=LATE_MS + 1)])
    assert list(await store.unthinned(before_ms=LATE_MS + 2)) == ["s1"]
    database.close()
    await store.close()


async def test_damage_that_comes_between_the_look_and_the_step_is_not_written_over(tmp_path: Path) -> None:
    """P1: a joined delta gets a checksum of its own, so those of its parts are checked first."""
    lab = await made(tmp_path / "store", runs=4)
    store = await lab.open()
    thinning = store.thin("s1", before_ms=LATE_MS)
    assert await anext(thinning) == 0
    database = apsw.Connection(str(lab.path))
    damage(database, 40)
    damage(database, 400)
    with pytest.raises(StoreDamaged, match="session s1 seq 40"):
        async for _ in thinning:
            pass
    assert database.execute("SELECT count(*) FROM spans").fetchall() == [(0,)]
    database.close()
    await store.append("s1", [message("the store still takes what comes")])
    await store.close()


async def test_a_purge_takes_along_what_thinning_noted(tmp_path: Path) -> None:
    lab = await made(tmp_path / "store")
    store = await lab.open()
    await thin(store)
    await store.purge("s1")
    await store.close()
    database = apsw.Connection(str(lab.path))
    assert database.execute("SELECT count(*) FROM spans").fetchall() == [(0,)]
    database.close()
    assert not any(b"word7 " in file.read_bytes() for file in lab.folder.iterdir())


async def test_a_store_from_before_thinning_is_checked_as_it_is_then_upgraded_and_thinned(
    tmp_path: Path,
) -> None:
    """P1: an upgrade loses nothing, and old logs become small, too."""
    path = tmp_path / "journal.db"
    database = apsw.Connection(str(path))
    database.pragma("journal_mode", "wal")
    steps = (await asyncio.to_thread(migrations))[:3]
    for step in steps:
        database.execute(step.sql)
    database.pragma("user_version", len(steps))
    log = old_run(new_scene(), "r1", *WORDS).log
    database.execute(
        "INSERT INTO sessions (session_id, epoch, title, titled, source, workspace, preview, created_ms, "
        "updated_ms, pinned, archived, purge_at_ms, messages) VALUES "
        "('s1', 'e', 't', 1, 'api', '', '', ?, ?, 0, 0, 0, 1)",
        (log[0][1].at_ms, log[-1][1].at_ms),
    )
    records = [Record("s1", seq, body=encode(event)) for seq, event in log]
    rows = [(1, one.seq, crc32(one.body), one.body) for one in records]
    database.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", rows)
    database.close()
    assert (await checked(path)).faults == []
    store = await SqliteStore.open(path)
    assert [record.body for record in await whole(store)] == [record.body for record in records]
    assert list(await store.unthinned(before_ms=LATE_MS)) == ["s1"]
    assert await thin(store) == len(WORDS) + 3 - 2
    assert fold(await whole(store)) == fold(records)
    await store.close()
    assert (await checked(path)).faults == []


async def test_a_power_cut_at_any_operation_of_a_thinning_costs_nothing(
    tmp_path: Path, vfs: LossyVFS
) -> None:
    """P1, P6: each stretch is joined or as it was, and the next owner goes on."""
    lab = await made(tmp_path / "before", runs=2)
    store = await lab.open()
    expected = fold(await whole(store))
    await store.close()
    for nth in itertools.count(1):
        folder = await asyncio.to_thread(shutil.copytree, tmp_path / "before", tmp_path / f"{nth}")
        here = SqliteLab(folder, vfs=vfs.name)
        store = await here.open()
        cuts = vfs.power_cuts
        vfs.cut_power_at(nth, seed=nth, loss="torn")
        gone = 0
        with suppress(JournalError):
            async for count in store.thin("s1", before_ms=LATE_MS):
                gone += count
        await store.close()
        was_cut = vfs.power_cuts > cuts
        vfs.heal()
        store = await here.open()
        assert fold(await whole(store)) == expected
        assert len(await whole(store)) <= expected.last_seq - gone
        await thin(store)
        assert len(texts(await whole(store))) == 4
        await store.close()
        assert (await checked(here.path)).faults == []
        if not was_cut:
            assert nth > 20
            break
