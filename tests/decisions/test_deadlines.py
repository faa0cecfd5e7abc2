"""Patience: which number counts and why, what moves an attempt, and what a clock jump does."""

from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.decisions.deadlines import (
    CLOSE_REASONS,
    LIMITS,
    SIGNS,
    TRANSITIONS,
    WHY_TEXT,
    ClockReading,
    Deadline,
    DeadlineKind,
    Deadlines,
    Limit,
    RequestFacts,
    Sign,
    State,
    Watch,
    Why,
    begin,
    due_s,
    effective,
    is_local,
    next_deadline,
    sign_of,
    step,
    wake,
)
from holdfast.model_events import (
    ArgsPiece,
    ErrorReported,
    Finished,
    ItemClosed,
    ItemOpened,
    Lifecycle,
    ModelEvent,
    ReasoningPiece,
    TextPiece,
    TokensUsed,
)
from holdfast.targets import Patience

SMALL = RequestFacts(local=False, input_tokens=100)
LARGE = RequestFacts(local=False, input_tokens=30_000)
NEAR = RequestFacts(local=True, input_tokens=100)
NEAR_LARGE = RequestFacts(local=True, input_tokens=30_000)


def slow(asked: RequestFacts, p95_s: float) -> RequestFacts:
    return msgspec.structs.replace(asked, learned_p95_s=p95_s)


def usual(asked: RequestFacts, p95_s: float) -> RequestFacts:
    return msgspec.structs.replace(asked, learned_p95_s=p95_s, usual_s=p95_s)


def first(asked: RequestFacts, **given: float | bool) -> Limit:
    return effective(msgspec.convert(given, Patience), asked).first_event


def test_the_defaults_are_those_of_the_table() -> None:
    assert effective(Patience(), SMALL) == Deadlines(
        connect=Limit("connect", 10, "default"),
        upload=Limit("upload", 20, "default"),
        first_event=Limit("first_event", 45, "default"),
        first_progress=Limit("first_progress", 300, "default"),
        gap=Limit("gap", 120, "default"),
    )
    assert effective(Patience(), NEAR) == Deadlines(
        connect=Limit("connect", 5, "default"),
        upload=Limit("upload", 20, "default"),
        first_event=Limit("first_event", 300, "default"),
        first_progress=Limit("first_progress", 900, "default"),
        gap=Limit("gap", 300, "default"),
    )


@pytest.mark.parametrize("asked", [SMALL, NEAR])
def test_a_reasoning_model_gets_more_time_to_its_first_progress(asked: RequestFacts) -> None:
    thinker = msgspec.structs.replace(asked, reasoning=True)
    assert effective(Patience(), thinker).first_progress.patience_s == 900


