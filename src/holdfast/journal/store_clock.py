"""The time of a store that several servers share, so that their events have comparable times."""

from typing_extensions import override

from holdfast.interfaces.clock import Clock
from holdfast.interfaces.nodes import Nodes


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
