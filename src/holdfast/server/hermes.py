"""The hermes view: one event gives at most one frame, by a pure function.

`output` and usage of a terminal frame are not in the event itself, so whoever renders keeps the folds.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from holdfast import events as e
from holdfast.run import Run
from holdfast.session import Session
from holdfast.transcript import Transcript, output

OUTPUT_CHARS_MAX = 100_000

STATUSES: Mapping[str, str] = MappingProxyType(
    {
        "completed": "completed",
        "refused": "completed",
        "truncated": "failed",
        "budget": "failed",
        "failed": "failed",
        "interrupted": "interrupted",
        "cancelled": "cancelled",
    }
)


def usage_of(run: Run) -> dict[str, Any]:
    """The run's usage in hermes' words."""
    usage = run.usage
    shown: dict[str, Any] = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
    if usage.cost_usd:
        shown["cost_usd"] = usage.cost_usd
    return shown


def error_of(run: Run) -> str:
    """Why the run did not complete, in words for a person."""
    if run.failure is not None:
        return "\n".join([run.failure.text, *run.trace])
    return run.cause or str(run.outcome)


def terminal(event: e.RunEnded, run: Run, transcript: Transcript) -> dict[str, Any]:
    """The terminal frame."""
    text = output(transcript, event.run_id)
    frame: dict[str, Any] = {"event": TERMINAL_NAMES[event.outcome]}
    if event.outcome in {"completed", "refused"}:
        frame |= {"output": text, "usage": usage_of(run)}
        if event.outcome == "refused":
            frame["finish_reason"] = "refusal"
    else:
        frame |= {"output": text} if text else {}
        if event.outcome != "cancelled":
            frame |= {"error": error_of(run), "code": run.cause or event.outcome}
    if len(text) > OUTPUT_CHARS_MAX:
        frame |= {"output": text[:OUTPUT_CHARS_MAX], "output_truncated": True}
    return frame


TERMINAL_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "completed": "run.completed",
        "refused": "run.completed",
        "truncated": "run.failed",
        "budget": "run.failed",
        "failed": "run.failed",
        "interrupted": "run.failed",
        "cancelled": "run.cancelled",
    }
)

_NAMED: Mapping[type[e.Event], Callable[[Any], dict[str, Any]]] = MappingProxyType(
    {
        e.RunQueued: lambda _: {"event": "run.queued"},
        e.RunStarted: lambda _: {"event": "run.started"},
        e.RunResumed: lambda _: {"event": "run.resumed"},
        e.TextDelta: lambda event: {"event": "message.delta", "delta": event.text},
        e.ReasoningDelta: lambda event: {"event": "reasoning.delta", "delta": event.text},
    }
)


def frame_of(event: e.Event, session: Session, transcript: Transcript) -> dict[str, Any] | None:
    """The event as hermes clients know it, or nothing; the folds include the event already."""
    if isinstance(event, e.RunEnded):
        return terminal(event, session.runs[event.run_id], transcript)
    named = _NAMED.get(type(event))
    return named(event) if named else None


def last_event_name(run: Run) -> str:
    """The newest event by its hermes name."""
    if run.outcome is not None:
        return TERMINAL_NAMES[run.outcome]
    return run.last_event