@pytest.mark.parametrize(
    ("limit", "patience_s", "why"),
    [
        (first(msgspec.structs.replace(SMALL, input_tokens=9_999)), 45, "default"),
        (first(msgspec.structs.replace(SMALL, input_tokens=10_000)), 45, "default"),
        (first(LARGE), 50, "size"),
        (first(msgspec.structs.replace(LARGE, input_tokens=500_000)), 180, "size"),
        (first(NEAR_LARGE), 420, "size"),
        (first(msgspec.structs.replace(NEAR_LARGE, input_tokens=500_000)), 900, "size"),
        (first(LARGE, strict=True), 45, "default"),
        # Learning raises, as far as the cap.
        (first(slow(SMALL, 20)), 60, "learned"),
        (first(slow(SMALL, 5)), 45, "default"),
        (first(slow(SMALL, 15)), 45, "default"),  # just as long: nothing was raised
        (first(slow(SMALL, 100)), 180, "learned"),
        (first(slow(LARGE, 30)), 90, "learned"),
        (first(slow(SMALL, 100), strict=True), 45, "default"),
        # Experience shortens what was a guess, but nothing that was configured.
        (first(usual(NEAR, 2)), 45, "usual"),
        (first(usual(NEAR_LARGE, 20)), 60, "usual"),
        (first(usual(NEAR_LARGE, 200)), 600, "learned"),
        (first(usual(SMALL, 2)), 45, "default"),
        (first(usual(NEAR_LARGE, 2), first_event_s=10), 10, "usual"),
        (first(usual(NEAR, 2), first_event_s=600), 600, "configured"),
        (first(usual(NEAR_LARGE, 2), first_event_s=10, strict=True), 10, "configured"),
        # An explicit value is limited by an explicit cap alone, and switches learning off.
        (first(SMALL, first_event_s=1), 1, "configured"),
        (first(slow(SMALL, 100), first_event_s=1), 1, "configured"),
        (first(SMALL, first_event_s=600), 600, "configured"),
        (first(LARGE, first_event_s=1), 50, "size"),
        (first(LARGE, first_event_s=1, strict=True), 1, "configured"),
        (first(msgspec.structs.replace(LARGE, input_tokens=500_000), first_event_s=1), 180, "size"),
        (first(msgspec.structs.replace(LARGE, input_tokens=500_000), first_event_s=200), 200, "size"),
        (first(SMALL, first_event_s=90, first_event_cap_s=1), 1, "cap"),
        (first(SMALL, first_event_cap_s=10), 10, "cap"),
        (first(LARGE, first_event_cap_s=47), 47, "cap"),
        (first(SMALL, first_event_s=5, first_event_cap_s=10), 5, "configured"),
        (first(msgspec.structs.replace(LARGE, input_tokens=500_000), first_event_cap_s=0), 520, "size"),
    ],
)
def test_the_first_event_patience(limit: Limit, patience_s: float, why: Why) -> None:
    assert limit == Limit("first_event", patience_s, why)


@pytest.mark.parametrize("asked", [SMALL, LARGE, slow(LARGE, 60), NEAR_LARGE])
def test_zero_switches_the_first_event_watchdog_off_for_all_sizes_and_no_other(asked: RequestFacts) -> None:
    with_it, without = effective(Patience(), asked), effective(Patience(first_event_s=0), asked)
    progress_s = with_it.first_progress.patience_s
    assert without.first_event == Limit("first_progress", progress_s, "ttfb_off")
    assert msgspec.structs.replace(without, first_event=with_it.first_event) == with_it


def test_a_gap_bounds_first_progress_but_not_the_wait_for_a_first_byte() -> None:
    deadlines = effective(Patience(gap_s=1, first_event_s=0), SMALL)
    assert deadlines.first_progress == Limit("first_progress", 1, "gap")
    assert deadlines.first_event.patience_s == 300


@pytest.mark.parametrize(
    ("patience", "limit"),
    [
        (Patience(gap_s=1, first_progress_s=5), Limit("first_progress", 5, "configured")),
        (Patience(gap_s=1_000), Limit("first_progress", 300, "default")),
        (Patience(gap_s=0), Limit("first_progress", 300, "default")),
        (Patience(first_progress_s=0), Limit("first_progress", 0, "configured")),
    ],
)
def test_first_progress(patience: Patience, limit: Limit) -> None:
    assert effective(patience, SMALL).first_progress == limit


PATIENCES = st.builds(
    Patience,
    first_event_s=st.none() | st.floats(0, 1_000),
    first_event_cap_s=st.none() | st.floats(0, 1_000),
    gap_s=st.none() | st.floats(0, 1_000),
    first_progress_s=st.none() | st.floats(0, 1_000),
    strict=st.booleans(),
)


ASKED = st.builds(
    RequestFacts,
    local=st.booleans(),
    input_tokens=st.integers(0, 400_000),
    learned_p95_s=st.none() | st.floats(0, 1_000),
)


