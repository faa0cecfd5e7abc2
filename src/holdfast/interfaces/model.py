"""What an agent works with: a model that answers, a voice that puts what happens on the log."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from holdfast.events import Event
from holdfast.messages import AskedTool, ModelRequest
from holdfast.model_events import FinishReason
from holdfast.values import CallPurpose, Failure


class EventSink(Protocol):
    """How a run says what happens; what is said is on disk before anyone else hears it."""

    run_id: str
    resumed: bool  # the run goes on after a crash or a restart, and no call of it has ended since
    live: Callable[[], str] | None  # the live line, asked for while someone watches; None when nothing waits

    def emit(self, event: Event) -> None:
        """Say it; order is kept, nothing waits."""
        ...

    def say(self, segment: int, text: str) -> None:
        """More text of the answer; gathered with its neighbours while the journal is busy."""
        ...

    def think(self, segment: int, text: str) -> None:
        """More reasoning, gathered likewise."""
        ...

    def next_segment(self) -> int:
        """The number of a new stretch of text or reasoning."""
        ...

    @property
    def full(self) -> bool:
        """More is gathered than the journal can take: time to wait for room."""
        ...

    async def room(self) -> None:
        """Wait while more is gathered than the journal can take; raises what the journal raises."""
        ...

    async def settled(self) -> None:
        """Wait until everything said is on disk; raises what the journal raises."""
        ...

    def now_ms(self) -> int:
        """Milliseconds of Unix time, for the events."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """The model's whole answer: what was said is on the log already; these are the tools that it asks for."""

    call_id: str
    finish: FinishReason
    tools: tuple[AskedTool, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The call failed for good; `trace` tells of every attempt, for people."""

    call_id: str
    failure: Failure
    trace: tuple[str, ...] = ()


Compact: TypeAlias = Callable[[], Awaitable[ModelRequest | None]]


class ModelCaller(Protocol):
    """Answers a request, whatever it takes: attempts, retries and fallbacks are its own affair.

    It emits call.*, attempt.*, text.*, reasoning.*, tool.asked and usage events through the voice. It raises
    nothing but CancelledError and what the voice raises: a failure is a value.
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
        """One call; `compact` makes a shorter request of the same conversation if the window is too small."""
        ...
