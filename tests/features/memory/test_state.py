"""A memory as a fold of its log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from folds.golden import GOLDEN, read
from holdfast import events as e
from holdfast.features.memory.events import MemoryProposed, MemoryRejected, MemoryWritten
from holdfast.features.memory.state import DOCUMENT, apply, chars_max, edited, fold, undone
from strategies.legal_logs import BOUNDED

WORDS = st.sampled_from(["", "likes tea", "likes tea\nwrites Python", "ü😀"])


def written(before: str, after: str, *, change_id: str = "c", document: str = DOCUMENT) -> MemoryWritten:
    return MemoryWritten(
        at_ms=1, change_id=change_id, document=document, before=before, after=after, how="edited"
    )


def proposed(change_id: str = "c") -> MemoryProposed:
    return MemoryProposed(at_ms=1, change_id=change_id, document=DOCUMENT, before="", after="x", new="x")


def test_a_proposal_counts_for_nothing_until_it_is_written() -> None:
    memory = fold([(1, e.SessionCreated(at_ms=1, epoch="e")), (2, proposed())])
    assert (memory.document, list(memory.proposals), memory.knows("c")) == ("", ["c"], True)
    apply(memory, 3, written("", "x"))
    assert (memory.document, memory.proposals) == ("x", {})
    apply(memory, 4, proposed())  # again, after a crash
    assert memory.proposals == {}


def test_a_memory_knows_which_log_it_is_of_and_how_far() -> None:
    memory = fold([(1, e.SessionCreated(at_ms=1, epoch="e")), (2, written("", "x"))])
    assert memory.end == ("e", 2)
    apply(memory, 3, written("x", "", change_id="d"))
    assert (memory.end, memory.texts) == (("e", 3), {})


def test_a_rejected_proposal_is_gone() -> None:
    memory = fold([(1, proposed()), (2, MemoryRejected(at_ms=1, change_id="c"))])
    assert (memory.document, memory.proposals, memory.knows("c")) == ("", {}, True)


def test_a_change_that_was_rejected_or_made_is_not_made_again() -> None:
    """P8: whoever accepts it had seen it before it was rejected."""
    late = written("", "x")
    memory = fold([(1, proposed()), (2, MemoryRejected(at_ms=1, change_id="c")), (3, late)])
    assert (memory.document, memory.has_made("c")) == ("", False)
    memory = fold([(1, late), (2, MemoryRejected(at_ms=1, change_id="c"))])
    assert (memory.document, memory.has_made("c")) == ("x", True)


@pytest.mark.parametrize(
    ("now", "before", "after", "left"),
    [
        ("a\nb", "a", "a\nb", "a"),
        ("a\nb\nc", "a", "a\nb", "a\nc"),
        ("b\nc", "", "b", "c"),
        ("a2", "a1", "a2", "a1"),
        ("a2\nb", "a1", "a2", None),
        ("a\nb\nb", "a", "a\nb", None),
        ("a\nbb", "a", "a\nb", None),
        ("a\nc", "a", "a\nb", None),
    ],
)
def test_one_change_is_taken_back_and_later_ones_stay(
    now: str, before: str, after: str, left: str | None
) -> None:
    assert undone(now, before, after) == left


def test_a_change_of_a_text_that_is_another_by_now_has_no_effect() -> None:
    memory = fold([(1, written("", "a")), (2, written("", "b", change_id="late"))])
    assert (memory.document, "late" in memory.settled) == ("a", False)


def test_notes_are_apart_from_the_document_and_an_empty_text_removes_one() -> None:
    memory = fold([(1, written("", "a")), (2, written("", "long", change_id="d", document="trip"))])
    assert (memory.document, memory.notes) == ("a", {"trip": "long"})
    apply(memory, 3, written("long", "", change_id="e", document="trip"))
    assert memory.notes == {}
    assert chars_max("trip") > chars_max(DOCUMENT)


@given(st.lists(st.tuples(st.sampled_from([DOCUMENT, "note"]), WORDS), max_size=12))
@BOUNDED
def test_the_memory_at_any_seq_is_what_the_last_write_before_it_said(changes: list[tuple[str, str]]) -> None:
    texts: dict[str, str] = {}
    pairs: list[tuple[int, e.Event]] = []
    expected: list[dict[str, str]] = [{}]
    for seq, (document, after) in enumerate(changes, 1):
        change = written(texts.get(document, ""), after, change_id=str(seq), document=document)
        pairs.append((seq, change))
        texts[document] = after
        expected.append({name: text for name, text in texts.items() if text})
    for seq, then in enumerate(expected):
        assert fold(pairs[:seq]).texts == then


def test_edits_add_or_replace_exactly_one_place() -> None:
    assert edited("", "", "a ") == "a"
    assert edited("a", "", "b") == "a\nb"
    assert edited("a\nb", "a", "c") == "c\nb"
    assert edited("a\na", "a", "c") is None
    assert edited("a", "z", "c") is None


def test_a_stored_log_of_a_memory_reads_as_before() -> None:
    memory = fold(read(GOLDEN / "memory.jsonl"))
    assert [(seq, event.how) for seq, event in memory.history] == [(3, "accepted"), (6, "rolled_back")]
    assert (memory.texts, memory.proposals) == ({}, {})
