"""A sink for model calls that are part of no run, so their events are not stored."""

from collections.abc import Callable

from holdfast.events import Event
from holdfast.interfaces.clock import Clock


class UnrecordedSink:
    """Drops what it gets; a subclass keeps what its caller wants to know of the call."""

    resumed = False
    live: Callable[[], str] | None = None
    full = False  # nothing is written, so nothing falls behind

    def __init__(self, run_id: str, clock: Clock) -> None:
        self.run_id = run_id
        self._clock = clock
        self._segment = 0

    def emit(self, event: Event) -> None:
        """Drop the event."""

    def say(self, segment: int, text: str) -> None:
        """Drop the text; the answer has all of it."""

    def think(self, segment: int, text: str) -> None:
        """Drop the reasoning."""

    def next_segment(self) -> int:
        """The number of a new segment."""
        self._segment += 1
        return self._segment

    async def room(self) -> None:
        """Return at once: there is always room."""

    async def flush(self) -> None:
        """Return at once: nothing is stored."""

    def now_ms(self) -> int:
        """Milliseconds of Unix time."""
        return self._clock.now_ms()
