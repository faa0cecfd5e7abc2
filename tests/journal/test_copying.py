"""A store that is copied to a Postgres database and back: the same logs, rows, notes, blobs and sums."""

import asyncio
from contextlib import aclosing
from hashlib import sha256
from pathlib import Path

import pytest

from holdfast import events as e
from holdfast.config.server import BlobStoreSettings
from holdfast.features.postgres.copy_command import copy_store
from holdfast.features.postgres.copying.copy import CopiedLog, CopyRefused, copy
from holdfast.features.postgres.copying.postgres_side import LiveSource, PostgresTarget
from holdfast.features.postgres.copying.sqlite_side import SqliteSource, SqliteTarget
from holdfast.interfaces.index import RunQuery, SessionQuery
from holdfast.interfaces.journal import Appended, IdempotencyKey, Replayed, Store, StoreDamaged
from holdfast.interfaces.usage import UsageQuery
from holdfast.journal.sqlite.integrity import check_store
from holdfast.values import HistoryMessage
from journal.object_checks import AGED, ObjectLab
from journal.sample import AT_MS, asked, begin, created, delta, ended, message, started
from object_lab import S3Server, objects_in
from postgres_lab import PostgresServer
from stores import PostgresStore, SqliteStore

KEY = IdempotencyKey("once", "digest", b"answer", AT_MS + 1_000_000_000_000)
BIG = bytes(range(256)) * 8_192  # two pieces of a megabyte


async def fill(store: Store) -> None:
    """A bit of everything: a thinned log, a history that is stored in pieces, a NUL, blobs, notes, sums."""
    fence = await begin(store, run_id="r1")
    await store.append("s1", [message("find the kingfisher", blob=await store.put_blob(BIG))])
    text = [delta(f"{nth} ") for nth in range(5)]
    done = e.TextDone(at_ms=AT_MS, run_id="r1", segment=0, text="0 1 2 3 4 ")
    await store.append_run("s1", [started("r1"), *text, done], fence=fence)
    used = e.Usage(
        at_ms=AT_MS, run_id="r1", call_id="c1", target="main", input_tokens=7, output_tokens=3, cost_usd=0.1
    )
    await store.append_run("s1", [used, ended("r1")], fence=fence)
    async with aclosing(store.thin("s1", before_ms=AT_MS + 1)) as steps:
        assert sum([gone async for gone in steps]) > 0
    history = tuple(HistoryMessage(role="user", content=f"{nth} " * 2_000) for nth in range(20))
    run = e.RunQueued(at_ms=AT_MS, run_id="r2", message_id="m1", history=history)
    await store.append("s2", [created(title="a\x00title"), message("two"), run], idempotency_key=KEY)
    await store.append_run("s2", [started("r2"), asked("a1", run_id="r2")], fence=await store.claim("s2"))
    await store.append("s2", [e.SessionPinned(at_ms=AT_MS)])
    await store.put_note("api_key:laptop", b"\x00hash")
    await store.put_note("session/s1/draft", b"text")
    await store.offer_blob(b"not named yet")


async def look(store: Store) -> object:
    """What people see of it."""
    usage = UsageQuery(by="all", first_day=0, last_day=1 << 30)
    return (
        [[(record.seq, record.body) for record in await store.read(one)] for one in ("s1", "s2")],
        [(one.row.session_id, one.row.pinned, one.open_asks) for one in await store.sessions(SessionQuery())],
        await store.runs(RunQuery()),
        await store.open_asks(),
        [(hit.session_id, hit.seq) for hit in await store.search("kingfisher")],
        [(hit.session_id, hit.seq) for hit in await store.search("title")],
        dict(await store.notes("api_key:")),
        dict(await store.notes("session/")),
        await store.usage(usage),
    )


async def goes_on(store: Store) -> None:
    """What was copied can be continued: logs, keys, and sessions that are new."""
    before = await store.last_seq("s1")
    assert await store.append("s1", [message("more")]) == Appended(before + 1, before + 1)
    assert await store.append("s2", [message("again")], idempotency_key=KEY) == Replayed(b"answer")
    assert await store.append("s3", [created()]) == Appended(1, 1)
    assert await store.blob(sha256(BIG).hexdigest()) == BIG
    await store.close()


