"""The interfaces between a run and its model: the caller of the model, and the sink for its events."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from msgspec import Struct

from holdfast.events import Event
from holdfast.messages import AskedTool, ModelRequest
from holdfast.model_events import FinishReason
from holdfast.targets import Target
from holdfast.values import CallPurpose, Failure


class EventSink(Protocol):
    """Where a run puts its events; nobody sees an event before it is on disk."""

    run_id: str
    resumed: bool  # the run continues after a crash or restart, and none of its calls has ended since
    live: Callable[[], str] | None  # makes the live line while someone watches; None if nothing waits

    def emit(self, event: Event) -> None:
        """Add an event; returns immediately and keeps the order."""
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

    async def flush(self) -> None:
        """Wait until all events are on disk; raises what the journal raises."""
        ...

    def now_ms(self) -> int:
        """Milliseconds of Unix time, for the events."""
        ...


class Answer(Struct, frozen=True):
    """The model's complete answer. Its text is already on the log; `tools` are the calls that it asks for."""

    call_id: str
    finish: FinishReason
    tools: tuple[AskedTool, ...] = ()
    text: str = ""


class NoAnswer(Struct, frozen=True):
    """The call has failed for good; `trace` has one readable line per attempt.

    `wait_ms` is how long the provider asked to wait, if it did.
    """

    call_id: str
    failure: Failure
    trace: tuple[str, ...] = ()
    wait_ms: int | None = None


# Gives a target with `auth` its current token and headers, or says why there is none. The second argument is
# a token that the endpoint rejected, or empty. It ends within 30 s, and may be cancelled.
Authorize: TypeAlias = Callable[[Target, str], Awaitable[Target | Failure]]
Compact: TypeAlias = Callable[[], Awaitable[ModelRequest | None]]


class ModelCaller(Protocol):
    """Gets an answer to a request, including all attempts, retries and fallbacks.

    It emits call.*, attempt.*, text.*, reasoning.*, tool.asked and usage events to the sink. It raises only
    CancelledError and what the sink raises: a failure is a value.
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
