"""A power cut takes what was not synced, and nothing else."""

import itertools
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from fakes.disk_image import Loss
from fakes.lossy_vfs import LossyVFS

COMMITS = 12


@pytest.fixture
def vfs(request: pytest.FixtureRequest) -> Iterator[LossyVFS]:
    with LossyVFS(f"lossy-{request.node.name}") as lossy:
        yield lossy


def opened(vfs: LossyVFS, path: Path, synchronous: str = "FULL") -> apsw.Connection:
    db = apsw.Connection(str(path), vfs=vfs.name)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA synchronous = {synchronous}")
    db.execute("PRAGMA wal_autocheckpoint = 6")
    db.execute("CREATE TABLE IF NOT EXISTS event (seq INTEGER PRIMARY KEY, body TEXT)")
    return db


def committed_until_power_cut(vfs: LossyVFS, path: Path, synchronous: str) -> list[int]:
    """Commit row after row; give back those whose commit was acknowledged."""
    acknowledged: list[int] = []
    db: apsw.Connection | None = None
    with suppress(apsw.Error):
        db = opened(vfs, path, synchronous)
        for seq in range(1, COMMITS + 1):
            db.execute("INSERT INTO event VALUES (?, ?)", (seq, "x" * 700 * seq))
            acknowledged.append(seq)
    if db is not None:
        with suppress(apsw.Error):
            db.close()
    return acknowledged


def rows(vfs: LossyVFS, path: Path) -> list[int]:
    db = opened(vfs, path)
    try:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [seq for (seq,) in db.execute("SELECT seq FROM event ORDER BY seq")]
    finally:
        db.close()


@pytest.mark.parametrize("loss", ["all", "some", "torn"])
def test_with_full_sync_every_acknowledged_commit_survives_a_cut_at_every_operation(
    vfs: LossyVFS, tmp_path: Path, loss: Loss
) -> None:
    for nth in itertools.count(1):
        path = tmp_path / f"{nth}.db"
        vfs.cut_power_at(nth, seed=nth, loss=loss)
        acknowledged = committed_until_power_cut(vfs, path, "FULL")
        cut_happened = vfs.power_cuts == nth
        vfs.heal()
        survived = rows(vfs, path)
        # One more than acknowledged may be there: the cut can fall between the sync and its return.
        assert survived in (acknowledged, [*acknowledged, len(acknowledged) + 1])
        if not cut_happened:
            assert acknowledged == list(range(1, COMMITS + 1))
            break
    assert vfs.power_cuts > COMMITS


@pytest.mark.parametrize("loss", ["all", "some", "torn"])
def test_without_sync_acknowledged_commits_are_lost(vfs: LossyVFS, tmp_path: Path, loss: Loss) -> None:
    lost = 0
    for seed in range(20):
        path = tmp_path / f"{seed}.db"
        db = opened(vfs, path, "OFF")
        db.execute("INSERT INTO event VALUES (1, 'x')")
        db.execute("INSERT INTO event VALUES (2, 'x')")
        vfs.power_cut(seed, loss=loss)
        db.close()
        try:
            lost += rows(vfs, path) != [1, 2]
        except (apsw.Error, AssertionError):
            lost += 1
    assert lost > 5


def test_a_power_cut_is_repeatable_by_its_seed(tmp_path: Path) -> None:
    survivors: list[bytes] = []
    vfs = LossyVFS("lossy-repeat")
    for attempt in range(2):
        path = tmp_path / f"{attempt}.db"
        db = apsw.Connection(str(path), vfs=vfs.name)
        db.execute("PRAGMA synchronous = OFF")
        db.execute("CREATE TABLE t (x); INSERT INTO t VALUES ('y')")
        vfs.power_cut(seed=5, loss="some")
        db.close()
        survivors.append(path.read_bytes() if path.exists() else b"")
    assert survivors[0] == survivors[1]


