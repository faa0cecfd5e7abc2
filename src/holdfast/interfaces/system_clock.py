"""The computer's clocks."""

import asyncio
import time
from typing import TYPE_CHECKING

from typing_extensions import override

from holdfast.interfaces.clock import Clock

# Linux's monotonic clock stops during suspend, and this one doesn't; elsewhere it is the ordinary one.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady_s() -> float:
    """Seconds on a clock that never goes back and counts sleep."""
    return time.clock_gettime(_STEADY)


class SystemClock(Clock):
    """Time from the computer's clocks."""

    @override
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    if TYPE_CHECKING:

        @override
        def monotonic_s(self) -> float: ...

    else:
        # No Python function around it: each model call reads it a dozen times.
        monotonic_s = staticmethod(time.monotonic)

    @override
    def steady_s(self) -> float:
        return time.clock_gettime(_STEADY)

    @override
    async def sleep_s(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
