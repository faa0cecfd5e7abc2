"""Lets the deltas of many runs wait a moment for each other, so that they share a commit."""

import asyncio
from collections.abc import Callable

BEAT_S = 0.008


class DeltaBatcher:
    """Calls back at once whoever comes alone, and those who come soon after it together at the next beat.

    One run that says something every 20 ms never waits; of 64 such runs two dozen share each beat.
    """

    def __init__(self, *, beat_s: float = BEAT_S) -> None:
        self._beat_s = beat_s
        self._loop = asyncio.get_running_loop()
        self._waiting: list[Callable[[], None]] = []
        self._last_s = -beat_s

    def join(self, write: Callable[[], None]) -> None:
        """Have `write` called with the others."""
        if not self._waiting:
            due_s = self._last_s + self._beat_s
            if due_s > self._loop.time():
                self._loop.call_at(due_s, self._beat)
            else:
                self._loop.call_soon(self._beat)
        self._waiting.append(write)

    def _beat(self) -> None:
        self._last_s = self._loop.time()
        waiting, self._waiting = self._waiting, []
        for write in waiting:
            write()
