"""Event loop lag: a small task that notices when something blocks the loop."""

import asyncio
import logging
from collections import deque

_log = logging.getLogger(__name__)

SAMPLE_S = 0.25
STUCK_S = 0.5
SAMPLES_KEPT = 240  # one minute


class LoopLag:
    """Measures how late the loop wakes it up; its owner runs `run` as a task."""

    def __init__(self) -> None:
        self.last_s = 0.0
        self.stuck = 0  # how often the loop was blocked for longer than STUCK_S
        self._samples: deque[float] = deque(maxlen=SAMPLES_KEPT)

    @property
    def worst_s(self) -> float:
        """The longest delay of the last minute."""
        return max(self._samples, default=0.0)

    async def run(self) -> None:
        """Measure until cancelled."""
        now_s = asyncio.get_running_loop().time
        while True:
            due_s = now_s() + SAMPLE_S
            await asyncio.sleep(SAMPLE_S)
            self.record(max(0.0, now_s() - due_s))

    def record(self, late_s: float) -> None:
        """Record one delay."""
        self.last_s = late_s
        self._samples.append(late_s)
        if late_s > STUCK_S:
            self.stuck += 1
            _log.warning(
                "the event loop was stuck for %.2f s: something blocked it, or the machine is overloaded",
                late_s,
            )