@given(PATIENCES, ASKED, st.integers(0, 400_000))
def test_a_larger_request_never_gets_less_patience(
    patience: Patience, asked: RequestFacts, more_tokens: int
) -> None:
    larger = msgspec.structs.replace(asked, input_tokens=asked.input_tokens + more_tokens)
    less, more = (effective(patience, each).first_event.patience_s for each in (asked, larger))
    assert less <= more
    if patience.first_event_s and patience.first_event_cap_s:
        assert more <= patience.first_event_cap_s
    elif patience.first_event_s:
        assert more >= patience.first_event_s


DEADLINES = effective(Patience(), SMALL)


def at(state: State, since_s: float = 0.0) -> Watch:
    return Watch(DEADLINES, state, since_s)


def test_every_state_has_a_row_and_a_limit_and_every_event_a_sign() -> None:
    assert set(TRANSITIONS) == set(State) == set(LIMITS)
    assert set(SIGNS) == set(get_args(ModelEvent))
    assert set(CLOSE_REASONS) == set(get_args(DeadlineKind))
    assert set(WHY_TEXT) == set(get_args(Why))


@pytest.mark.parametrize(
    ("event", "sign"),
    [
        (Lifecycle("response.created"), Sign.ALIVE),
        (TokensUsed(input_tokens=1), Sign.ALIVE),
        (TextPiece(0, ""), Sign.ALIVE),
        (ReasoningPiece(0, ""), Sign.ALIVE),
        (ArgsPiece(0, ""), Sign.ALIVE),
        (ItemOpened(0, "text"), Sign.ALIVE),
        (ItemOpened(0, "reasoning"), Sign.OPENING),
        (ItemOpened(0, "tool"), Sign.OPENING),
        (TextPiece(0, "a"), Sign.PROGRESS),
        (ReasoningPiece(0, "a"), Sign.PROGRESS),
        (ArgsPiece(0, "{"), Sign.PROGRESS),
        (ItemClosed(0, "reasoning"), Sign.PROGRESS),
        (Finished("stop"), Sign.MARKER),
        (ErrorReported(message="no"), Sign.MARKER),
    ],
)
def test_signs(event: ModelEvent, sign: Sign) -> None:
    assert sign_of(event) is sign


def test_an_attempt_from_connecting_to_its_end() -> None:
    watch = begin(DEADLINES, 0)
    seen: list[tuple[State, float, DeadlineKind]] = []
    for now_s, sign in enumerate(
        [
            Sign.CONNECTED,
            Sign.ACCEPTED,
            Sign.SENT,
            Sign.ALIVE,
            Sign.ALIVE,
            Sign.OPENING,
            Sign.PROGRESS,
            Sign.ALIVE,
            Sign.PROGRESS,
            Sign.OPENING,
            Sign.OPENING,
            Sign.PROGRESS,
            Sign.MARKER,
            Sign.ALIVE,
        ],
        start=1,
    ):
        watch = step(watch, sign, now_s=now_s)
        deadline = next_deadline(watch)
        assert deadline is not None
        seen.append((watch.state, deadline.at_s, deadline.kind))
    assert seen == [
        (State.UPLOADING, 1 + 20, "upload"),
        (State.UPLOADING, 2 + 20, "upload"),
        (State.WAITING, 3 + 45, "first_event"),
        (State.BEGUN, 4 + 300, "first_progress"),
        (State.BEGUN, 4 + 300, "first_progress"),
        (State.BEGUN, 4 + 300, "first_progress"),
        (State.STREAMING, 7 + 120, "gap"),
        (State.STREAMING, 7 + 120, "gap"),
        (State.STREAMING, 9 + 120, "gap"),
        (State.OPENED, 10 + 300, "first_progress"),
        (State.OPENED, 10 + 300, "first_progress"),
        (State.STREAMING, 12 + 120, "gap"),
        (State.ENDING, 13 + 1, "tail"),
        (State.ENDING, 13 + 1, "tail"),
    ]


