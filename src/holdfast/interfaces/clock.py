"""The clock interface."""

from typing import Protocol


class Clock(Protocol):
    """Time as an input."""

    def now_ms(self) -> int:
        """Unix time in milliseconds."""
        ...

    def monotonic_s(self) -> float:
        """Seconds on a clock that never goes back; it may stop while the computer sleeps."""
        ...

    def steady_s(self) -> float:
        """Seconds on a clock that never goes back, counts sleep, and ignores changes to the wall clock."""
        ...

    async def sleep_s(self, seconds: float) -> None:
        """Wait."""
        ...
