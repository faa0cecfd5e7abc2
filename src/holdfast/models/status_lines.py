"""Status lines about a model call while it's made and retried.

The live line, which is never stored:
- An attempt is connecting, waiting or streaming: `live_line`, where `would_do` says what happens next.
- The call waits before it tries again: `waiting_line`.
- The target can't be reached: `outage_line`.

On the log, as the reason of an event:
- `target.switched`: `unresponsive`, `asked_to_wait` or `slower`, or what the attempt before it failed of.
- `call.gated`: `gate_reason`, or what the attempt failed of.

In the log file, and in the trace that people see if the call fails for good:
- An attempt failed: `attempt_line`, where `done_after` says what was done about it.
- Several tries to connect failed: `reconnects_line` and `reconnects_text`.

The final error is `exhausted`.

What an attempt failed of ("main was overloaded") comes from the table in decisions/failures.py, its details
from decisions/failure_texts.py, and the limit that made a call give up from decisions/retry.py. The states
that a reader of the log can tell by itself are in folds/activity.py.
"""

from collections.abc import Callable, Sequence
from typing import assert_never

from holdfast.decisions.deadlines import DeadlineKind, State
from holdfast.decisions.failure_texts import length_text
from holdfast.decisions.failures import LATER, RESET, TREATMENTS
from holdfast.decisions.retry import (
    Compact,
    Decision,
    DropPastReasoning,
    DropReasoningOptions,
    FallBack,
    Gated,
    GiveUp,
    LowerCap,
    Reconnect,
    RetryAfter,
)
from holdfast.folds.activity import WORDS
from holdfast.models.watchdog import Watchdog
from holdfast.values import Failure, FailureKind

GAVE_UP = "gave up"
SLOWER = "another target was faster"
STOPPED = "stopped"
HEDGED = "another target was also called"
NOTABLE_S = 1.0
_LOADING = "503.loading"  # the rule for a server that is still reading its model
SILENT_S = 3.0
OTHER_KEY, RENEWED = "used another key", "renewed the sign-in"
SIGN_IN_S = 25.0  # how long a sign-in may take to give a token


def would_do(decision: Decision) -> str:
    """For the live line, in the present tense: what a failure would lead to."""
    match decision:
        case RetryAfter() | Reconnect():
            return "reconnects"
        case FallBack():
            return f"switches to {decision.to}"
        case Gated():
            return "waits longer"
        case Compact() | LowerCap() | DropReasoningOptions() | DropPastReasoning():
            return "retries with a reduced request"
        case GiveUp():
            return "gives up"
        case _:
            assert_never(decision)


def done_after(decision: Decision) -> str:
    """For the trace, in the past tense: what a failure led to."""
    match decision:
        case Reconnect():
            return "retried"
        case RetryAfter():
            return f"retried after {decision.wait_s:.1f} s" if decision.wait_s else "retried immediately"
        case FallBack():
            return f"switched to {decision.to}"
        case Gated():
            return "waited as long as requested"
        case Compact():
            return "shortened the conversation"
        case LowerCap():
            return "requested a shorter answer"
        case DropReasoningOptions():
            return "retried without the reasoning setting"
        case DropPastReasoning():
            return "retried without its earlier reasoning"
        case GiveUp():
            return f"{GAVE_UP}: {decision.why}"
        case _:
            assert_never(decision)


def attempt_line(nth: int, target: str, *, what: str, then: str) -> str:
    """For the trace, for example: attempt 2 (main): was overloaded; retried after 1.5 s."""
    return f"attempt {nth} ({target}): {what}; {then}"


def reconnects_text(brief: str, *, tries: int, took_s: float) -> str:
    """For the trace: what happened at each further try to connect."""
    many = f"{tries} more tries" if tries > 1 else "1 more try"
    return f"{brief} ({many} in {length_text(took_s)})"


def reconnects_line(target: str, text: str) -> str:
    """For the trace, for example: main: refused the connection (12 more tries in 40 s)."""
    return f"{target}: {text}"


