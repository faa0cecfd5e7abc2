"""Decisions after a failure: the table row by row, and that every call comes to an end."""

from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.decisions.failures import TREATMENTS
from holdfast.decisions.gates import Breaker, Gate
from holdfast.decisions.retry import (
    Compact,
    Decision,
    DropPastReasoning,
    DropReasoningOptions,
    FallBack,
    Gated,
    GiveUp,
    History,
    LowerCap,
    Reconnect,
    RetryAfter,
    Tried,
    backoff_ms,
    decide,
    failure_to_report,
    hedge_target,
)
from holdfast.targets import RetryLimits, Target
from holdfast.values import Failure, FailureKind

NOW_MS = 1_750_000_000_000
NEVER_AGAIN: tuple[FailureKind, ...] = (
    "cancelled",
    "local_bug",
    "bad_request",
    "payload_too_large",
    "model_missing",
    "content_refused",
    "auth",
    "entitlement",
    "quota_exhausted",
    "tls_untrusted",
    "truncated",
)


def target(name: str, window: int = 100_000, host: str = "") -> Target:
    url = f"https://{host or name}.example.com/v1"
    return Target(name=name, wire="chat", base_url=url, model=f"{name}-model", context_window=window)


A, B, C = target("a"), target("b"), target("c", 300_000)


def failure(kind: FailureKind, rule: str = "") -> Failure:
    return Failure(kind=kind, text="", rule=rule)


def history(*targets: Target, after: tuple[FailureKind, ...] = (), **given: object) -> History:
    chosen = targets or (A,)
    plain = History(
        targets=chosen,
        current=chosen[0].name,
        tried=tuple(Tried(chosen[0].name, failure(kind)) for kind in after),
        now_ms=NOW_MS,
        last_progress_ms=NOW_MS - 1_000,
        random=0.5,
    )
    return msgspec.structs.replace(plain, **given)


def test_cancelled_and_our_own_bugs_end_the_call_at_once() -> None:
    assert decide(failure("cancelled"), history(A, B)) == GiveUp("a was stopped")
    assert decide(failure("local_bug"), history(A, B)) == GiveUp("a failed here")


@pytest.mark.parametrize(
    "kind", [kind for kind in NEVER_AGAIN if kind not in {"cancelled", "local_bug", "truncated"}]
)
def test_what_cannot_get_better_goes_to_the_fallback_or_ends(kind: FailureKind) -> None:
    assert decide(failure(kind), history(A, B)) == FallBack("b", f"a {TREATMENTS[kind].was}")
    assert isinstance(decide(failure(kind), history(A)), GiveUp)
    # Not even a server's time makes it worth asking again.
    assert isinstance(decide(failure(kind), history(A, wait_ms=1_000)), GiveUp)


def test_the_first_silence_is_asked_again_at_once_the_next_after_a_backoff() -> None:
    why = "a didn't answer in time"
    assert decide(failure("no_first_event"), history()) == RetryAfter(0.0, why)
    assert decide(failure("no_first_event"), history(after=("no_first_event",))) == RetryAfter(1.0, why)


@pytest.mark.parametrize("kind", ["overloaded", "server_error", "upload_stalled", "stalled", "dropped"])
def test_backoff_first_and_the_fallback_from_the_second(kind: FailureKind) -> None:
    assert decide(failure(kind), history(A, B)) == RetryAfter(0.5, f"a {TREATMENTS[kind].was}")
    assert decide(failure(kind), history(A, B, after=(kind,))) == FallBack("b", f"a {TREATMENTS[kind].was}")
    assert decide(failure(kind), history(A, after=(kind,))) == RetryAfter(1.0, f"a {TREATMENTS[kind].was}")
    assert decide(failure(kind), history(A, after=(kind, kind))) == GiveUp(f"a {TREATMENTS[kind].was}")


def test_some_statuses_are_tried_once_more_only() -> None:
    conflict = failure("server_error", "408")
    assert isinstance(decide(conflict, history()), RetryAfter)
    assert isinstance(decide(conflict, history(after=("server_error",))), GiveUp)