def test_a_connection_that_was_open_fails_and_cannot_touch_the_new_files(
    vfs: LossyVFS, tmp_path: Path
) -> None:
    path = tmp_path / "a.db"
    old = opened(vfs, path)
    old.execute("INSERT INTO event VALUES (1, 'x')")
    vfs.power_cut()
    assert not Path(f"{path}-shm").exists()
    new = opened(vfs, path)
    new.execute("INSERT INTO event VALUES (2, 'x')")
    with pytest.raises(apsw.IOError):
        old.execute("INSERT INTO event VALUES (3, 'x')")
    with pytest.raises(apsw.IOError):
        old.execute("SELECT * FROM event").fetchall()
    old.close()
    new.close()
    assert rows(vfs, path) == [1, 2]


def test_a_reader_and_a_writer_share_the_log(vfs: LossyVFS, tmp_path: Path) -> None:
    writer, reader = opened(vfs, tmp_path / "a.db"), opened(vfs, tmp_path / "a.db")
    writer.execute("INSERT INTO event VALUES (1, 'x')")
    assert reader.execute("SELECT seq FROM event").fetchall() == [(1,)]
    reader.close()
    writer.close()


def test_a_failed_sync_fails_the_commit_and_its_data_never_becomes_durable(
    vfs: LossyVFS, tmp_path: Path
) -> None:
    path = tmp_path / "a.db"
    db = opened(vfs, path)
    db.execute("INSERT INTO event VALUES (1, 'x')")
    vfs.fail_sync_after(1)
    db.execute("INSERT INTO event VALUES (2, 'x')")
    with pytest.raises(apsw.IOError) as failed:
        db.execute("INSERT INTO event VALUES (3, 'x')")
    assert getattr(failed.value, "extendedresult", None) == apsw.SQLITE_IOERR_FSYNC
    vfs.power_cut(loss="some")
    vfs.heal()
    db.close()
    assert rows(vfs, path) == [1, 2]


def test_a_full_disk_fails_the_commit_and_heals(vfs: LossyVFS, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    db = opened(vfs, path)
    vfs.full_after(10_000)
    with pytest.raises(apsw.FullError):
        db.execute("INSERT INTO event VALUES (1, ?)", ("x" * 50_000,))
    vfs.heal()
    db.execute("INSERT INTO event VALUES (2, 'x')")
    db.close()
    assert rows(vfs, path) == [2]


def test_a_new_database_that_was_never_synced_is_gone(vfs: LossyVFS, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    db = apsw.Connection(str(path), vfs=vfs.name)
    db.execute("PRAGMA synchronous = OFF; CREATE TABLE t (x)")
    assert path.stat().st_size > 0
    vfs.power_cut(loss="all")
    db.close()
    assert not path.exists()


def test_a_deletion_without_a_directory_sync_is_taken_back(vfs: LossyVFS, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    db = apsw.Connection(str(path), vfs=vfs.name)
    db.execute("PRAGMA synchronous = FULL; CREATE TABLE t (x)")
    db.execute("INSERT INTO t VALUES (1)")
    assert not Path(f"{path}-journal").exists()
    vfs.power_cut(loss="all")
    db.close()
    # This is why SQLite has synchronous = EXTRA: the journal is back and rolls the commit back.
    assert Path(f"{path}-journal").exists()
    again = apsw.Connection(str(path), vfs=vfs.name)
    assert again.execute("SELECT * FROM t").fetchall() == []
    again.close()


def test_with_normal_sync_commits_are_lost_but_only_the_last_ones(vfs: LossyVFS, tmp_path: Path) -> None:
    lost = 0
    for nth in range(1, 80, 2):
        path = tmp_path / f"{nth}.db"
        vfs.cut_power_at(nth, seed=nth)
        acknowledged = committed_until_power_cut(vfs, path, "NORMAL")
        vfs.heal()
        survived = rows(vfs, path)
        assert survived == list(range(1, len(survived) + 1))
        lost += len(survived) < len(acknowledged)
    assert lost > 0
