"""Counts relayed calls: the metrics of each API key, and the record of a call."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec
from typing_extensions import override

from holdfast import events as e
from holdfast.features.relay.response_buffer import ResponseBuffer
from holdfast.folds.metrics import Metrics, tokens_by_direction
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.unrecorded_sink import UnrecordedSink
from holdfast.values import Failure

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Outcome: TypeAlias = Literal["completed", "failed", "cancelled"]
_TOKENS: Mapping[str, Callable[[e.Usage], int]] = {
    name: attrgetter(name)
    for name in ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens")
}


class Counters(msgspec.Struct):
    """Calls since the process started, by API key and target."""

    calls: Counter[tuple[str, str, str]] = msgspec.field(default_factory=Counter[tuple[str, str, str]])
    tokens: Counter[tuple[str, str, str]] = msgspec.field(default_factory=Counter[tuple[str, str, str]])
    cost_usd: dict[tuple[str, str], float] = msgspec.field(default_factory=dict[tuple[str, str], float])

    def add(self, key: str, event: e.Usage) -> None:
        """Add the usage of an attempt."""
        for direction, tokens in tokens_by_direction(event):
            self.tokens[key, event.target, direction] += tokens
        if event.cost_usd:
            at = key, event.target
            self.cost_usd[at] = self.cost_usd.get(at, 0.0) + event.cost_usd


def counters_in(metrics: Metrics) -> Counters:
    """Return the relay's counters."""
    return metrics.features.setdefault("relay", Counters())


def prometheus_metrics(metrics: Metrics) -> "Iterator[Metric]":
    """Yield the counters for Prometheus."""
    from prometheus_client.core import CounterMetricFamily

    counters = counters_in(metrics)
    for name, text, label, counts in (
        ("calls", "Relayed calls, by ending.", "outcome", counters.calls),
        ("tokens", "Tokens used by relayed calls.", "direction", counters.tokens),
    ):
        family = CounterMetricFamily(f"holdfast_relay_{name}", text, labels=["key", "target", label])
        for labels, count in list(counts.items()):
            family.add_metric(labels, count)
        yield family
    cost = CounterMetricFamily(
        "holdfast_relay_cost_usd", "Cost of relayed calls, where it's known.", labels=["key", "target"]
    )
    for labels, spent in list(counters.cost_usd.items()):
        cost.add_metric(labels, spent)
    yield cost


class Requester(msgspec.Struct, frozen=True):
    """The API key that makes the call, and the model name in its request."""

    key: str
    model: str


class MeteredEvents(UnrecordedSink):
    """Counts what a relayed call does, and holds its provider back while the client is behind."""

    def __init__(
        self, run_id: str, clock: Clock, *, buffer: ResponseBuffer, metrics: Metrics, by: Requester
    ) -> None:
        super().__init__(run_id, clock)
        self.buffer = buffer
        self._metrics = metrics
        self._counters = counters_in(metrics)
        self._by = by
        self._target = ""
        self._call_id = ""
        self._began_s = clock.monotonic_s()
        self._attempts = 0
        self._used: list[e.Usage] = []

    @property
    def full(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # it is only read
        """Whether the client is too far behind."""
        return self.buffer.is_full

    @override
    async def room(self) -> None:
        await self.buffer.room()

    def count(self, event: e.Event) -> None:
        """Add an event to the metrics."""
        self._metrics.add(event)

    @override
    def emit(self, event: e.Event) -> None:
        self.count(event)
        if isinstance(event, e.AttemptStarted):
            self._target, self._call_id = event.target, event.call_id
            self._attempts += 1
        elif isinstance(event, e.Usage):
            self._counters.add(self._by.key, event)
            self._used.append(event)

    def close(self, outcome: Outcome, failure: Failure | None = None) -> e.RelayCalled:
        """Count the call, however it ended, and return its record."""
        finish = "stop" if outcome == "completed" else "failed"
        at_ms = self.now_ms()
        self.count(e.CallEnded(at_ms=at_ms, run_id=self.run_id, call_id=self._call_id, finish=finish))
        self._counters.calls[self._by.key, self._target, outcome] += 1
        costs = [used.cost_usd for used in self._used if used.cost_usd is not None]
        return e.RelayCalled(
            at_ms=at_ms,
            call_id=self._call_id,
            key=self._by.key,
            wire=self.buffer.surface.wire,
            model=self._by.model,
            target=self._target,
            outcome=outcome,
            failure=failure,
            attempts=self._attempts,
            estimated=any(used.estimated for used in self._used),
            cost_usd=sum(costs) if costs else None,
            ms=int(1000 * (self._clock.monotonic_s() - self._began_s)),
            **{name: sum(map(tokens, self._used)) for name, tokens in _TOKENS.items()},
        )
