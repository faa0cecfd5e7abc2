"""The time of a database that several servers share, so that their events have comparable times."""

import time
from collections import deque

from typing_extensions import override

from holdfast.interfaces.clock import Clock
from holdfast.interfaces.nodes import Nodes
from holdfast.interfaces.system_clock import steady_s

SAMPLES_MAX = 30


class ClockSamples:
    """The newest samples; the one with the shortest round trip is the most exact.

    They relate the database's clock to one that nobody sets: setting this computer's clock changes nothing.
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque(maxlen=SAMPLES_MAX)

    def add(self, *, asked_s: float, answered_s: float, database_s: float) -> None:
        """Add the database's time, asked for and answered at these times of the steady clock."""
        self._samples.append((answered_s - asked_s, database_s - (asked_s + answered_s) / 2))

    @property
    def offset_ms(self) -> int:
        """By how much the database's clock is ahead of the computer's; 0 before the first sample."""
        if not self._samples:
            return 0
        return round(1000 * (min(self._samples)[1] + steady_s() - time.time()))


class StoreClock(Clock):
    """A computer's clocks, with the wall clock corrected to the store's.

    A better estimate of the difference never turns the time back: the clock stands still until it is right.
    """

    def __init__(self, system: Clock, store: Nodes) -> None:
        self._system = system
        self._store = store
        self._offset_ms = store.clock_offset_ms
        self._last_ms = system.now_ms()

    @override
    def now_ms(self) -> int:
        system_ms, offset_ms = self._system.now_ms(), self._store.clock_offset_ms
        if offset_ms < self._offset_ms:
            passed_ms = max(0, system_ms - self._last_ms)
            offset_ms = max(offset_ms, self._offset_ms - passed_ms)
        self._offset_ms, self._last_ms = offset_ms, system_ms
        return system_ms + offset_ms

    @override
    def monotonic_s(self) -> float:
        return self._system.monotonic_s()

    @override
    def steady_s(self) -> float:
        return self._system.steady_s()

    @override
    async def sleep_s(self, seconds: float) -> None:
        await self._system.sleep_s(seconds)
