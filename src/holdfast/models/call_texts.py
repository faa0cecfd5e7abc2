"""What a call says of itself: what comes after a failure, what was done about it, how it ended."""

from collections.abc import Sequence
from typing import assert_never

from holdfast.retry import Compact, Decision, FallBack, Gated, GiveUp, LowerCap, RetryAfter

GAVE_UP = "gave up"
MINUTE_S = 60


def would_do(decision: Decision) -> str:
    """For the live line, in the present tense: what a failure would lead to."""
    match decision:
        case RetryAfter():
            return "reconnects"
        case FallBack():
            return f"asks {decision.to}"
        case Gated():
            return "waits longer"
        case Compact() | LowerCap():
            return "asks for less"
        case GiveUp():
            return "gives up"
        case _:
            assert_never(decision)


def done_after(decision: Decision) -> str:
    """For the trace, in the past tense: what a failure led to."""
    match decision:
        case RetryAfter():
            return f"asked again after {decision.wait_s:.1f} s" if decision.wait_s else "asked again at once"
        case FallBack():
            return f"asked {decision.to} instead"
        case Gated():
            return "waited as long as it asked for"
        case Compact():
            return "shortened the conversation"
        case LowerCap():
            return "asked for a shorter answer"
        case GiveUp():
            return f"{GAVE_UP}: {decision.why}"
        case _:
            assert_never(decision)


def exhausted(text: str, targets: Sequence[str], *, took_s: float) -> str:
    """The failure of a call in the words of its last attempt, with how often and how long it was tried."""
    tries = "1 try" if len(targets) == 1 else f"{len(targets)} tries"
    names = list(dict.fromkeys(targets))
    on = f" on {', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else ""
    return f"{text} ({GAVE_UP} after {tries}{on} in {_length(took_s)})"


def _length(seconds: float) -> str:
    minutes, left_s = divmod(round(seconds), MINUTE_S)
    if not minutes:
        return f"{seconds:.1f} s"
    return f"{minutes} min {left_s} s"
