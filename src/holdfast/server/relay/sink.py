"""Where the events of a relayed call go: into the metrics, and into one small record of what it used."""

from dataclasses import dataclass, field

from holdfast import events as e
from holdfast.folds.metrics import Metrics
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.unrecorded_sink import UnrecordedSink
from holdfast.server.relay.output import RelayOutput


@dataclass(slots=True)
class RelayUsage:
    """What one relayed call used."""

    key: str
    model: str
    target: str = ""
    attempts: int = 0
    failures: list[str] = field(default_factory=list[str])
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float = 0.0

    def add(self, event: e.Event) -> None:
        """Add what an event says."""
        match event:
            case e.AttemptStarted():
                self.attempts += 1
                self.target = event.target
            case e.AttemptFailed():
                self.failures.append(event.failure.kind)
            case e.Usage():
                self.input_tokens += event.input_tokens
                self.output_tokens += event.output_tokens
                self.cached_tokens += event.cached_tokens
                self.cost_usd += event.cost_usd or 0.0
            case _:
                pass


class RelaySink(UnrecordedSink):
    """Counts what a relayed call does, and holds its provider back while the client is behind."""

    def __init__(
        self, run_id: str, clock: Clock, *, output: RelayOutput, metrics: Metrics, used: RelayUsage
    ) -> None:
        super().__init__(run_id, clock)
        self._output = output
        self._metrics = metrics
        self._used = used

    @property
    def full(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # it is only read
        """Whether the client is too far behind."""
        return self._output.is_full

    async def room(self) -> None:
        """Wait until the client has caught up."""
        await self._output.room()

    def emit(self, event: e.Event) -> None:
        """Count the event."""
        self._metrics.add(event)
        self._used.add(event)
