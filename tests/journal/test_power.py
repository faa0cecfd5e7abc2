"""P1 against power cuts and failing disks, on the shipped code through a lossy disk."""

import asyncio
import itertools
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from fakes.lossy_vfs import LossyVFS
from holdfast.interfaces.journal import Appended, JournalError, Record, Store, StoreFailed, StoreFull
from holdfast.journal.sqlite.tuning import Tuning
from journal.labs import SqliteLab
from journal.promise_checks import check_nothing_refused_is_ever_shown
from journal.sample import begin, delta, message, seqs
from stores import SqliteStore


@pytest.fixture
def vfs() -> Iterator[LossyVFS]:
    with LossyVFS("lossy") as lossy:
        yield lossy


@pytest.fixture
def lab(tmp_path: Path, vfs: LossyVFS) -> SqliteLab:
    return SqliteLab(tmp_path, vfs=vfs.name)


async def watch(store: Store, shown: list[Record]) -> None:
    with suppress(JournalError):
        async for batch in store.follow("s1"):
            shown.extend(batch)


async def write_and_watch(store: Store, shown: list[Record]) -> None:
    """A little life of a session, as long as the disk lasts, and what a follower is shown of it."""
    watching = asyncio.ensure_future(watch(store, shown))
    with suppress(JournalError):
        await begin(store)
        fence = await store.claim("s1")
        for nth in range(2):
            await asyncio.gather(
                store.append_run("s1", [delta(f"{nth}"), delta("x" * 3_000)], fence=fence),
                store.append("s1", [message(f"words {nth}")]),
                store.put_note("k", b"v"),
            )
    await store.close()
    await watching


def as_seen(records: list[Record]) -> list[tuple[int, bytes]]:
    return [(record.seq, record.body) for record in records]


@pytest.mark.long
@pytest.mark.parametrize("loss", ["all", "torn"])
async def test_seen_is_saved_p1_after_a_power_cut_at_every_operation(
    lab: SqliteLab, vfs: LossyVFS, loss: str
) -> None:
    tuning = Tuning(moved_min=3, moved_of_log=1)  # so that events move in some of the commits
    seen: list[Record] = []
    for nth in itertools.count(1):
        seen.clear()
        lab.folder.joinpath(f"{loss}{nth}").mkdir()
        here = SqliteLab(lab.folder / f"{loss}{nth}", vfs=vfs.name, tuning=tuning)
        vfs.cut_power_at(nth, seed=nth, loss=loss)  # pyright: ignore[reportArgumentType]
        cuts = vfs.power_cuts
        with suppress(JournalError):
            await write_and_watch(await here.open(), seen)
        was_cut = vfs.power_cuts > cuts
        vfs.heal()
        store = await here.open()
        kept = list(await store.read("s1"))
        assert as_seen(kept)[: len(seen)] == as_seen(seen)
        assert seqs(kept) == list(range(1, len(kept) + 1))
        if kept:
            assert await store.append("s1", [message("on")]) == Appended(len(kept) + 1, len(kept) + 1)
        await store.close()
        if not was_cut:
            assert nth > 20
            assert len(seen) == 7
            break


def copied(source: Path, target: Path) -> SqliteLab:
    shutil.copytree(source, target)
    return SqliteLab(target, vfs="lossy")


async def test_a_power_cut_at_any_operation_of_a_purge_costs_the_neighbours_nothing(
    tmp_path: Path, vfs: LossyVFS
) -> None:
    """P1, P6: the session is there whole or not at all, and what is left of it goes with the next start."""
    (tmp_path / "before").mkdir()
    store = await SqliteLab(tmp_path / "before").open()
    for session_id in ("s1", "s2", "s3"):
        await begin(store, session_id)
    for nth in range(15):
        for session_id in ("s1", "s2", "s3"):
            await store.append(
                session_id, [message(f"word{session_id} " * (9 * nth % 70), message_id=f"m{nth}")]
            )
    await store.close()
    for nth in itertools.count(1):
        here = await asyncio.to_thread(copied, tmp_path / "before", tmp_path / f"{nth}")
        store = await here.open()
        cuts = vfs.power_cuts
        vfs.cut_power_at(nth, seed=nth, loss="torn")
        with suppress(JournalError):
            await store.purge("s2")
        await store.close()
        was_cut = vfs.power_cuts > cuts
        vfs.heal()
        store = await here.open()
        assert [len(await store.read(session_id)) for session_id in ("s1", "s3")] == [16, 16]
        assert len(await store.read("s2")) in {0, 16}
        await store.purge("s2")
        assert [len(await store.search(f"words{number}")) for number in (1, 2, 3)] == [1, 0, 1]
        await store.close()
        assert not await asyncio.to_thread(_holds, here.folder, b"words2")
        assert await asyncio.to_thread(check_integrity, here.path)
        if not was_cut:
            assert nth > 20
            break


def _holds(folder: Path, text: bytes) -> bool:
    return any(text in file.read_bytes() for file in folder.rglob("*") if file.is_file())


def check_integrity(path: Path) -> bool:
    database = apsw.Connection(str(path))
    try:
        return database.pragma("integrity_check") == "ok"
    finally:
        database.close()


async def test_nothing_is_shown_that_the_disk_refused_p1(lab: SqliteLab, vfs: LossyVFS) -> None:
    await check_nothing_refused_is_ever_shown(lab, break_disk=lambda: vfs.fail_sync_after(0))


@pytest.mark.parametrize("trouble", ["sync", "room"])
async def test_a_failing_disk_is_told_to_everyone_and_forgotten_when_it_heals(
    lab: SqliteLab, vfs: LossyVFS, trouble: str
) -> None:
    store = await lab.open()
    await begin(store)
    expected, text = (StoreFailed, "check the disk") if trouble == "sync" else (StoreFull, "free some space")
    if trouble == "sync":
        vfs.fail_sync_after(0)
    else:
        vfs.full_after(0)
    outcomes = await asyncio.gather(
        *[store.append("s1", [message(f"refused {nth}")]) for nth in range(5)], return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [expected] * 5
    assert all(text in str(outcome) for outcome in outcomes)
    assert len({id(outcome) for outcome in outcomes}) == 5
    assert await store.last_seq("s1") == 1
    vfs.heal()
    assert await store.append("s1", [message("accepted")]) == Appended(2, 2)
    assert [record.event for record in await store.read("s1", after=1)] == [message("accepted")]
    assert list(await store.search("refused")) == []
    await store.close()


@pytest.mark.parametrize("syncs", [0, 1, 5])
async def test_what_a_failed_sync_refused_is_not_there_after_a_kill(
    lab: SqliteLab, vfs: LossyVFS, syncs: int
) -> None:
    """A refused commit lies whole in the log; a process killed then and there must not find it again."""
    store = await lab.open()
    await begin(store)
    vfs.fail_sync_after(syncs)
    accepted = 1
    with suppress(StoreFailed):
        while accepted < 100:
            await store.append("s1", [message("x" * 40_000)])
            accepted += 1
    assert accepted < 100
    copy = lab.folder / "copy"
    copy.mkdir()
    for name in ("journal.db", "journal.db-wal", "journal.db-mark"):
        (copy / name).write_bytes((lab.folder / name).read_bytes())  # what kill -9 leaves in the files
    after_kill = await SqliteStore.open(copy / "journal.db")
    assert await after_kill.last_seq("s1") == accepted
    await after_kill.close()
    vfs.heal()
    await store.close()