@given(st.lists(st.sampled_from([Sign.ALIVE, Sign.OPENING, Sign.ACCEPTED, Sign.SENT]), max_size=30))
def test_signs_of_life_alone_never_move_a_deadline_for_ever(signs: list[Sign]) -> None:
    watch = at(State.STREAMING)
    for now_s, sign in enumerate(signs, start=1):
        watch = step(watch, sign, now_s=float(now_s))
    deadline = next_deadline(watch)
    assert deadline is not None
    assert deadline.at_s <= len(signs) + 300
    assert watch.since_s in {0.0, *(n for n, sign in enumerate(signs, start=1) if sign is Sign.OPENING)}


def test_an_answer_may_begin_before_the_request_is_sent() -> None:
    assert step(at(State.UPLOADING), Sign.ALIVE, now_s=1).state is State.BEGUN
    assert step(at(State.BEGUN), Sign.SENT, now_s=1) == at(State.BEGUN)


def test_a_deadline_says_what_it_is_and_why() -> None:
    capped = effective(Patience(first_event_s=90, first_event_cap_s=1), SMALL)
    deadline = next_deadline(Watch(capped, State.WAITING, 5))
    assert deadline == Deadline(
        at_s=6,
        kind="first_event",
        patience_s=1,
        why="cap",
        says="first event within 1 s (capped by the operator at 1 s)",
    )
    plain = next_deadline(at(State.STREAMING))
    assert plain is not None
    assert plain.says == "next progress within 120 s"


def test_a_watchdog_that_is_off_has_no_deadline() -> None:
    off = effective(Patience(first_event_s=0, first_progress_s=0), SMALL)
    assert next_deadline(Watch(off, State.WAITING, 0)) is None
    assert wake(Watch(off, State.WAITING, 0), armed=ClockReading(0, 0), woke=ClockReading(9, 9)) == Watch(
        off, State.WAITING, 0
    )


def test_a_timer_that_goes_off_in_time_fires() -> None:
    fired = wake(at(State.STREAMING), armed=ClockReading(0, 1_000), woke=ClockReading(120.01, 1_120.01))
    assert isinstance(fired, Deadline)
    assert fired.kind == "gap"


def test_a_timer_that_goes_off_before_the_deadline_changes_nothing() -> None:
    watch = at(State.STREAMING, 50)
    assert wake(watch, armed=ClockReading(0, 0), woke=ClockReading(120, 9_999)) == watch


@pytest.mark.parametrize(
    "woke",
    [
        ClockReading(120, 1_000 + 120 + 7_200),  # the wall clock ran on while the computer slept
        ClockReading(7_320, 1_000 + 7_320),  # so did the monotonic clock: the loop woke far too late
    ],
)
def test_after_a_sleep_the_gap_is_counted_anew_and_short(woke: ClockReading) -> None:
    watch = wake(at(State.STREAMING), armed=ClockReading(0, 1_000), woke=woke)
    assert isinstance(watch, Watch)
    deadline = next_deadline(watch)
    assert deadline is not None
    assert (deadline.at_s, deadline.patience_s, deadline.why) == (woke.mono_s + 15, 15, "woke")
    assert step(watch, Sign.ALIVE, now_s=woke.mono_s + 1) == watch
    fresh = next_deadline(step(watch, Sign.PROGRESS, now_s=woke.mono_s + 1))
    assert fresh is not None
    assert fresh.patience_s == 120
    fired = wake(watch, armed=woke, woke=ClockReading(woke.mono_s + 15, woke.steady_s + 15))
    assert isinstance(fired, Deadline)


def test_a_program_that_was_held_up_hears_first_what_came_meanwhile_but_not_for_ever() -> None:
    """P3: by Ctrl-Z for a moment, or by a machine that has too much to do."""
    fired = wake(at(State.STREAMING), armed=ClockReading(0, 0), woke=ClockReading(121.9, 121.9))
    assert isinstance(fired, Deadline), "a busy loop is late by a little"
    held_up = wake(at(State.STREAMING), armed=ClockReading(0, 0), woke=ClockReading(123, 123))
    assert isinstance(held_up, Watch)
    assert held_up.rearmed == Limit("gap", 15, "woke")
    again = wake(held_up, armed=ClockReading(123, 123), woke=ClockReading(141, 141))
    assert isinstance(again, Deadline)


