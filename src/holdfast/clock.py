"""The clocks of the machine."""

import asyncio
import time


class SystemClock:
    """Time as the machine tells it."""

    def now_ms(self) -> int:
        """See Clock.now_ms."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """See Clock.monotonic_s."""
        return time.monotonic()

    async def sleep_s(self, seconds: float) -> None:
        """See Clock.sleep_s."""
        await asyncio.sleep(seconds)
