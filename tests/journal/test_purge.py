"""What a purge leaves on disk: nothing of the session and everything of its neighbours."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import apsw
import pytest

from holdfast.interfaces.journal import Store, StoreFailed
from holdfast.journal.sqlite.queries import migrations
from holdfast.journal.sqlite.reader import SqliteReader
from journal.labs import SqliteLab
from journal.sample import begin, created, message

SEEDS = (5, 8)  # with these, pages are split so that copies of rows stay behind where nothing should be
SESSIONS = 40
ROUNDS = 20


def names() -> list[str]:
    return [f"zq{nth:03}" for nth in range(SESSIONS)]


async def written(store: Store, seed: int) -> Mapping[str, int]:
    """Many sessions that grow side by side, each with its name in every word; how many events each has."""
    sizes = random.Random(seed)
    await asyncio.gather(*[store.append(name, [created(title=name)]) for name in names()])
    for nth in range(ROUNDS):
        texts = {name: _text(name, sizes) for name in names()}
        await asyncio.gather(
            *[store.append(name, [message(text, message_id=f"m{nth}")]) for name, text in texts.items()]
        )
    return {name: await store.last_seq(name) for name in names()}


def _text(name: str, sizes: random.Random) -> str:
    letters = "bcdfghjklmnpqrstvwxz"
    count = sizes.choice([2, 5, 20, 200])
    return " ".join(name + "".join(sizes.choices(letters, k=5)) for _ in range(count))


def found(folder: Path, wanted: Sequence[str]) -> list[str]:
    data = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    return [name for name in wanted if name.encode() in data]


def is_whole(lab: SqliteLab) -> bool:
    database = apsw.Connection(str(lab.path))
    try:
        return database.pragma("integrity_check") == "ok"
    finally:
        database.close()


@pytest.mark.parametrize("seed", SEEDS)
async def test_nothing_of_purged_sessions_is_left_among_many_that_grew_side_by_side(
    seed: int, tmp_path: Path
) -> None:
    """P11: no copy of a row in an unused part of a page, no word in the index; the others are untouched."""
    lab = SqliteLab(tmp_path)
    store = await lab.open()
    counts = await written(store, seed)
    gone = names()[::4]
    kept = [name for name in names() if name not in gone]
    await asyncio.gather(*[store.purge(name) for name in gone])
    assert found(tmp_path, gone) == []
    assert found(tmp_path, kept) == kept
    for name in kept:
        assert len(await store.read(name)) == counts[name]
        assert [hit.session_id for hit in await store.search(name)] == [name]
    assert [list(await store.search(name)) for name in gone] == [[]] * len(gone)
    await store.append(kept[0], [message("and it goes on")])
    await store.close()
    assert is_whole(lab)


async def test_a_purge_that_a_process_did_not_come_to_the_end_of_is_ended_by_the_next(tmp_path: Path) -> None:
    """P6: the rows are gone with its commit; what is left of them goes with the commits of the next."""
    lab = SqliteLab(tmp_path)
    store = await lab.open()
    await written(store, SEEDS[0])
    purging = asyncio.create_task(store.purge(names()[0]))
    async for _ in store.follow(names()[0]):
        pass
    purging.cancel()
    await asyncio.wait([purging])
    await store.close()
    again = await lab.open()
    while await again.note("journal/wiping") is not None:
        await again.put_note("beat", b"")
    await again.close()
    assert found(tmp_path, names()[:1]) == []
    assert is_whole(lab)


async def test_a_purge_waits_for_a_reader_who_still_sees_the_text(tmp_path: Path) -> None:
    """P7: that reader sees what it saw; once it is gone, so is the text."""
    lab = SqliteLab(tmp_path)
    store = await lab.open()
    await begin(store, "neighbour")
    await store.append("s1", [created(), message("plugh " * 500)])
    reader = apsw.Connection(str(lab.path))
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM sessions").fetchall() == [(2,)]
    purging = asyncio.create_task(store.purge("s1"))
    async for _ in store.follow("s1", after=2):
        pass
    await store.append("neighbour", [message("meanwhile")])
    assert reader.execute("SELECT count(*) FROM sessions").fetchall() == [(2,)]
    reader.close()
    await purging
    assert found(tmp_path, ["plugh"]) == []
    await store.close()


async def test_a_store_of_an_older_version_says_what_to_do_and_is_brought_up_to_date(tmp_path: Path) -> None:
    """P12: a reader cannot change it; the next owner does, and nothing is lost."""
    lab = SqliteLab(tmp_path)
    database = apsw.Connection(str(lab.path))
    database.pragma("journal_mode", "wal")
    database.execute((await asyncio.to_thread(migrations))[0].sql)
    database.pragma("user_version", 1)
    database.execute(
        "INSERT INTO sessions (session_id, epoch, title, titled, source, workspace, preview, created_ms, "
        "updated_ms, pinned, archived, purge_at_ms, messages) "
        "VALUES ('old', 'e', 't', 1, 'api', '', '', 1, 1, 0, 0, 0, 0)"
    )
    database.close()
    reader = SqliteReader(lab.path)
    assert not await reader.is_readable()
    with pytest.raises(StoreFailed, match="start `holdfast serve` once"):
        await reader.session("old")
    store = await lab.open()
    assert (await reader.session("old")) == (await store.session("old"))
    row = await reader.session("old")
    assert row is not None
    assert (row.title, row.steers) == ("t", "")
    await reader.close()
    await store.close()
