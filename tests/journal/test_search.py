"""Finding sessions by their words."""

from collections.abc import Sequence

import pytest

from holdfast import events as e
from holdfast.interfaces.index import SearchHit
from holdfast.interfaces.journal import Store
from journal.sample import AT_MS, begin, created, message

pytestmark = pytest.mark.asyncio(loop_scope="module")


OPERATORS = [
    '"',
    "'",
    '""',
    "*",
    "a*b",
    "foo OR bar",
    "NOT fox",
    "NEAR(fox cat)",
    "text:fox",
    "^fox",
    "{text}: fox",
    "fox AND (",
    "-fox",
    "a\x00b",
    '\x00"fox',
    "+",
    "…",
    ") OR (1=1",
    "fox;DROP TABLE search",
    "word " * 500,
    "💥",
    "\ufeff",
]
NO_WORDS = ["", "  ", "!!", "\n"]


async def write(store: Store, **texts: str) -> None:
    for session_id, text in texts.items():
        await store.append(session_id, [created(), message(text)])


def ids(hits: Sequence[SearchHit]) -> list[str]:
    return [hit.session_id for hit in hits]


async def test_every_word_must_be_there_and_the_last_may_be_a_beginning(store: Store) -> None:
    await write(store, s1="the quick brown fox", s2="a quick brownie", s3="slow and brown")
    assert ids(await store.search("quick")) == ["s2", "s1"]
    assert ids(await store.search("quick bro")) == ["s2", "s1"]
    assert ids(await store.search("QUICK Brown")) == ["s2", "s1"]
    assert ids(await store.search("brown quick fox")) == ["s1"]
    assert ids(await store.search("qui brown")) == []
    assert ids(await store.search("quick", limit=1)) == ["s2"]


async def test_diacritics_do_not_matter_in_text_or_query(store: Store) -> None:
    await write(store, s1="Zürich naïve café", s2="Zurich naive cafe", s3="Ελλάδα γλώσσα", s4="Zu\u0308rich")
    assert sorted(ids(await store.search("zurich"))) == ["s1", "s2", "s4"]
    assert sorted(ids(await store.search("Zürich CAFÉ"))) == ["s1", "s2"]
    assert ids(await store.search("ΓΛΏΣΣΑ")) == ["s3"]


async def test_a_word_with_a_mark_inside_is_found_as_written(store: Store) -> None:
    await write(store, s1="a read-only disk, user_name", s2="only read the disk")
    assert ids(await store.search("read-only")) == ["s1"]
    assert ids(await store.search("read-on")) == ["s1"]
    assert ids(await store.search("user_name")) == ["s1"]
    assert ids(await store.search("read only")) == ["s2", "s1"]


async def test_no_operator_gets_through(store: Store) -> None:
    await write(store, s1="fox", s2="bar")
    found = {query: ids(await store.search(query)) for query in OPERATORS}
    assert {query: hits for query, hits in found.items() if hits not in ([], ["s1"])} == {}
    assert ids(await store.search("fox")) == ["s1"]


async def test_words_that_are_operators_are_words(store: Store) -> None:
    await write(store, s1="rock and roll", s2="rock near roll", s3="foo or bar")
    assert ids(await store.search("rock AND roll")) == ["s1"]
    assert ids(await store.search("rock NEAR roll")) == ["s2"]
    assert ids(await store.search("foo OR bar")) == ["s3"]


async def test_a_query_without_words_finds_nothing(store: Store) -> None:
    await write(store, s1="fox")
    assert {query: ids(await store.search(query)) for query in NO_WORDS} == {query: [] for query in NO_WORDS}


async def test_a_hit_says_where_and_marks_what_was_found(store: Store) -> None:
    fence = await begin(store)
    done = e.TextDone(at_ms=AT_MS, run_id="r1", segment=0, text="see the fox run")
    await store.append("s1", [message("a fox")])
    await store.append_run("s1", [done], fence=fence)
    (hit,) = await store.search("fox ru")
    assert hit == SearchHit("s1", "a fox", 3, "see the \x02fox\x03 \x02run\x03")
    (hit,) = await store.search("fox")
    assert hit.seq == 3
    (hit,) = await store.search("a fox")
    assert (hit.seq, hit.passage) == (2, "\x02a\x03 \x02fox\x03")


async def test_titles_and_edits_are_found_and_an_old_title_is_not(store: Store) -> None:
    await store.append("s1", [created(title="alpha plan")])
    assert [(hit.session_id, hit.seq) for hit in await store.search("alpha")] == [("s1", 0)]
    await store.append("s1", [e.SessionRenamed(at_ms=AT_MS, title="beta plan")])
    await store.append("s1", [e.SessionRenamed(at_ms=AT_MS, title="gamma plan")])
    assert ids(await store.search("alpha")) == []
    assert ids(await store.search("beta")) == []
    assert ids(await store.search("gamma")) == ["s1"]
    await store.append("s1", [message("x"), e.MessageEdited(at_ms=AT_MS, message_id="m1", text="delta wing")])
    assert ids(await store.search("delta")) == ["s1"]


async def test_a_deleted_session_is_not_found_until_it_is_restored(store: Store) -> None:
    await write(store, s1="fox")
    await store.append("s1", [e.SessionDeleted(at_ms=AT_MS, purge_at_ms=AT_MS + 1)])
    assert ids(await store.search("fox")) == []
    await store.append("s1", [e.SessionRestored(at_ms=AT_MS)])
    assert ids(await store.search("fox")) == ["s1"]


async def test_a_session_with_a_thousand_hits_is_found_once_and_hides_no_other(store: Store) -> None:
    await write(store, s1="fox one")
    await store.append("s2", [created(), *[message(f"fox {nth}") for nth in range(1_000)]])
    await write(store, s3="fox three")
    assert ids(await store.search("fox")) == ["s3", "s2", "s1"]
    assert ids(await store.search("fox", limit=2)) == ["s3", "s2"]


async def test_archived_sessions_are_searched_alone_beside_or_not_at_all(store: Store) -> None:
    for session_id in ("s1", "s2"):
        await store.append(session_id, [created(), message("a fox")])
    await store.append("s1", [e.SessionArchived(at_ms=AT_MS)])
    assert ids(await store.search("fox")) == ["s2", "s1"]
    assert ids(await store.search("fox", archived=True)) == ["s1"]
    assert ids(await store.search("fox", archived=False)) == ["s2"]


async def test_in_one_session_every_passage_is_found_the_newest_first(store: Store) -> None:
    await store.append("s1", [created(), message("a quick start"), message("slow"), message("quick, too")])
    await store.append("s1", [e.SessionRenamed(at_ms=AT_MS, title="Quick talk")])
    await write(store, s2="quick as well")
    hits = await store.search("quick", session_id="s1")
    assert [(hit.session_id, hit.seq) for hit in hits] == [("s1", 4), ("s1", 2)]
    assert [hit.seq for hit in await store.search("quick", session_id="s1", limit=1)] == [4]
    await store.append("s1", [e.SessionArchived(at_ms=AT_MS)])
    assert len(await store.search("quick", session_id="s1", archived=False)) == 2
    assert await store.search("quick", session_id="nowhere") == []
    await store.append("s1", [e.SessionDeleted(at_ms=AT_MS, purge_at_ms=AT_MS + 1)])
    assert await store.search("quick", session_id="s1") == []
