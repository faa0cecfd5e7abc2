"""Where the events of a relayed call go: into the metrics, by the API key that made it."""

from typing import Literal, TypeAlias

from typing_extensions import override

from holdfast import events as e
from holdfast.folds.metrics import Metrics
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.unrecorded_sink import UnrecordedSink
from holdfast.server.relay.output import RelayOutput

Outcome: TypeAlias = Literal["completed", "failed", "cancelled"]


class RelaySink(UnrecordedSink):
    """Counts what a relayed call does, and holds its provider back while the client is behind."""

    def __init__(self, run_id: str, clock: Clock, *, output: RelayOutput, metrics: Metrics, key: str) -> None:
        super().__init__(run_id, clock)
        self._output = output
        self._metrics = metrics
        self._key = key
        self._target = ""
        self._call_id = ""

    @property
    def full(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # it is only read
        """Whether the client is too far behind."""
        return self._output.is_full

    @override
    async def room(self) -> None:
        await self._output.room()

    @override
    def emit(self, event: e.Event) -> None:
        self._metrics.add(event)
        if isinstance(event, e.AttemptStarted):
            self._target, self._call_id = event.target, event.call_id
        elif isinstance(event, e.Usage):
            self._metrics.relayed_usage(self._key, event)

    def close(self, outcome: Outcome) -> None:
        """Count the call, however it ended."""
        finish = "stop" if outcome == "completed" else "failed"
        self._metrics.add(
            e.CallEnded(at_ms=self.now_ms(), run_id=self.run_id, call_id=self._call_id, finish=finish)
        )
        self._metrics.relay_calls[self._key, self._target, outcome] += 1
