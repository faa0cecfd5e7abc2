"""The live line: what a call is waiting for, since when, and what happens next."""

from holdfast.deadlines import DeadlineKind, State
from holdfast.models.watchdog import Watchdog

DOING: dict[State, str] = {
    State.CONNECTING: "connecting to {target}",
    State.UPLOADING: "sending the request to {target}",
    State.WAITING: "waiting for {target}",
    State.BEGUN: "{target} is at work",
    State.STREAMING: "{target} is answering",
    State.OPENED: "{target} is thinking",
    State.ENDING: "{target} has answered",
}
THEN: dict[DeadlineKind, str] = {
    "connect": "tries again",
    "upload": "tries again",
    "first_event": "reconnects",
    "first_progress": "reconnects",
    "gap": "reconnects",
    "tail": "goes on",
}


def live_line(target: str, watchdog: Watchdog, *, hint: str = "") -> str:
    """For example: waiting for main · 31 s · reconnects at 45 s."""
    silent_s = watchdog.silent_s
    words = [DOING[watchdog.state].format(target=target), f"{silent_s:.0f} s"]
    deadline = watchdog.deadline
    if deadline is not None:
        words.append(f"{THEN[deadline.kind]} at {deadline.patience_s:g} s")
    if hint and watchdog.state is State.WAITING:
        words.append(hint)
    return " · ".join(words)


def waiting_line(why: str, *, left_s: float, then: str) -> str:
    """For example: main was overloaded · is asked again in 3 s."""
    return f"{why} · {then} in {max(0.0, left_s):.0f} s"
