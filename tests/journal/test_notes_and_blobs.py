"""Notes, blobs, and what a purge takes along."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from holdfast.features.postgres.tuning import PostgresTuning
from holdfast.interfaces.journal import IdempotencyKey, Store, StoreDamaged
from journal.labs import LABS, Lab, PostgresLab, SqliteLab, emptied, opened
from journal.sample import AT_MS, asked, begin, created, delta, message, queued
from object_lab import S3Server, objects_in
from postgres_lab import PostgresServer

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(params=[*LABS, "postgres", "objects"])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    """Every store, and one that keeps all its blobs in a bucket."""
    if request.param in LABS:
        return LABS[request.param](tmp_path)
    dsn: str = request.getfixturevalue("postgres_dsn")
    if request.param == "postgres":
        return PostgresLab(dsn)
    s3: S3Server = request.getfixturevalue("s3")
    return PostgresLab(dsn, PostgresTuning(object_bytes_min=-1), objects=objects_in(s3.bucket()))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def object_store(postgres: PostgresServer, s3: S3Server) -> AsyncIterator[Store]:
    dsn = postgres.borrow()
    lab = PostgresLab(dsn, PostgresTuning(object_bytes_min=-1), objects=objects_in(s3.bucket()))
    async with opened(lab) as store:
        yield store
    postgres.give_back(dsn)


@pytest.fixture(params=[*LABS, "postgres", "objects"])
def opening(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[[], AbstractAsyncContextManager[Store]]:
    """The same stores, for the tests that share them."""
    if request.param in LABS:
        return partial(opened, LABS[request.param](tmp_path))
    shared = "postgres_store" if request.param == "postgres" else "object_store"
    return partial(emptied, request.getfixturevalue(shared))


async def test_the_last_note_wins_and_survives(lab: Lab) -> None:
    store = await lab.open()
    assert await store.note("a") is None
    await store.put_note("a", b"1")
    await store.put_note("a", b"\x00\xff2")
    await store.put_note("b", b"")
    await store.drop_note("b")
    await store.drop_note("nothing")
    await store.close()
    store = await lab.open()
    assert await store.note("a") == b"\x00\xff2"
    assert await store.note("b") is None
    await store.close()


async def test_a_note_is_replaced_only_if_it_is_still_the_one_that_was_read(store: Store) -> None:
    assert not await store.swap_note("a", b"1", expected=b"0")
    assert await store.note("a") is None
    assert await store.swap_note("a", b"1", expected=None)
    assert not await store.swap_note("a", b"2", expected=None)
    assert not await store.swap_note("a", b"2", expected=b"")
    assert await store.swap_note("a", b"", expected=b"1")
    assert await store.swap_note("a", b"\x00", expected=b"")
    assert await store.note("a") == b"\x00"
    await store.drop_note("a")
    assert not await store.swap_note("a", b"2", expected=b"\x00")
    assert await store.notes("") == {}


async def test_of_many_who_replace_a_note_at_once_nobody_s_change_is_lost(store: Store) -> None:
    async def add_one() -> None:
        while True:
            raw = await store.note("sum")
            if await store.swap_note("sum", b"%d" % (int(raw or 0) + 1), expected=raw):
                return

    await asyncio.gather(*[add_one() for _ in range(20)])
    assert await store.note("sum") == b"20"


async def test_notes_are_listed_by_prefix(store: Store) -> None:
    for key in ("gate/x", "gate/y", "gate", "gatf", "Gate/z", "gate/é", "gate/%"):
        await store.put_note(key, key.encode())
    assert dict(await store.notes("gate/")) == {
        key: key.encode() for key in ("gate/%", "gate/x", "gate/y", "gate/é")
    }
    assert len(await store.notes("")) == 7
    assert dict(await store.notes("none")) == {}


async def test_a_blob_has_the_name_of_its_bytes(store: Store) -> None:
    data = os.urandom(100_000)
    name = await store.put_blob(data)
    assert name == hashlib.sha256(data).hexdigest()
    assert await store.put_blob(data) == name
    assert await store.blob(name) == data
    assert await store.blob("0" * 64) is None
    assert await store.blob("../journal.db") is None
    assert await store.blob("") is None


async def test_a_purge_takes_the_session_and_leaves_its_neighbour(store: Store) -> None:
    shared, own = await store.put_blob(b"shared"), await store.put_blob(b"own")
    for session_id in ("s1", "s2"):
        run_id, ask_id = f"run-{session_id}", f"ask-{session_id}"
        fence = await begin(store, session_id, run_id=run_id)
        await store.append(session_id, [message(f"words {session_id}", blob=shared)])
        await store.append_run(session_id, [asked(ask_id, run_id=run_id), delta("x")], fence=fence)
        await store.put_note(f"session/{session_id}/draft", b"text")
    await store.append("s1", [message("more", blob=own)])
    await store.put_note("session/s10/draft", b"of another")
    await store.purge("s1")
    await store.purge("s1")
    assert list(await store.read("s1")) == []
    assert await store.last_seq("s1") == 0
    assert [await store.session("s1"), await store.run("run-s1"), await store.ask("ask-s1")] == [None] * 3
    assert [hit.session_id for hit in await store.search("words")] == ["s2"]
    assert (await store.blob(shared), await store.blob(own)) == (b"shared", None)
    assert set(await store.notes("session/")) == {"session/s2/draft", "session/s10/draft"}
    assert [ask.ask_id for ask in await store.open_asks()] == ["ask-s2"]
    await store.purge("s2")
    assert await store.blob(shared) is None


async def test_a_blob_that_is_kept_again_outlives_the_purge_of_who_named_it(store: Store) -> None:
    name = await store.put_blob(b"data")
    await store.append("s1", [created(), message("x", blob=name)])
    assert await store.keep_blob(name)
    await store.purge("s1")
    assert await store.blob(name) == b"data"
    await store.append("s2", [created(), message("x", blob=name)])
    await store.purge("s2")
    assert not await store.keep_blob(name)
    assert not await store.keep_blob("../../etc/passwd")


async def test_a_purge_leaves_a_blob_that_was_just_put_for_an_event_to_come(store: Store) -> None:
    name = await store.put_blob(b"same bytes")
    await begin(store, "s1")
    await begin(store, "s2")
    await store.append("s1", [message("x", blob=name)])
    assert await store.put_blob(b"same bytes") == name
    await store.purge("s1")
    await store.append("s2", [message("y", blob=name)])
    assert await store.blob(name) == b"same bytes"
    await store.purge("s2")
    assert await store.blob(name) is None


async def test_an_offered_blob_goes_with_the_session_that_took_the_offer(store: Store) -> None:
    """However many offer the same bytes and keep them: each promise holds until its own event is there."""
    names = {await store.offer_blob(b"data") for _ in range(2)}
    (name,) = names
    for nth in range(3):
        assert await store.keep_blob(name), nth
    for session_id in ("s1", "s2", "s3"):
        await store.append(session_id, [created(), message("x", blob=name)])
        await store.purge(session_id)
        assert await store.blob(name) == (None if session_id == "s3" else b"data")


async def test_an_offer_outlives_whoever_named_the_same_bytes(store: Store) -> None:
    name = await store.put_blob(b"data")
    await store.append("s1", [created(), message("x", blob=name)])
    await store.offer_blob(b"data")
    await store.append("s2", [created(), message("x", blob=name)])
    await store.purge("s1")
    await store.purge("s2")
    assert await store.blob(name) == b"data"
    assert await store.sweep_blobs() == 0
    assert await store.sweep_blobs(unnamed_for_s=-60) == 1
    assert await store.blob(name) is None


@pytest.mark.parametrize("put", ["offered", "put"])
async def test_a_promise_that_was_swept_away_keeps_no_later_blob_of_the_same_bytes(
    store: Store, put: str
) -> None:
    """P11: what a deleted session held is gone, whoever brought the same bytes before and never used them."""
    name = await (store.offer_blob(b"data") if put == "offered" else store.put_blob(b"data"))
    assert await store.sweep_blobs(unnamed_for_s=-60) == 1
    assert await store.put_blob(b"data") == name
    await store.append("s1", [created(), message("x", blob=name)])
    await store.purge("s1")
    assert await store.blob(name) is None


async def test_a_blob_that_no_event_names_goes_after_its_time(store: Store) -> None:
    named, unnamed = await store.put_blob(b"named"), await store.put_blob(b"unnamed")
    await store.append("s1", [created(), message("x", blob=named)])
    assert await store.sweep_blobs() == 0
    assert await store.blob(unnamed) == b"unnamed"
    assert await store.sweep_blobs(unnamed_for_s=-60) == 1
    assert (await store.blob(named), await store.blob(unnamed)) == (b"named", None)
    await store.purge("s1")
    assert await store.blob(named) is None


async def test_a_damaged_blob_is_reported(tmp_path: Path) -> None:
    store = await SqliteLab(tmp_path).open()
    name = await store.put_blob(b"the bytes")
    (tmp_path / "blobs" / name[:2] / name).write_bytes(b"other bytes")
    with pytest.raises(StoreDamaged, match=f"integrity check failed at blob {name}"):
        await store.blob(name)
    await store.close()


async def test_nothing_of_a_purged_session_is_left_on_disk(tmp_path: Path) -> None:
    """Neither its text nor its id nor its blobs, in the file, its log or beside them."""
    store = await SqliteLab(tmp_path).open()
    secret_id, secret = "session-xyzzy", "plugh"
    fence = await begin(store, "neighbour")
    for session_id, word in ((secret_id, secret), ("neighbour", "harmless")):
        await store.append(session_id, [created(title=f"{word} title"), queued(f"run-{word}")])
        blob = await store.put_blob(word.encode() * 5_000)
        for nth in range(120):
            text = " ".join(f"{word}{nth}x{part}" for part in range(nth))
            idempotency_key = IdempotencyKey(f"{word}-key-{nth}", word, word.encode(), AT_MS + 10**9)
            await store.append(session_id, [message(text, blob=blob)], idempotency_key=idempotency_key)
            await store.append_run(
                session_id, [delta(text), asked(f"{word}-ask-{nth}", run_id=f"run-{word}")], fence=fence
            )
        await store.put_note(f"session/{session_id}/draft", word.encode() * 100)
    await store.purge(secret_id)
    assert _files_with(tmp_path, secret) == []
    assert _files_with(tmp_path, secret_id) == []
    await store.close()
    assert _files_with(tmp_path, secret) == []
    assert _files_with(tmp_path, "harmless") != []


def _files_with(folder: Path, text: str) -> list[str]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return [file.name for file in files if text.encode() in file.read_bytes()]
