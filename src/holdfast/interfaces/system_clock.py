"""The clocks of the machine."""

import asyncio
import time

# Linux's monotonic clock stands still during a suspend, this one does not; elsewhere it is the plain one.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady_s() -> float:
    """Seconds that only go forward, the computer's sleep included."""
    return time.clock_gettime(_STEADY)


class SystemClock:
    """Time as the machine tells it."""

    def now_ms(self) -> int:
        """See Clock.now_ms."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """See Clock.monotonic_s."""
        return time.monotonic()

    def steady_s(self) -> float:
        """See Clock.steady_s."""
        return steady_s()

    async def sleep_s(self, seconds: float) -> None:
        """See Clock.sleep_s."""
        await asyncio.sleep(seconds)