@pytest.mark.parametrize(("kind", "times"), [("malformed", 1), ("unknown", 1), ("empty", 2)])
def test_a_limited_number_of_tries_then_the_fallback(kind: FailureKind, times: int) -> None:
    for earlier in range(times):
        assert isinstance(decide(failure(kind), history(A, B, after=(kind,) * earlier)), RetryAfter)
    assert isinstance(decide(failure(kind), history(A, B, after=(kind,) * times)), FallBack)


def test_a_rate_limit_waits_for_the_server_s_time() -> None:
    assert decide(failure("rate_limited"), history(A, B, wait_ms=30_000)) == RetryAfter(
        30.0, "a was rate limited"
    )
    assert decide(failure("rate_limited"), history(A, B)) == RetryAfter(0.5, "a was rate limited")
    assert isinstance(decide(failure("rate_limited"), history(A, B, after=("rate_limited",))), RetryAfter)


@pytest.mark.parametrize("kind", ["rate_limited", "overloaded", "server_error"])
def test_a_wait_over_a_minute_goes_to_the_fallback_or_to_the_gate(kind: FailureKind) -> None:
    assert isinstance(decide(failure(kind), history(A, B, wait_ms=60_000)), RetryAfter)
    assert isinstance(decide(failure(kind), history(A, B, wait_ms=60_001)), FallBack)
    gated = decide(failure(kind), history(A, wait_ms=7_200_000))
    assert gated == Gated(7_200_000, f"a {TREATMENTS[kind].was}")


def test_a_rate_limit_on_the_last_try_goes_to_the_fallback() -> None:
    tried: tuple[FailureKind, ...] = ("rate_limited", "rate_limited")
    assert decide(failure("rate_limited"), history(A, B, after=tried)) == FallBack("b", "a was rate limited")


def test_a_refusal_is_shown_to_one_other_target_only() -> None:
    shared = history(A, B, C, current="b", tried=(Tried("a", failure("content_refused")),))
    assert isinstance(decide(failure("content_refused"), shared), GiveUp)


def test_an_overflow_is_compacted_once_then_goes_to_a_larger_window() -> None:
    assert decide(failure("overflow_input"), history(A, B, C)) == Compact("a can't fit the conversation")
    again = history(A, B, C, after=("overflow_input",), compacted=True)
    assert decide(failure("overflow_input"), again) == FallBack("c", "a can't fit the conversation")
    assert isinstance(decide(failure("overflow_input"), history(A, B, compacted=True)), GiveUp)
    used_up = history(A, C, after=("server_error", "server_error"))
    assert isinstance(decide(failure("overflow_input"), used_up), FallBack)


def test_an_answer_without_room_gets_a_lower_cap_once() -> None:
    assert decide(failure("overflow_output"), history(A, B, output_room_tokens=2_000)) == LowerCap(
        2_000, "a has no room left for the answer"
    )
    assert isinstance(decide(failure("overflow_output"), history(A, B, cap_lowered=True)), GiveUp)


def test_a_target_that_refuses_to_be_asked_about_reasoning_is_asked_plainly_once() -> None:
    refused = failure("bad_request", "400.thoughts")
    assert decide(refused, history(A, B)) == DropReasoningOptions("a rejected the request")
    assert decide(refused, history(A, B, reasoning_options_dropped=True)) == FallBack(
        "b", "a rejected the request"
    )
    assert decide(refused, history(A, reasoning_options_dropped=True)) == GiveUp("a rejected the request")


@pytest.mark.parametrize("rule", ["code.old_thoughts", "400.old_thoughts"])
def test_a_target_that_refuses_its_own_thoughts_is_asked_without_them_once(rule: str) -> None:
    refused = failure("bad_request", rule)
    assert decide(refused, history(A, B)) == DropPastReasoning("a rejected the request")
    assert decide(refused, history(A, B, past_reasoning_dropped=True)) == FallBack(
        "b", "a rejected the request"
    )
    assert decide(refused, history(A, past_reasoning_dropped=True)) == GiveUp("a rejected the request")


def test_a_cut_off_answer_is_left_to_a_new_turn() -> None:
    assert isinstance(decide(failure("truncated"), history(A, B)), GiveUp)


