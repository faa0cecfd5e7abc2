"""How far the database's clock is ahead of this computer's, estimated with each renewal of the lease."""

import time
from collections import deque

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