def test_a_store_goes_to_postgres_and_back_and_is_the_same(
    postgres_dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """P1, P7: every seq and every byte, also of a log that was thinned."""
    first, last = tmp_path / "first", tmp_path / "last"

    async def make() -> object:
        first.mkdir()
        store = await SqliteStore.open(first / "holdfast.db")
        await fill(store)
        seen = await look(store)
        await store.close()
        return seen

    seen = asyncio.run(make())
    assert copy_store(str(first), postgres_dsn) == 0
    there = capsys.readouterr().out
    assert "2 sessions" in there
    assert copy_store(postgres_dsn, str(last)) == 0
    assert capsys.readouterr().out == there, "the same counts and the same digest"
    assert check_store(last / "holdfast.db", on_progress=lambda _done, _of: None).faults == []

    async def compare() -> None:
        database = await PostgresStore.open(postgres_dsn, name="one")
        file = await SqliteStore.open(last / "holdfast.db")
        assert await look(file) == seen
        assert await look(database) == seen
        await goes_on(file)
        await goes_on(database)

    asyncio.run(compare())
    assert copy_store(str(first), postgres_dsn) == 1
    assert "already holds a store" in capsys.readouterr().err
    assert copy_store(postgres_dsn, str(first)) == 1
    assert "already has a store" in capsys.readouterr().err


def test_a_copy_from_a_database_in_use_is_refused(
    postgres_dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def use() -> int:
        store = await PostgresStore.open(postgres_dsn, name="web-2")
        try:
            return await asyncio.to_thread(copy_store, postgres_dsn, str(tmp_path / "x"))
        finally:
            await store.close()

    assert asyncio.run(use()) == 1
    assert "in use by web-2; stop these servers first" in capsys.readouterr().err


async def test_a_backup_of_a_database_in_use_has_the_state_of_one_moment(
    postgres_dsn: str, tmp_path: Path
) -> None:
    """P1, P7: what servers append or purge meanwhile changes nothing in it."""
    store = await PostgresStore.open(postgres_dsn, name="web-2")
    await fill(store)
    seen = await look(store)
    source = await LiveSource.open(postgres_dsn)
    await store.append("s2", [message("later")])
    await store.append("s1", [e.SessionDeleted(at_ms=AT_MS, purge_at_ms=AT_MS)])
    await store.purge("s1")
    await store.sweep_blobs(unnamed_for_s=0)
    assert await store.blob(sha256(BIG).hexdigest()) is None
    target = await SqliteTarget.open(tmp_path)
    await copy(source, target, on_progress=lambda _done, _of: None)
    await target.move()
    await source.close()
    await store.close()
    copied = await SqliteStore.open(tmp_path / "holdfast.db")
    assert await look(copied) == seen
    await goes_on(copied)


def test_places_that_are_no_stores_are_refused_and_leave_nothing(
    postgres: PostgresServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """P12."""
    del postgres
    assert copy_store(str(tmp_path / "none"), str(tmp_path / "to")) == 1
    assert "there is no store in" in capsys.readouterr().err
    assert copy_store("mysql://me:hush@db/x", str(tmp_path / "to")) == 1
    assert "hush" not in capsys.readouterr().err
    assert copy_store("env:NOT_SET_ANYWHERE", str(tmp_path / "to")) == 1
    assert "NOT_SET_ANYWHERE isn't set" in capsys.readouterr().err
    assert not (tmp_path / "to").exists()


class Forgetful(SqliteTarget):
    """A target that loses an event."""

    async def put_log(self, log: CopiedLog) -> None:
        await super().put_log(CopiedLog(log.key, log.records[:-1], log.texts))


async def test_a_copy_that_lacks_one_event_is_found_out_and_a_second_try_begins_anew(tmp_path: Path) -> None:
    first, to = tmp_path / "first", tmp_path / "to"
    await asyncio.to_thread(first.mkdir)
    store = await SqliteStore.open(first / "holdfast.db")
    await begin(store)
    await store.append("s1", [message("hi")])
    await store.close()
    source = await SqliteSource.open(first)
    bad = await Forgetful.open(to)
    with pytest.raises(StoreDamaged, match="session s1"):
        await copy(source, bad, on_progress=lambda _done, _of: None)
    await bad.close()
    good = await SqliteTarget.open(to)
    copied = await copy(source, good, on_progress=lambda _done, _of: None)
    await good.move()
    await source.close()
    assert copied.events == 2
    with pytest.raises(CopyRefused):
        await SqliteTarget.open(to)


def configured(folder: Path, dsn: str, bucket: BlobStoreSettings) -> dict[str, object]:
    """The flags for a configuration with a bucket for large blobs."""
    file = folder / "with-bucket.toml"
    file.write_text(
        f'[server]\nstore = "{dsn}"\n[server.blob_store]\nbucket = "{bucket.bucket}"\n'
        f'endpoint = "{bucket.endpoint}"\nprefix = "{bucket.prefix}"\n'
        f'access_key_id = "{bucket.access_key_id}"\nsecret_access_key = "{bucket.secret_access_key}"\n',
        encoding="utf-8",
    )
    file.chmod(0o600)
    return {"config": file}


def test_large_blobs_are_copied_to_a_bucket_and_back(
    postgres_dsn: str, s3: S3Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """P1, P7: whoever doesn't name the bucket is told so, and nothing is copied by halves."""
    first, last = tmp_path / "first", tmp_path / "last"
    bucket = s3.bucket()
    flags = configured(tmp_path, postgres_dsn, bucket)

    async def make() -> None:
        first.mkdir()
        store = await SqliteStore.open(first / "holdfast.db")
        await fill(store)
        await store.close()

    asyncio.run(make())
    assert copy_store(str(first), postgres_dsn, flags=flags) == 0
    there = capsys.readouterr().out
    assert {key.partition("-")[0] for key in s3.keys(bucket)} == {sha256(BIG).hexdigest()}
    assert copy_store(postgres_dsn, str(last)) == 1
    assert "1 blob is in bucket" in capsys.readouterr().err
    assert copy_store(postgres_dsn, str(last), flags=flags) == 0
    assert capsys.readouterr().out == there, "the same counts and the same digest"


async def test_objects_of_a_copy_that_failed_are_deleted_later(
    postgres_dsn: str, s3: S3Server, tmp_path: Path
) -> None:
    bucket = s3.bucket()
    lab = ObjectLab(postgres_dsn, s3)
    store = await SqliteStore.open(tmp_path / "holdfast.db")
    await fill(store)
    await store.close()
    source = await SqliteSource.open(tmp_path)
    target = await PostgresTarget.open(postgres_dsn, objects_in(bucket))
    name = sha256(BIG).hexdigest()
    data = await source.blob(name)
    assert data is not None
    await target.put_blob(name, data)
    await target.close()
    await source.close()
    async with lab.connected() as connection, lab.blobs(objects_in(bucket)) as blobs:
        assert await blobs.get(name) is None
        assert len(s3.keys(bucket)) == 1
        await connection.execute(AGED, {})
        await blobs.tend()
        assert s3.keys(bucket) == set()
    again = await PostgresTarget.open(postgres_dsn)  # the database still counts as empty
    await again.close()
