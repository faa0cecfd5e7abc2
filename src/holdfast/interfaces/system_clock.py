"""The clocks of the machine."""

import asyncio
import time

from typing_extensions import override

from holdfast.interfaces.clock import Clock

# Linux's monotonic clock stands still during a suspend, this one does not; elsewhere it is the plain one.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady_s() -> float:
    """Seconds that only go forward, the computer's sleep included."""
    return time.clock_gettime(_STEADY)


class SystemClock(Clock):
    """Time as the machine tells it."""

    @override
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    @override
    def monotonic_s(self) -> float:
        return time.monotonic()

    @override
    def steady_s(self) -> float:
        return steady_s()

    @override
    async def sleep_s(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
