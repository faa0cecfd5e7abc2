"""Damage to the files: a torn end is repaired without a word, anything else is reported and left as it is."""

import shutil
from pathlib import Path

import apsw
import pytest

from holdfast.interfaces.journal import Appended, StoreDamaged
from journal.sample import begin, message, seqs
from stores import SqliteStore

NAMES = ("journal.db", "journal.db-wal", "journal.db-mark")
FRAME_BYTES = 24 + 4_096
HEADER_BYTES = 32
COMMITS = 5


def copied(source: Path, target: Path) -> Path:
    """The files as a kill would leave them."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for name in NAMES:
        if (source / name).exists():
            shutil.copy(source / name, target / name)
    return target


def written(folder: Path) -> bytes:
    """The log without the room behind it; a commit that needs more than the room extends the file exactly."""
    log = (folder / "journal.db-wal").read_bytes()
    frames = -(-(len(log.rstrip(b"\0")) - HEADER_BYTES) // FRAME_BYTES)
    assert len(log) >= HEADER_BYTES + frames * FRAME_BYTES
    return log[: HEADER_BYTES + frames * FRAME_BYTES]


@pytest.fixture(params=[300, 3], ids=["large", "small"])
async def lives(tmp_path: Path, request: pytest.FixtureRequest) -> list[Path]:
    """The data directory after each of several commits, whose events go into the log or wait for it."""
    live = copied(tmp_path, tmp_path / "live")
    store = await SqliteStore.open(live / "journal.db")
    await begin(store)
    found: list[Path] = []
    for nth in range(COMMITS):
        await store.append("s1", [message(f"message {nth} " * request.param)])
        found.append(copied(live, tmp_path / f"life{nth}"))
    await store.close()
    return found


async def kept(folder: Path) -> list[int]:
    store = await SqliteStore.open(folder / "journal.db")
    try:
        found = seqs(await store.read("s1"))
        assert await store.append("s1", [message("on")]) == Appended(len(found) + 1, len(found) + 1)
        return found
    finally:
        await store.close()


async def test_a_log_torn_after_its_last_published_commit_opens_with_all_of_them_p1(
    lives: list[Path], tmp_path: Path
) -> None:
    before, after = lives[-2], lives[-1]
    published = len(written(before))
    log = written(after)
    assert len(log) > published
    for cut in range(published, len(log), 1_499):
        for flipped in (False, True):
            here = copied(before, tmp_path / "torn")
            torn = bytearray(log if flipped else log[:cut])
            if flipped:
                torn[cut] ^= 0x40
            (here / "journal.db-wal").write_bytes(torn)
            assert await kept(here) == list(range(1, COMMITS + 1))


async def test_a_log_damaged_before_that_is_reported_and_left_as_it_is(
    lives: list[Path], tmp_path: Path
) -> None:
    log = written(lives[-1])
    for at in [3, 17, *range(HEADER_BYTES + 5, len(log), 3 * FRAME_BYTES + 1_111), len(log) - 1]:
        for flipped in (False, True):
            here = copied(lives[-1], tmp_path / "damaged")
            damaged = bytearray(log if flipped else log[:at])
            if flipped:
                damaged[at] ^= 0x01
            (here / "journal.db-wal").write_bytes(damaged)
            for _ in range(2):
                with pytest.raises(StoreDamaged, match=r"check failed at .*journal\.db: \d+ writes"):
                    await SqliteStore.open(here / "journal.db")
            assert (here / "journal.db-wal").read_bytes() == bytes(damaged)


async def test_after_removing_the_mark_the_readable_part_opens(lives: list[Path], tmp_path: Path) -> None:
    here = copied(lives[-1], tmp_path / "damaged")
    (here / "journal.db-wal").write_bytes(written(here)[:-1])
    with pytest.raises(StoreDamaged, match=r"remove .*journal\.db-mark"):
        await SqliteStore.open(here / "journal.db")
    (here / "journal.db-mark").unlink()
    assert await kept(here) == list(range(1, COMMITS + 1))


async def test_a_lost_main_file_is_not_taken_for_a_new_store(lives: list[Path]) -> None:
    for name in NAMES[:2]:
        (lives[-1] / name).unlink()
    with pytest.raises(StoreDamaged, match="only 0 are readable"):
        await SqliteStore.open(lives[-1] / "journal.db")


@pytest.mark.parametrize("content", [None, b"", b"\x01\x02", bytes(8)])
async def test_a_mark_that_is_lost_or_short_or_old_hides_nothing_that_is_there(
    lives: list[Path], content: bytes | None
) -> None:
    mark = lives[-1] / "journal.db-mark"
    mark.unlink()
    if content is not None:
        mark.write_bytes(content)
    assert await kept(lives[-1]) == list(range(1, COMMITS + 2))


async def test_a_log_that_is_in_the_file_already_may_be_lost_but_not_mixed(
    lives: list[Path], tmp_path: Path
) -> None:
    """After a checkpoint the log repeats what the file has; damage to it is reported or harmless."""
    live = copied(lives[-1], tmp_path / "checkpointed")
    database = apsw.Connection(str(live / "journal.db"))
    database.execute("SELECT * FROM store").fetchall()
    in_log, moved = database.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    assert in_log == moved > 0
    checkpointed = copied(live, tmp_path / "checkpointed copy")
    database.close()
    log = written(checkpointed)
    harmless = 0
    for at in [5, *range(HEADER_BYTES, len(log), 2 * FRAME_BYTES + 777)]:
        here = copied(checkpointed, tmp_path / "flipped")
        flipped = bytearray(log)
        flipped[at] ^= 0x01
        (here / "journal.db-wal").write_bytes(flipped)
        try:
            assert await kept(here) == list(range(1, COMMITS + 2))
            harmless += 1
        except StoreDamaged:
            continue
    assert harmless
    (checkpointed / "journal.db-wal").unlink()
    assert await kept(checkpointed) == list(range(1, COMMITS + 2))


async def test_a_bit_flipped_in_a_stored_event_is_reported_with_session_and_seq(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    store = await SqliteStore.open(path)
    await begin(store)
    await store.append("s1", [message("find me here"), message("whole")])
    await store.close()
    data = bytearray(path.read_bytes())
    place = data.find(b'"message_id":"m1","text":"find me here"')
    data[place + 27] ^= 0x02
    path.write_bytes(data)
    store = await SqliteStore.open(path)
    with pytest.raises(StoreDamaged, match="integrity check failed at session s1 seq 2"):
        await store.read("s1")
    with pytest.raises(StoreDamaged, match="session s1 seq 2"):
        await anext(aiter(store.follow("s1")))
    assert seqs(await store.read("s1", after=2)) == [3]
    await store.close()


async def test_a_file_that_is_no_database_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(b"no database at all" * 1_000)
    with pytest.raises(StoreDamaged, match=r"integrity check failed at .*journal\.db"):
        await SqliteStore.open(path)
    assert path.read_bytes() == b"no database at all" * 1_000
