"""What is learned about a target, and what is known about those that reject in silence."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast.models
from holdfast.decisions.learned import (
    KEPT_MAX,
    Learned,
    address_in,
    learn,
    learned_note,
    load_learned,
    load_silent_rejects,
    p95_s,
    silent_reject_hint,
    usual_s,
)
from holdfast.targets import Target

TARGET = Target(
    name="main", wire="responses", base_url="https://chatgpt.com/backend-api/codex", model="gpt-5.5"
)


def taught(*times_s: float, input_tokens: int = 100) -> Learned:
    learned = Learned()
    for time_s in times_s:
        learned = learn(learned, input_tokens, first_event_s=time_s)
    return learned


def test_nothing_is_known_at_first() -> None:
    assert p95_s(Learned(), 100) is None


def test_the_p95_leaves_one_outlier_in_twenty_out() -> None:
    assert p95_s(taught(*range(1, 20), 99), 100) == 19
    assert p95_s(taught(3), 100) == 3


def test_only_the_last_fifty_calls_count() -> None:
    assert p95_s(taught(*[99] * 50, *[1] * KEPT_MAX), 100) == 1


def test_twenty_answers_of_a_size_are_enough_to_rely_on() -> None:
    learned = Learned()
    for nth in range(20):
        assert usual_s(learned, 20_000) is None
        learned = learn(learned, 20_000, first_event_s=nth / 10)
    assert usual_s(learned, 20_000) == 1.8
    assert usual_s(learned, 100) is None
    assert usual_s(learned, 200_000) is None


def test_bands_are_apart_and_a_larger_request_inherits_from_smaller_ones() -> None:
    learned = learn(taught(5), 200_000, first_event_s=80)
    assert p95_s(learned, 100) == 5
    assert p95_s(learned, 10_000) == 5
    assert p95_s(learned, 200_000) == 80
    assert p95_s(learned, 900_000) == 80


@given(st.lists(st.tuples(st.integers(0, 400_000), st.floats(0, 900)), max_size=80))
def test_what_was_learned_survives_a_restart(calls: list[tuple[int, float]]) -> None:
    learned = Learned()
    for tokens, time_s in calls:
        learned = learn(learned, tokens, first_event_s=time_s)
    assert load_learned(msgspec.json.encode(learned)) == learned


@pytest.mark.parametrize("raw", [b"", b"{}x", b"[]", b'{"bands": 5}', b'{"bands": [[1]]}', b"\xff"])
def test_a_note_that_cannot_be_read_is_nothing_learned(raw: bytes) -> None:
    assert load_learned(raw) == Learned()


def test_the_note_is_of_endpoint_and_model() -> None:
    assert learned_note(TARGET) == "learned:https://chatgpt.com/backend-api/codex gpt-5.5"
    assert address_in(learned_note(TARGET)) == "chatgpt.com:443"


REJECTS = load_silent_rejects((Path(holdfast.models.__path__[0]) / "silent_rejects.toml").read_text())


def test_the_codex_backend_s_silent_reject_has_its_hint() -> None:
    hint = silent_reject_hint(REJECTS, base_url=TARGET.base_url, model="GPT-5.5")
    assert "gpt-5.4 or gpt-5.3-codex" in hint
    assert "some accounts do not support gpt-5.4-codex" in hint


@pytest.mark.parametrize(
    ("base_url", "model"),
    [("https://api.openai.com/v1", "gpt-5.5"), (TARGET.base_url, "gpt-5.4"), ("", "gpt-5.5")],
)
def test_others_have_none(base_url: str, model: str) -> None:
    assert silent_reject_hint(REJECTS, base_url=base_url, model=model) == ""


def test_a_wrong_entry_is_an_error() -> None:
    with pytest.raises(msgspec.ValidationError):
        load_silent_rejects('[[reject]]\nendpoint = "x"\nmodel = "y"\nhints = "z"')


def test_what_was_learned_is_read_again_unless_it_has_other_bands() -> None:
    learned = learn(Learned(), 10, first_event_s=1.5)
    assert load_learned(msgspec.json.encode(learned)) == learned
    assert load_learned(msgspec.json.encode(Learned(((1.0,),)))) == Learned()
    assert load_learned(b"{") == Learned()