def test_a_timer_that_goes_off_early_does_not_forget_a_sleep() -> None:
    watch = at(State.STREAMING)
    almost = wake(watch, armed=ClockReading(0, 0), woke=ClockReading(119.999, 9_999))
    assert isinstance(almost, Watch)
    assert almost.rearmed == Limit("gap", 15, "woke"), "a millisecond is no chance to be heard"
    early = wake(watch, armed=ClockReading(0, 0), woke=ClockReading(60, 9_999))
    assert early == watch, "a minute is left, which is more than it would get"
    assert wake(watch, armed=ClockReading(0, 0), woke=ClockReading(119.999, 119.999)) == watch


def test_a_short_patience_stays_short_after_a_sleep_and_a_clock_set_back_is_no_sleep() -> None:
    impatient = Watch(effective(Patience(gap_s=1), SMALL), State.STREAMING, 0)
    watch = wake(impatient, armed=ClockReading(0, 0), woke=ClockReading(1, 3_600))
    assert isinstance(watch, Watch)
    assert watch.rearmed == Limit("gap", 1, "woke")
    assert isinstance(wake(impatient, armed=ClockReading(0, 9_000), woke=ClockReading(1, 5_000)), Deadline)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST.",
        "127.0.0.1",
        "127.8.9.1",
        "::1",
        "[::1]",
        "10.0.0.5",
        "192.168.1.20",
        "172.16.0.1",
        "169.254.10.1",
        "fe80::1%eth0",
        "fd00::5",
        "::ffff:192.168.0.1",
        "100.100.1.2",
        "gpu-box",
        "printer.local",
        "host.docker.internal",
        "x.localhost",
        "nas.lan",
    ],
)
def test_local_hosts(host: str) -> None:
    assert is_local(host)


@pytest.mark.parametrize(
    "host",
    [
        "api.example.com",
        "8.8.8.8",
        "2606:4700::1111",
        "::ffff:8.8.8.8",
        "172.32.0.1",
        "local.example.com",
        "",
    ],
)
def test_remote_hosts(host: str) -> None:
    assert not is_local(host)


def test_a_timer_is_set_for_the_deadline_of_the_state_and_for_none_if_its_watchdog_is_off() -> None:
    streaming = at(State.STREAMING, since_s=7)
    deadline = next_deadline(streaming)
    assert deadline is not None
    assert due_s(streaming) == deadline.at_s == 127
    off = effective(Patience(first_event_s=0, first_progress_s=0), SMALL)
    assert due_s(Watch(off, State.WAITING, 0)) is None


WHOLE = replace(SMALL, streamed=False)


@pytest.mark.parametrize(
    ("asked", "patience", "limit"),
    [
        (replace(WHOLE, output_tokens_max=100), Patience(), Limit("first_event", 49.0, "whole")),
        (WHOLE, Patience(), Limit("first_event", 372.7, "whole")),
        (replace(WHOLE, output_tokens_max=100_000), Patience(), Limit("first_progress", 900, "ttfb_off")),
        (replace(WHOLE, reasoning=True), Patience(), Limit("first_progress", 900, "ttfb_off")),
        (WHOLE, Patience(first_event_s=0), Limit("first_progress", 900, "ttfb_off")),
        (WHOLE, Patience(first_progress_s=5), Limit("first_progress", 5, "ttfb_off")),
        (replace(WHOLE, local=True), Patience(), Limit("first_progress", 900, "ttfb_off")),
    ],
)
def test_an_answer_that_is_not_streamed_has_time_for_its_tokens(
    asked: RequestFacts, patience: Patience, limit: Limit
) -> None:
    assert effective(patience, asked).first_event == limit
