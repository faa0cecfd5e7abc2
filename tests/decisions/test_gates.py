"""Gates and breakers: what all runs learn from one, and how a target comes back."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.decisions.gates import (
    Breaker,
    Gate,
    Moment,
    abandon_probe,
    after_failure,
    after_success,
    breaker_note,
    breaker_wait_ms,
    close_gate,
    dump_breaker,
    dump_gate,
    gate_note,
    gate_wait_ms,
    load_breaker,
    load_gate,
    pass_breaker,
    try_gate,
)
from holdfast.targets import Target
from holdfast.values import FailureKind

WALL_MS = 1_800_000_000_000
TARGET = Target(
    name="main", wire="chat", base_url="https://api.example.com/v1", model="m", api_key="sk-secret-key"
)


def silent(times: int, *, now_ms: int = 0) -> Breaker:
    breaker = Breaker()
    for _ in range(times):
        breaker = after_failure(breaker, "no_first_event", now_ms=now_ms)
    return breaker


def passed(breaker: Breaker, now_ms: int) -> Breaker:
    through = pass_breaker(breaker, now_ms)
    assert through is not None
    return through


def test_a_gate_holds_until_the_later_time() -> None:
    gate = close_gate(close_gate(Gate(), 400, now_ms=100, why="a"), 200, now_ms=100, why="b")
    assert gate == Gate(until_ms=500, length_ms=400, why="a")
    assert gate_wait_ms(gate, 100) == 400
    assert gate_wait_ms(gate, 501) == 0
    assert close_gate(gate, 800, now_ms=100, why="c") == Gate(until_ms=900, length_ms=800, why="c")


def test_try_now_lets_one_through() -> None:
    gate = Gate(until_ms=500, why="a")
    tried = try_gate(gate, 100)
    assert tried is not None
    assert tried == Gate(until_ms=500, why="a", tried=True)
    assert try_gate(tried, 101) is None
    assert try_gate(tried, 500) == tried
    assert try_gate(close_gate(tried, 300, now_ms=600, why="b"), 600) is not None


def test_three_silences_in_a_row_open_the_breaker_for_half_a_minute() -> None:
    assert pass_breaker(silent(2), 0) == silent(2)
    breaker = silent(3, now_ms=1_000)
    assert breaker_wait_ms(breaker, 1_000) == 30_000
    assert pass_breaker(breaker, 30_999) is None
    assert passed(breaker, 31_000).probing


@pytest.mark.parametrize("kind", ["server_error", "rate_limited", "auth", "empty"])
def test_an_answer_of_any_kind_ends_the_row(kind: FailureKind) -> None:
    assert after_failure(silent(2), kind, now_ms=0) == Breaker()
    assert after_failure(passed(silent(3), 30_000), kind, now_ms=30_000) == Breaker()


@pytest.mark.parametrize("kind", ["dropped", "connect_failed", "cancelled", "local_bug"])
def test_what_says_nothing_about_silence_leaves_the_row(kind: FailureKind) -> None:
    assert after_failure(silent(2), kind, now_ms=0) == silent(2)
    probing = passed(silent(3), 30_000)
    assert after_failure(probing, kind, now_ms=30_000) == replace(probing, probing=False)


def test_one_probe_at_a_time_and_a_probe_that_vanishes_blocks_for_one_cooldown_only() -> None:
    probing = passed(silent(3), 30_000)
    assert pass_breaker(probing, 59_999) is None
    assert pass_breaker(probing, 60_000) is not None


def test_a_silent_probe_doubles_the_cooldown_up_to_five_minutes() -> None:
    breaker, now_ms, waits = silent(3), 0, [30_000]
    for _ in range(6):
        now_ms += breaker_wait_ms(breaker, now_ms)
        breaker = after_failure(passed(breaker, now_ms), "stalled", now_ms=now_ms)
        waits.append(breaker_wait_ms(breaker, now_ms))
    assert waits == [30_000, 60_000, 120_000, 240_000, 300_000, 300_000, 300_000]


def test_attempts_from_before_the_opening_do_not_lengthen_it() -> None:
    breaker = silent(3)
    assert after_failure(breaker, "stalled", now_ms=5_000) == breaker


def test_a_healed_target_needs_no_human() -> None:
    assert passed(silent(3), 30_000) != Breaker()
    assert after_success() == Breaker()


def test_a_probe_that_is_cancelled_leaves_its_turn_to_the_next_attempt() -> None:
    probing = passed(silent(3), 30_000)
    assert pass_breaker(abandon_probe(probing, 31_000), 31_000) is not None
    assert abandon_probe(silent(3), 1) == silent(3)
    assert abandon_probe(silent(1), 1) == silent(1)


def test_notes_are_by_endpoint_and_key_and_show_no_key() -> None:
    other = replace(TARGET, name="other", model="n")
    foreign = replace(TARGET, api_key="sk-another-key")
    assert gate_note(TARGET) == gate_note(other) != gate_note(foreign)
    assert breaker_note(TARGET) != breaker_note(other)
    assert "secret" not in gate_note(TARGET) + breaker_note(TARGET)


BEFORE = Moment(now_ms=70_000, wall_ms=WALL_MS)


def after(restart_ms: int, *, set_ms: int = 0) -> Moment:
    """So long after BEFORE, in another process on a computer that was started anew; the clock may be set."""
    return Moment(now_ms=5, wall_ms=WALL_MS + restart_ms + set_ms)


@given(st.integers(1, 10**9), st.integers(0, 10**9), st.text(), st.booleans())
def test_a_gate_survives_a_restart(wait_ms: int, later_ms: int, why: str, tried: bool) -> None:  # noqa: FBT001
    gate = replace(close_gate(Gate(), wait_ms, now_ms=BEFORE.now_ms, why=why), tried=tried)
    loaded = load_gate(dump_gate(gate, BEFORE), after(later_ms))
    assert gate_wait_ms(loaded, 5) == max(0, wait_ms - later_ms)
    if later_ms < wait_ms:
        assert (loaded.length_ms, loaded.why, loaded.tried) == (wait_ms, why, tried)


@given(st.integers(1, 10**9), st.integers(-(10**12), 10**12))
def test_no_clock_that_was_set_makes_a_wait_longer_than_it_was(wait_ms: int, set_ms: int) -> None:
    gate = close_gate(Gate(), wait_ms, now_ms=BEFORE.now_ms, why="")
    assert gate_wait_ms(load_gate(dump_gate(gate, BEFORE), after(0, set_ms=set_ms)), 5) <= wait_ms
    breaker = silent(3, now_ms=BEFORE.now_ms)
    loaded = load_breaker(dump_breaker(breaker, BEFORE), after(0, set_ms=set_ms))
    assert breaker_wait_ms(loaded, 5) <= 30_000


@given(
    st.integers(0, 99), st.integers(1, 300_000), st.integers(0, 300_000), st.integers(0, 10**6), st.booleans()
)
def test_a_breaker_survives_a_restart(
    times: int,
    cooldown_ms: int,
    left_ms: int,
    later_ms: int,
    probing: bool,  # noqa: FBT001
) -> None:
    left_ms = min(left_ms, cooldown_ms)
    breaker = Breaker(
        silent=times, cooldown_ms=cooldown_ms, probe_at_ms=BEFORE.now_ms + left_ms, probing=probing
    )
    loaded = load_breaker(dump_breaker(breaker, BEFORE), after(later_ms))
    assert breaker_wait_ms(loaded, 5) == max(0, left_ms - later_ms)
    assert (loaded.silent, loaded.cooldown_ms, loaded.probing) == (times, cooldown_ms, probing)


def test_a_closed_breaker_and_an_open_gate_survive_it_too() -> None:
    assert load_breaker(dump_breaker(silent(2), BEFORE), after(1)) == silent(2)
    assert load_gate(dump_gate(Gate(), BEFORE), after(1)) == Gate()


def test_a_note_of_an_older_version_does_not_tell_its_length_and_is_believed_for_a_minute() -> None:
    def left_ms(until_ms: int) -> int:
        raw = msgspec.json.encode({"until_ms": until_ms, "why": "busy", "tried": True})
        gate = load_gate(raw, BEFORE)
        assert gate_wait_ms(gate, BEFORE.now_ms) == 0 or (gate.why, gate.tried) == ("busy", True)
        return gate_wait_ms(gate, BEFORE.now_ms)

    assert [left_ms(WALL_MS + ms) for ms in (-1, 0, 700, 3_600_000)] == [0, 0, 700, 60_000]
    raw = msgspec.json.encode({"silent": 3, "cooldown_ms": 30_000, "probe_at_ms": WALL_MS + 20_000})
    assert breaker_wait_ms(load_breaker(raw, BEFORE), BEFORE.now_ms) == 20_000


@pytest.mark.parametrize("raw", [b"", b"x", b"[]", b'{"until_ms": "x", "silent": "x"}', b"\xff"])
def test_a_note_that_cannot_be_read_lets_everybody_through(raw: bytes) -> None:
    assert load_gate(raw, BEFORE) == Gate()
    assert load_breaker(raw, BEFORE) == Breaker()
