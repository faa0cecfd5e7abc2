"""Gathered text, and endings in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.folds.entries import ending_words
from holdfast.folds.gathered import Gathered
from holdfast.values import Failure, OutcomeKind
from strategies.legal_logs import BOUNDED


@BOUNDED
@given(st.lists(st.text(max_size=9)), st.integers(0, 12))
def test_gathered_text_is_the_end_of_all_pieces(pieces: list[str], chars_max: int) -> None:
    gathered = Gathered(chars_max)
    whole = ""
    for piece in pieces:
        gathered.add(piece)
        whole += piece
        assert str(gathered) == (whole[-chars_max:] if chars_max else whole)
    assert gathered.total_chars == len(whole)
    same = Gathered(chars_max)
    same.put(whole)
    assert same == gathered
    assert repr(same) == repr(gathered)
    same.add("!")
    assert same != gathered
    assert gathered != whole


@pytest.mark.parametrize(
    ("outcome", "cause", "failure", "words"),
    [
        ("completed", "", None, "Completed"),
        ("cancelled", "user_stop", None, "Stopped"),
        ("interrupted", "crash_loop", None, "Interrupted: the server restarted three times without progress"),
        ("budget", "tokens", None, "Budget used up: tokens"),
        ("failed", "x", Failure(kind="dropped", text="the line broke"), "Failed: the line broke"),
    ],
)
def test_an_ending_is_put_in_words(
    outcome: OutcomeKind, cause: str, failure: Failure | None, words: str
) -> None:
    assert ending_words(outcome, cause, failure=failure) == words


def test_very_many_short_pieces_are_joined_on_the_way_and_read_the_same() -> None:
    gathered, pieces = Gathered(), [f"{nth} " for nth in range(1_000)]
    for piece in pieces:
        gathered.add(piece)
    assert str(gathered) == "".join(pieces)


def test_gathered_text_says_what_it_is_and_is_no_plain_text() -> None:
    gathered = Gathered()
    gathered.put("a")
    assert repr(gathered) == "Gathered('a')"
    assert gathered != "a"
