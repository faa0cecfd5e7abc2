"""The seams between a run and its model: the caller of the model, and the sink that its events go to."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from holdfast.events import Event
from holdfast.messages import AskedTool, ModelRequest
from holdfast.model_events import FinishReason
from holdfast.values import CallPurpose, Failure


class EventSink(Protocol):
    """Where a run puts its events; nobody sees an event before it is on disk."""

    run_id: str
    resumed: bool  # the run goes on after a crash or a restart, and no call of it has ended since
    live: Callable[[], str] | None  # the live line, asked for while someone watches; None when nothing waits

    def emit(self, event: Event) -> None:
        """Add an event; returns at once, and the order is kept."""
        ...

    def say(self, segment: int, text: str) -> None:
        """Add text of the answer; pieces are joined while the journal is busy."""
        ...

    def think(self, segment: int, text: str) -> None:
        """Add reasoning, joined in the same way."""
        ...

    def next_segment(self) -> int:
        """The number of a new segment of text or reasoning."""
        ...

    @property
    def full(self) -> bool:
        """Whether the journal is too far behind: call `room` before adding more."""
        ...

    async def room(self) -> None:
        """Wait until the journal has caught up enough; raises what the journal raises."""
        ...

    async def settled(self) -> None:
        """Wait until all events are on disk; raises what the journal raises."""
        ...

    def now_ms(self) -> int:
        """Milliseconds of Unix time, for the events."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """The model's whole answer. Its text is on the log already; `tools` are the calls that it asks for."""

    call_id: str
    finish: FinishReason
    tools: tuple[AskedTool, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The call failed for good; `trace` has one line for each attempt, for people to read."""

    call_id: str
    failure: Failure
    trace: tuple[str, ...] = ()


Compact: TypeAlias = Callable[[], Awaitable[ModelRequest | None]]


class ModelCaller(Protocol):
    """Gets an answer to a request; attempts, retries and fallbacks are its own business.

    It emits call.*, attempt.*, text.*, reasoning.*, tool.asked and usage events to the sink. It raises
    nothing but CancelledError and what the sink raises: a failure is a value.
    """

    async def answer(
        self,
        request: ModelRequest,
        sink: EventSink,
        *,
        turn: int,
        purpose: CallPurpose = "answer",
        compact: Compact | None = None,
    ) -> Answer | NoAnswer:
        """Make one call; `compact` shortens the conversation if it doesn't fit the model's context window."""
        ...
