"""The live line: what a call is waiting for, since when, and what happens next."""

from collections.abc import Callable

from holdfast.decisions.deadlines import DeadlineKind, State
from holdfast.folds.doing import WORDS
from holdfast.models.watchdog import Watchdog
from holdfast.values import FailureKind

DOING: dict[State, str] = {
    State.CONNECTING: "connecting to {model}",
    State.UPLOADING: "sending the request to {model}",
    State.WAITING: WORDS["waiting"],
    State.BEGUN: WORDS["pausing"],
    State.STREAMING: WORDS["answering"],
    State.OPENED: WORDS["thinking"],
    State.ENDING: "{model} has answered",
}
WOULD_BE: dict[DeadlineKind, FailureKind] = {
    "connect": "connect_failed",
    "upload": "upload_stalled",
    "first_event": "no_first_event",
    "first_progress": "stalled",
    "gap": "stalled",
}


def live_line(
    model: str,
    watchdog: Watchdog,
    *,
    then: Callable[[FailureKind], str] = lambda _: "reconnects",
    hint: str = "",
) -> str:
    """For example: waiting for gpt-x · 31 s · reconnects at 45 s; `then` says what follows a failure."""
    words = [DOING[watchdog.state].format(model=model), f"{watchdog.silent_s:.0f} s"]
    deadline = watchdog.deadline
    if deadline is not None:
        failure = WOULD_BE.get(deadline.kind)
        words.append(f"{then(failure) if failure else 'goes on'} at {deadline.patience_s:g} s")
    if hint and watchdog.state is State.WAITING:
        words.append(hint)
    return " · ".join(words)


def away_line(why: str, *, left_s: float, to: str) -> str:
    """For example: main cannot be reached; trying again for 47 s."""
    left = f"{max(0.0, left_s):.0f} s"
    return f"{why}; " + (f"asking {to} in {left}" if to else f"trying again for {left}")


def waiting_line(why: str, *, left_s: float, then: str) -> str:
    """For example: main was overloaded · is asked again in 3 s."""
    return f"{why} · {then} in {max(0.0, left_s):.0f} s"
