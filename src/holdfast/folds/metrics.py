"""Metrics of one process, folded from the events that it has written; cheap enough for every delta."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from holdfast import events as e
from holdfast.folds.rows import RunRow

FIRST_TOKEN_S = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 300.0)
COMMIT_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)


class Histogram:
    """Values by bucket; `counts[n]` counts those up to `bounds[n]`, the last one those above all bounds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Add a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class OpenAttempt(Struct):
    """An open connection to a target, according to the log."""

    target: str
    began_ms: int
    has_spoken: bool = False


class Metrics(Struct):
    """Counters since the process started. Sets and maps only contain open or configured items."""

    runs_started: int = 0
    runs_resumed: int = 0
    runs_ended: Counter[str] = field(default_factory=Counter[str])  # by outcome
    runs_queued: set[str] = field(default_factory=set[str])
    runs_active: set[str] = field(default_factory=set[str])
    attempts: Counter[tuple[str, str]] = field(
        default_factory=Counter[tuple[str, str]]
    )  # target, close reason
    failures: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])  # target, kind
    tokens: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])  # target, direction
    cost_usd: dict[str, float] = field(default_factory=dict[str, float])  # by target
    first_token_s: dict[str, Histogram] = field(default_factory=dict[str, Histogram])  # by target
    tools: Counter[str] = field(default_factory=Counter[str])  # by ending
    features: dict[str, Any] = field(default_factory=dict[str, Any])  # their own counters, by name
    commit_s: Histogram = field(default_factory=lambda: Histogram(COMMIT_S))
    open_attempts: dict[str, dict[str, OpenAttempt]] = field(
        default_factory=dict[str, dict[str, OpenAttempt]]
    )

    def begin_with(self, rows: Iterable[RunRow]) -> None:
        """Count the runs that an earlier process left open."""
        for row in rows:
            (self.runs_queued if row.status == "queued" else self.runs_active).add(row.run_id)

    def add(self, *events: e.Event) -> None:
        """Add events that are on disk."""
        for event in events:
            count = _COUNTS.get(type(event))
            if count is not None:
                count(self, event)


def tokens_by_direction(event: e.Usage) -> list[tuple[str, int]]:
    """Return the kinds of tokens that a call used, with their counts."""
    counts = (
        ("input", event.input_tokens),
        ("output", event.output_tokens),
        ("cached", event.cached_tokens),
        ("cache_write", event.cache_write_tokens),
        ("reasoning", event.reasoning_tokens),
    )
    return [(direction, tokens) for direction, tokens in counts if tokens]


def _queued(to: Metrics, event: e.RunQueued) -> None:
    to.runs_queued.add(event.run_id)


def _started(to: Metrics, event: e.RunStarted) -> None:
    to.runs_started += 1
    to.runs_queued.discard(event.run_id)
    to.runs_active.add(event.run_id)


def _resumed(to: Metrics, event: e.RunResumed) -> None:
    to.runs_resumed += 1
    to.runs_active.add(event.run_id)


def _ended(to: Metrics, event: e.RunEnded) -> None:
    to.runs_ended[event.outcome] += 1
    to.runs_queued.discard(event.run_id)
    to.runs_active.discard(event.run_id)
    _close(to, event.run_id, "cancel")


def _attempt_started(to: Metrics, event: e.AttemptStarted) -> None:
    known = to.open_attempts.setdefault(event.run_id, {})
    known[event.attempt_id] = OpenAttempt(event.target, event.at_ms)


def _attempt_failed(to: Metrics, event: e.AttemptFailed) -> None:
    attempt = to.open_attempts.get(event.run_id, {}).pop(event.attempt_id, None)
    target = attempt.target if attempt else ""
    to.attempts[target, event.close_reason] += 1
    to.failures[target, event.failure.kind] += 1


def _call_ended(to: Metrics, event: e.CallEnded) -> None:
    _close(to, event.run_id, "cancel" if event.finish in {"failed", "redirected"} else "done")


def _close(to: Metrics, run_id: str, reason: str) -> None:
    for attempt in to.open_attempts.pop(run_id, {}).values():
        to.attempts[attempt.target, reason] += 1


def _spoke(to: Metrics, event: e.RunEvent) -> None:
    for attempt in to.open_attempts.get(event.run_id, {}).values():
        if not attempt.has_spoken:
            attempt.has_spoken = True
            spread = to.first_token_s.setdefault(attempt.target, Histogram(FIRST_TOKEN_S))
            spread.add(max(0, event.at_ms - attempt.began_ms) / 1000)


def _used(to: Metrics, event: e.Usage) -> None:
    for direction, tokens in tokens_by_direction(event):
        to.tokens[event.target, direction] += tokens
    if event.cost_usd:
        to.cost_usd[event.target] = to.cost_usd.get(event.target, 0.0) + event.cost_usd


def _tool_ended(to: Metrics, event: e.ToolEnded) -> None:
    to.tools[event.ending if event.ok or event.ending != "finished" else "failed"] += 1


_COUNTS: Mapping[type[e.Event], Callable[[Metrics, Any], None]] = MappingProxyType(
    {
        e.RunQueued: _queued,
        e.RunStarted: _started,
        e.RunResumed: _resumed,
        e.RunEnded: _ended,
        e.AttemptStarted: _attempt_started,
        e.AttemptFailed: _attempt_failed,
        e.CallEnded: _call_ended,
        e.TextDelta: _spoke,
        e.ReasoningDelta: _spoke,
        e.ToolAsked: _spoke,
        e.Usage: _used,
        e.ToolEnded: _tool_ended,
    }
)
