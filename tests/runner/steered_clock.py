"""A clock that a test moves: who sleeps wakes only when the time that they wait for has come."""

import asyncio
from itertools import count

from holdfast.interfaces.clock import Clock


class SteeredClock(Clock):
    """Wall time and passed time; `set_ms` makes the wall clock jump, and nobody wakes of that."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self._now_ms = float(now_ms)
        self._passed_s = 0.0
        self._sleepers: dict[int, tuple[float, asyncio.Future[None]]] = {}
        self._numbers = count()

    def now_ms(self) -> int:
        return int(self._now_ms)

    def monotonic_s(self) -> float:
        return self._passed_s

    def steady_s(self) -> float:
        return self._passed_s

    async def sleep_s(self, seconds: float) -> None:
        number, woken = next(self._numbers), asyncio.get_running_loop().create_future()
        self._sleepers[number] = (self._passed_s + seconds, woken)
        try:
            await woken
        finally:
            self._sleepers.pop(number, None)

    @property
    def next_s(self) -> float | None:
        """How long until the next sleeper wakes."""
        left = [until_s - self._passed_s for until_s, _ in self._sleepers.values()]
        return min(left, default=None)

    def advance(self, seconds: float) -> None:
        """Let time pass, and wake everyone whose time has come."""
        self._now_ms += 1000 * seconds
        self._passed_s += seconds
        for until_s, woken in list(self._sleepers.values()):
            if until_s <= self._passed_s + 1e-9 and not woken.done():
                woken.set_result(None)

    def set_ms(self, now_ms: int) -> None:
        """Make the wall clock jump."""
        self._now_ms = float(now_ms)


async def settle(steps: int = 50) -> None:
    """Let everything that is ready run."""
    for _ in range(steps):
        await asyncio.sleep(0)
