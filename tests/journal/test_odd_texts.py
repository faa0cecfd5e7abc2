"""Texts that a database may choke on are stored and found like any other."""

import pytest

from holdfast.interfaces.journal import Appended, IdempotencyKey, Store
from journal.sample import AT_MS, begin, created, message

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_text_with_nul_in_it_comes_back_as_it_was_and_is_found(store: Store) -> None:
    key = IdempotencyKey("a\x00key", "digest\x00", b"\x00", AT_MS + 1)
    await store.append("s1", [created(title="the\x00title"), message("be\x00fore fox")], idempotency_key=key)
    assert (await store.read("s1"))[1].event == message("be\x00fore fox")
    assert [hit.session_id for hit in await store.search("fox")] == ["s1"]
    assert (await store.sessions_to_purge(source="api", before_ms=AT_MS + 1))[0].session_id == "s1"
    stored = await store.stored_response("a\x00key", now_ms=AT_MS)
    assert stored is not None
    assert stored.answer == b"\x00"
    await store.put_note("a\x00note", b"\x00")
    assert await store.note("a\x00note") == b"\x00"


async def test_a_message_of_ten_megabytes_is_stored_and_its_last_word_found(store: Store) -> None:
    text = " ".join(f"word{nth % 4_000}-{'x' * 90}" for nth in range(100_000)) + " needle"
    assert len(text) > 9_500_000
    await begin(store)
    assert await store.append("s1", [message(text)]) == Appended(2, 2)
    assert (await store.read("s1", after=1))[0].event == message(text)
    (hit,) = await store.search("word17 needle")
    assert (hit.session_id, hit.seq) == ("s1", 2)


async def test_a_word_of_a_megabyte_is_stored_and_the_words_beside_it_are_found(store: Store) -> None:
    await begin(store)
    text = f"before {'x' * 1_000_000} after"
    assert await store.append("s1", [message(text)]) == Appended(2, 2)
    assert (await store.read("s1", after=1))[0].event == message(text)
    assert [hit.seq for hit in await store.search("before after")] == [2]
