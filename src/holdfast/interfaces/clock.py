"""Time as the rest of the program asks for it."""

from typing import Protocol


class Clock(Protocol):
    """Time as an input."""

    def now_ms(self) -> int:
        """Milliseconds of Unix time."""
        ...

    def monotonic_s(self) -> float:
        """Seconds that only go forward; they may stand still while the computer sleeps."""
        ...

    def steady_s(self) -> float:
        """Seconds that only go forward, sleep included; setting the wall clock does not move them."""
        ...

    async def sleep_s(self, seconds: float) -> None:
        """Wait."""
        ...
