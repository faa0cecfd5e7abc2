"""Looks beside the log that a server needs: one line of the list, leftovers, earlier answers, changes."""

import asyncio

from holdfast import events as e
from holdfast.interfaces.index import SessionQuery, StoredResponse
from holdfast.interfaces.journal import IdempotencyKey, Store
from journal.sample import AT_MS, begin, created, delta, message


async def test_one_line_of_the_list_is_the_same_as_in_the_list(store: Store) -> None:
    await begin(store, run_id="r1")
    listed = await store.sessions(SessionQuery())
    assert listed[0].open_runs == 1
    assert await store.listed("s1") == listed[0]
    assert await store.listed("nowhere") is None


async def test_leftovers_are_deleted_sessions_and_old_ones_of_a_source(store: Store) -> None:
    for session_id, source in (("a", "api"), ("b", "openai"), ("c", "openai"), ("d", "api")):
        await store.append(session_id, [created(source=source)])
    await store.append("c", [message("late", at_ms=AT_MS + 100)])
    await store.append("d", [e.SessionDeleted(at_ms=AT_MS, purge_at_ms=AT_MS + 1)])
    found = await store.sessions_to_purge(source="openai", before_ms=AT_MS + 50)
    assert sorted(row.session_id for row in found) == ["b", "d"]


async def test_an_earlier_answer_is_found_until_it_expires(store: Store) -> None:
    idempotency_key = IdempotencyKey("k", "digest", b"answer", AT_MS + 10)
    await store.append("s1", [created()], idempotency_key=idempotency_key)
    assert await store.stored_response("k", now_ms=AT_MS) == StoredResponse("digest", b"answer")
    assert await store.stored_response("k", now_ms=AT_MS + 10) is None
    assert await store.stored_response("other", now_ms=AT_MS) is None


async def test_changes_name_each_session_once_and_no_deltas(store: Store) -> None:
    changes = store.changes()
    fence = await begin(store, run_id="r1")
    await store.append("s2", [created()])
    assert await anext(changes) == ["s1", "s2"]
    await store.append_run("s1", [delta("x")], fence=fence)
    waiting = asyncio.ensure_future(anext(changes))
    await store.append("s2", [message("hi")])
    assert await waiting == ["s2"]
    await store.purge("s1")
    assert await anext(changes) == ["s1"]


async def test_changes_end_with_the_store(store: Store) -> None:
    waiting = asyncio.ensure_future(anext(store.changes(), None))
    await asyncio.sleep(0)
    await store.close()
    assert await waiting is None
