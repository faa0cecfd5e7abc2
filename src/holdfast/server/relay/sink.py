"""Where the events of a relayed call go: into the metrics and the call's record, by its API key."""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Literal, TypeAlias

import msgspec
from typing_extensions import override

from holdfast import events as e
from holdfast.folds.metrics import Metrics
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.unrecorded_sink import UnrecordedSink
from holdfast.server.relay.output import RelayOutput
from holdfast.values import Failure

Outcome: TypeAlias = Literal["completed", "failed", "cancelled"]
_TOKENS: Mapping[str, Callable[[e.Usage], int]] = {
    name: attrgetter(name)
    for name in ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens")
}


class AskedBy(msgspec.Struct, frozen=True):
    """Whose call it is, and the model that was asked for."""

    key: str
    model: str


class RelaySink(UnrecordedSink):
    """Counts what a relayed call does, and holds its provider back while the client is behind."""

    def __init__(
        self, run_id: str, clock: Clock, *, output: RelayOutput, metrics: Metrics, by: AskedBy
    ) -> None:
        super().__init__(run_id, clock)
        self.output = output
        self._metrics = metrics
        self._by = by
        self._target = ""
        self._call_id = ""
        self._began_s = clock.monotonic_s()
        self._attempts = 0
        self._used: list[e.Usage] = []

    @property
    def full(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # it is only read
        """Whether the client is too far behind."""
        return self.output.is_full

    @override
    async def room(self) -> None:
        await self.output.room()

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
            self._metrics.relayed_usage(self._by.key, event)
            self._used.append(event)

    def close(self, outcome: Outcome, failure: Failure | None = None) -> e.RelayCalled:
        """Count the call, however it ended, and return its record."""
        finish = "stop" if outcome == "completed" else "failed"
        at_ms = self.now_ms()
        self.count(e.CallEnded(at_ms=at_ms, run_id=self.run_id, call_id=self._call_id, finish=finish))
        self._metrics.relay_calls[self._by.key, self._target, outcome] += 1
        costs = [used.cost_usd for used in self._used if used.cost_usd is not None]
        return e.RelayCalled(
            at_ms=at_ms,
            call_id=self._call_id,
            key=self._by.key,
            wire=self.output.surface.wire,
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