def test_an_untrusted_certificate_is_not_trusted_elsewhere_on_the_same_host() -> None:
    same = target("b", host="a")
    assert decide(failure("tls_untrusted"), history(A, same, C)) == FallBack(
        "c", "a has an untrusted certificate"
    )
    assert isinstance(decide(failure("tls_untrusted"), history(A, same)), GiveUp)


def test_after_the_last_fallback_an_earlier_target_with_tries_left_is_asked_again() -> None:
    tried = (
        Tried("a", failure("overloaded")),
        Tried("a", failure("overloaded")),
        Tried("b", failure("stalled")),
    )
    shared = history(A, B, current="b", tried=tried)
    assert decide(failure("stalled"), shared) == FallBack("a", "b stopped responding")


def test_a_target_that_refused_for_good_is_not_asked_again() -> None:
    shared = history(A, B, current="b", tried=(Tried("a", failure("auth")), Tried("b", failure("stalled"))))
    assert isinstance(decide(failure("stalled"), shared), RetryAfter)


def test_a_fallback_behind_a_gate_or_an_open_breaker_is_passed_over() -> None:
    gates = {"b": Gate(until_ms=NOW_MS + 1)}
    breakers = {"b": Breaker(silent=3, cooldown_ms=30_000, probe_at_ms=NOW_MS + 1)}
    for given_state in ({"gates": gates}, {"breakers": breakers}):
        assert decide(failure("auth"), msgspec.structs.replace(history(A, B, C), **given_state)) == FallBack(
            "c", "a rejected the API key"
        )


def test_the_own_gate_and_breaker_are_waited_for() -> None:
    gates = {"a": Gate(until_ms=NOW_MS + 9_000)}
    breakers = {"a": Breaker(silent=3, cooldown_ms=30_000, probe_at_ms=NOW_MS + 30_000)}
    assert decide(failure("dropped"), history(gates=gates)) == RetryAfter(9.0, "a dropped the connection")
    assert decide(failure("dropped"), history(gates=gates, breakers=breakers)) == RetryAfter(
        30.0, "a dropped the connection"
    )


def test_five_attempts_in_all_whatever_the_targets() -> None:
    tried = tuple(Tried(name, failure("overloaded")) for name in ("a", "a", "b", "b"))
    shared = history(A, B, C, current="c", tried=tried)
    found = decide(failure("overloaded"), shared)
    assert found == GiveUp("c was overloaded; all 5 attempts of the call are used up")


@pytest.mark.parametrize(("given_state", "minutes"), [({}, 10), ({"unattended": True}, 30)])
def test_no_attempt_starts_long_after_the_last_progress(given_state: dict[str, object], minutes: int) -> None:
    limit_ms = minutes * 60_000
    plain = msgspec.structs.replace(history(), **given_state)
    late = msgspec.structs.replace(plain, last_progress_ms=NOW_MS - limit_ms - 1)
    assert decide(failure("dropped"), late) == GiveUp(
        f"a dropped the connection; no progress for {minutes} min"
    )
    near = msgspec.structs.replace(plain, last_progress_ms=NOW_MS - limit_ms + 10_000)
    too_long = msgspec.structs.replace(near, wait_ms=10_001)
    assert isinstance(decide(failure("dropped"), too_long), GiveUp)
    fits = msgspec.structs.replace(near, wait_ms=10_000)
    assert isinstance(decide(failure("dropped"), fits), RetryAfter)


def test_time_at_a_gate_is_no_silence() -> None:
    waited = history(last_progress_ms=NOW_MS - 7_200_000, gated_ms=7_100_000)
    assert isinstance(decide(failure("dropped"), waited), RetryAfter)


def test_backoff_is_full_jitter_and_has_a_bound() -> None:
    limits = RetryLimits()
    assert [backoff_ms(n, limits, random=1.0) for n in range(1, 8)] == [
        1000,
        2000,
        4000,
        8000,
        16000,
        20000,
        20000,
    ]
    assert backoff_ms(3, limits, random=0.0) == 0
    assert backoff_ms(10_000, limits, random=0.5) == 10_000


class Turn(msgspec.Struct, frozen=True):
    """One failure of a simulated call, and the world around it."""

    kind: FailureKind
    random: float
    wait_ms: int | None
    took_ms: int