def with_fallback_advice(failure: Failure) -> str:
    """A failure's text for a call with a single target: if waiting may help, so would a second one."""
    waiting_helps = TREATMENTS[failure.kind].advice in {LATER, RESET}
    return f"{failure.text}, or add a fallback target" if waiting_helps else failure.text


def exhausted(text: str, targets: Sequence[str], *, took_s: float) -> str:
    """The final error: that of the last attempt, with how often and for how long the call was tried."""
    if len(targets) == 1:
        return f"{text} (tried once{f', for {length_text(took_s)}' if took_s >= NOTABLE_S else ''})"
    names = list(dict.fromkeys(targets))
    on = f" on {', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else ""
    return f"{text} ({GAVE_UP} after {len(targets)} tries{on} in {length_text(took_s)})"


STATE_TEXT: dict[State, str] = {
    State.CONNECTING: "connecting to {model}",
    State.UPLOADING: "sending the request to {model}",
    State.WAITING: WORDS["waiting"],
    State.BEGUN: WORDS["pausing"],
    State.STREAMING: WORDS["answering"],
    State.OPENED: WORDS["thinking"],
    State.ENDING: "{model} has answered",
}
FAILURE_OF_DEADLINE: dict[DeadlineKind, FailureKind] = {
    "connect": "connect_failed",
    "upload": "upload_stalled",
    "first_event": "no_first_event",
    "first_progress": "stalled",
    "gap": "stalled",
}


def state_words(state: State, *, silent_s: float) -> str:
    """What the model is doing; one that has begun an answer and says nothing more is waited for."""
    return WORDS["waiting"] if state is State.STREAMING and silent_s >= SILENT_S else STATE_TEXT[state]


def live_line(
    model: str,
    watchdog: Watchdog,
    *,
    then: Callable[[FailureKind], str] = lambda _: "reconnects",
    hint: str = "",
) -> str:
    """For example: waiting for gpt-x · 31 s · reconnects at 45 s; `then` says what follows a failure."""
    silent_s = watchdog.silent_s
    words = [state_words(watchdog.state, silent_s=silent_s).format(model=model), f"{silent_s:.0f} s"]
    deadline = watchdog.deadline
    if deadline is not None:
        failure = FAILURE_OF_DEADLINE.get(deadline.kind)
        words.append(f"{then(failure) if failure else 'continues'} at {deadline.patience_s:g} s")
    if hint and watchdog.state is State.WAITING:
        words.append(hint)
    return " · ".join(words)


def unreachable(target: str, rule: str = "") -> str:
    """For example: main can't be reached; `rule` is the failure's."""
    return f"{target} " + ("is loading its model" if rule == _LOADING else "can't be reached")


def outage_line(why: str, *, left_s: float, to: str) -> str:
    """For example: main can't be reached; retrying for 47 s."""
    left = f"{max(0.0, left_s):.0f} s"
    return f"{why}; " + (f"switching to {to} in {left}" if to else f"retrying for {left}")


def waiting_line(why: str, *, left_s: float) -> str:
    """For example: main was overloaded · retrying in 3 s."""
    return f"{why} · retrying in {max(0.0, left_s):.0f} s"


def signing_in(name: str, *, took_s: float) -> str:
    """For example: renewing the sign-in codex · 3 s · continues at 25 s."""
    return f"renewing the sign-in {name} · {took_s:.0f} s · continues at {SIGN_IN_S:g} s"


def asked_to_wait(target: str) -> str:
    """Why a call waits for a target, or uses another: its gate is closed."""
    return f"{target} asked to wait"


def unresponsive(target: str) -> str:
    """Why another target is used: the breaker of this one is open."""
    return f"{target} hasn't answered recently"


def slower(target: str) -> str:
    """Why another target is used: it was asked as well, and made progress first."""
    return f"{target} was slower"


def gate_reason(target: str, brief: str) -> str:
    """Why a gate is closed, for all calls that wait at it."""
    return f"{target} {brief}"
