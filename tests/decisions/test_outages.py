"""Nobody there: how long a target is tried again, when another is asked, and that it comes to an end."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.decisions.gates import Gate
from holdfast.decisions.retry import (
    Decision,
    FallBack,
    Gated,
    GiveUp,
    History,
    Outage,
    Reconnect,
    RetryAfter,
    Tried,
    addresses_of,
    decide,
    outage_at,
    pause_ms,
)
from holdfast.targets import RetryLimits, Target, address_of
from holdfast.values import Failure

REFUSED = Failure(kind="connect_failed", text="", rule="broke.no_way")
NO_PROXY = Failure(kind="connect_failed", text="", rule="proxy.no_way")
DROPPED = Failure(kind="dropped", text="")
WHY = "a couldn't be reached"


def target(name: str, url: str = "", **fields: Any) -> Target:
    return Target(name=name, wire="chat", base_url=url or f"https://{name}.example/v1", model="m", **fields)


A, B = target("a"), target("b")
A2 = target("a2", "https://A.example:443/v2")
AT_A, AT_B = "a.example:443", "b.example:443"


def history(*targets: Target, away_s: float = 0, tries: int = 1, **given: Any) -> History:
    """A call whose first target is away for so long."""
    outage = Outage(ms=int(1000 * away_s), known_ms=int(1000 * away_s), tries=tries)
    plain = History(
        targets=targets, current="a", now_ms=0, last_progress_ms=0, random=0.5, outages={AT_A: outage}
    )
    return replace(plain, **given)


def test_tries_come_at_longer_and_longer_intervals_and_use_up_no_attempts() -> None:
    tried = tuple(Tried("a", REFUSED) for _ in range(50))
    waits = [decide(REFUSED, history(A, tries=nth, tried=tried)) for nth in range(1, 10)]
    assert all(isinstance(after, Reconnect) for after in waits)
    assert [after.wait_s for after in waits if isinstance(after, Reconnect)] == [
        *(0, 0.25, 0.5, 1, 2, 4, 5, 5, 5)
    ]


def test_the_last_try_is_when_the_time_is_over() -> None:
    assert decide(REFUSED, history(A, away_s=58, tries=20)) == Reconnect(2.0, 2.0, WHY)
    assert decide(REFUSED, history(A, away_s=60, tries=20)) == GiveUp(f"{WHY} for 1 min 0 s")


def test_a_target_that_is_not_waited_for_is_given_up_at_the_first_try() -> None:
    once = replace(A, retry=RetryLimits(unreachable_s=0))
    assert decide(REFUSED, history(once)) == GiveUp(WHY)
    assert decide(REFUSED, history(once, B)) == FallBack("b", WHY)


def test_a_run_that_was_resumed_waits_for_longer_even_where_nobody_ever_answered() -> None:
    assert isinstance(decide(REFUSED, history(A, away_s=299, resumed=True)), Reconnect)
    assert isinstance(
        decide(REFUSED, history(A, away_s=299, resumed=True, never_answered=frozenset("a"))), Reconnect
    )
    assert isinstance(decide(REFUSED, history(A, away_s=300, resumed=True)), GiveUp)
    patient = replace(A, retry=RetryLimits(unreachable_s=400))
    assert isinstance(decide(REFUSED, history(patient, away_s=399, resumed=True)), Reconnect)


def test_where_nobody_ever_answered_it_is_told_soon() -> None:
    never_answered = frozenset("a")
    assert isinstance(decide(REFUSED, history(A, away_s=9, never_answered=never_answered)), Reconnect)
    assert isinstance(decide(REFUSED, history(A, away_s=10, never_answered=never_answered)), GiveUp)
    impatient = replace(A, retry=RetryLimits(unreachable_s=2))
    assert isinstance(decide(REFUSED, history(impatient, away_s=2, never_answered=never_answered)), GiveUp)


def test_another_address_is_asked_after_five_seconds_and_another_target_at_the_same_one_never() -> None:
    assert decide(REFUSED, history(A, B, away_s=4, tries=6)) == Reconnect(1.0, 1.0, WHY, "b")
    assert decide(REFUSED, history(A, B, away_s=5)) == FallBack("b", WHY)
    assert isinstance(decide(REFUSED, history(A, A2, away_s=59)), Reconnect)
    assert isinstance(decide(REFUSED, history(A, A2, away_s=60)), GiveUp)


def test_what_other_calls_found_out_spares_this_one_the_five_seconds() -> None:
    known = history(A, B, outages={AT_A: Outage(known_ms=5_000)})
    assert decide(REFUSED, known) == FallBack("b", WHY)


def test_two_addresses_at_which_nobody_is_are_asked_in_turn_with_a_wait() -> None:
    outages = {AT_A: Outage(ms=9_000, known_ms=9_000, tries=6), AT_B: Outage(ms=4_000, known_ms=4_000)}
    assert decide(REFUSED, history(A, B, outages=outages)) == FallBack("b", WHY, 4.0)
    outages[AT_B] = Outage(ms=60_000, known_ms=60_000)
    assert isinstance(decide(REFUSED, history(A, B, outages=outages)), Reconnect), "b has had its time"


def test_a_target_behind_a_missing_proxy_falls_back_to_one_that_does_not_need_it() -> None:
    behind = replace(A, proxy="http://proxy.example:3128")
    other_behind = replace(B, proxy="http://proxy.example:3128")
    assert addresses_of(behind) == (AT_A, "proxy proxy.example:3128")
    assert (outage_at(behind, NO_PROXY), outage_at(behind, REFUSED)) == (addresses_of(behind)[1], AT_A)
    away = {addresses_of(behind)[1]: Outage(ms=5_000, known_ms=5_000)}
    assert isinstance(decide(NO_PROXY, history(behind, other_behind, outages=away)), Reconnect)
    assert decide(NO_PROXY, history(behind, B, outages=away)) == FallBack("b", WHY)
    # The proxy is there and finds no way to this endpoint: to another it may.
    assert decide(REFUSED, history(behind, other_behind, away_s=5)) == FallBack("b", WHY)


def test_a_dropped_stream_counts_as_an_attempt_and_the_outage_after_it_does_not() -> None:
    four = tuple(Tried("a", DROPPED) for _ in range(4))
    many = replace(A, retry=RetryLimits(attempts_max=5, attempts_per_target_max=5))
    assert isinstance(decide(REFUSED, history(many, tried=four)), Reconnect)
    away = (Tried("a", REFUSED),) * 9
    assert isinstance(decide(DROPPED, history(A, tried=away, outages={})), RetryAfter)


def test_ten_minutes_without_progress_end_the_longest_outage() -> None:
    patient = replace(A, retry=RetryLimits(unreachable_s=86_400))
    assert isinstance(decide(REFUSED, history(patient, away_s=599, now_ms=599_000, tries=9)), GiveUp)
    assert isinstance(decide(REFUSED, history(patient, away_s=590, now_ms=590_000, tries=9)), Reconnect)


def test_a_closed_gate_is_waited_for_all_the_same() -> None:
    short, long = Gate(until_ms=9_000), Gate(until_ms=90_000)
    assert decide(REFUSED, history(A, gates={"a": short})) == Reconnect(9.0, 60.0, WHY)
    assert decide(REFUSED, history(A, gates={"a": long})) == Gated(90_000, WHY)


@given(st.floats(0, 1, exclude_max=True), st.integers(1, 99))
def test_a_pause_is_spread_around_its_step(random: float, tries: int) -> None:
    step_ms = pause_ms(tries, random=0.5)
    assert 0.75 * step_ms - 1 <= pause_ms(tries, random=random) <= 1.25 * step_ms <= 6_250


@given(st.lists(st.integers(0, 15_000), min_size=400, max_size=400), st.booleans(), st.integers(1, 2))
def test_every_outage_comes_to_an_end(took_ms: list[int], resumed: bool, count: int) -> None:  # noqa: FBT001
    targets = (A, B)[:count]
    state, since = history(*targets, resumed=resumed, outages={}), dict[str, tuple[int, int]]()
    decisions: list[Decision] = []
    for ms in took_ms:
        state = replace(state, now_ms=state.now_ms + ms + 1)
        at = AT_A if state.current == "a" else AT_B
        first_ms, tries = since.get(at, (state.now_ms, 0))
        since[at] = first_ms, tries + 1
        outages = {
            each: Outage(ms=state.now_ms - begun_ms, known_ms=state.now_ms - begun_ms, tries=tried)
            for each, (begun_ms, tried) in since.items()
        }
        state = replace(state, outages=outages)
        decisions.append(decide(REFUSED, state))
        match decisions[-1]:
            case Reconnect(wait_s):
                state = replace(state, now_ms=state.now_ms + int(1000 * wait_s))
            case FallBack(to, _, wait_s):
                state = replace(state, current=to, now_ms=state.now_ms + int(1000 * wait_s))
            case _:
                break
    assert isinstance(decisions[-1], GiveUp)
    assert state.now_ms <= 2 * (320_000 if resumed else 80_000)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://Here.example/v1", "here.example:80"),
        ("https://here.example", "here.example:443"),
        ("http://user:word@[::1]:8080/x", "::1:8080"),
        ("http://here.example:no", "http://here.example:no"),
    ],
)
def test_an_address_is_host_and_port(url: str, address: str) -> None:
    assert address_of(url) == address