TURNS = st.lists(
    st.builds(
        Turn,
        kind=st.sampled_from([kind for kind in get_args(FailureKind) if kind != "connect_failed"]),
        random=st.floats(0, 1, exclude_max=True),
        wait_ms=st.none() | st.integers(1, 10_000_000),
        took_ms=st.integers(0, 200_000),
    ),
    min_size=20,
    max_size=20,
)


def simulate(turns: list[Turn], targets: tuple[Target, ...]) -> list[tuple[str, FailureKind, Decision]]:
    """A call that fails every time, with the caller's bookkeeping, up to its end."""
    past: list[tuple[str, FailureKind, Decision]] = []
    state = history(*targets)
    for turn in turns:
        now_ms = state.now_ms + turn.took_ms
        state = msgspec.structs.replace(state, now_ms=now_ms, random=turn.random, wait_ms=turn.wait_ms)
        failed = failure(turn.kind)
        decision = decide(failed, state)
        past.append((state.current, turn.kind, decision))
        state = msgspec.structs.replace(state, tried=(*state.tried, Tried(state.current, failed)))
        match decision:
            case GiveUp():
                return past
            case FallBack(to):
                state = msgspec.structs.replace(state, current=to)
            case RetryAfter(wait_s) | Reconnect(wait_s):
                state = msgspec.structs.replace(state, now_ms=now_ms + int(1000 * wait_s))
            case Gated(wait_ms):
                gated_ms = state.gated_ms + wait_ms
                state = msgspec.structs.replace(state, now_ms=now_ms + wait_ms, gated_ms=gated_ms)
            case Compact():
                state = msgspec.structs.replace(state, compacted=True)
            case LowerCap():
                state = msgspec.structs.replace(state, cap_lowered=True)
            case DropReasoningOptions():
                state = msgspec.structs.replace(state, reasoning_options_dropped=True)
            case DropPastReasoning():
                state = msgspec.structs.replace(state, past_reasoning_dropped=True)
    return past


@given(TURNS, st.integers(1, 3))
def test_every_call_ends_within_its_budget_and_never_asks_in_vain(turns: list[Turn], count: int) -> None:
    past = simulate(turns, (A, B, C)[:count])
    asked = [name for name, _, _ in past]
    assert isinstance(past[-1][2], GiveUp)
    assert len(asked) <= 5
    assert max(asked.count(name) for name in asked) <= 3
    for place, (name, kind, decision) in enumerate(past):
        if kind in NEVER_AGAIN:
            assert not isinstance(
                decision, RetryAfter | Gated | Compact | LowerCap | DropReasoningOptions | DropPastReasoning
            )
            assert name not in asked[place + 1 :]
        if isinstance(decision, RetryAfter):
            assert 0 <= decision.wait_s <= 60
        if isinstance(decision, FallBack):
            assert decision.to != name


def test_whether_another_target_is_asked_beside_a_slow_one_is_for_the_preferred_one_to_say() -> None:
    eager = msgspec.structs.replace(A, retry=RetryLimits(hedge=True, attempts_max=3))
    assert hedge_target(history(eager, B)) == B
    assert hedge_target(history(A, msgspec.structs.replace(B, retry=RetryLimits(hedge=True)))) is None
    assert hedge_target(history(eager, B, after=("overloaded",))) == B
    assert hedge_target(history(eager, B, after=("overloaded", "overloaded"))) is None
    assert hedge_target(history(eager)) is None


@pytest.mark.parametrize(
    ("first", "last", "shown"),
    [
        ("auth", "connect_failed", "auth"),
        ("connect_failed", "auth", "auth"),
        ("quota_exhausted", "auth", "auth"),
        ("overloaded", "connect_failed", "connect_failed"),
    ],
)
def test_a_call_reports_the_failure_that_only_a_person_can_fix(
    first: FailureKind, last: FailureKind, shown: FailureKind
) -> None:
    """P9: an unreachable fallback doesn't hide a rejected key."""
    tried = (Tried("main", failure(first)), Tried("backup", failure(last)))
    assert failure_to_report(failure(last), tried).kind == shown
