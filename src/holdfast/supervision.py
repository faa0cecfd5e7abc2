"""Background tasks: an unexpected error restarts one after a pause, and is reported while it's recent."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Self

from holdfast.racing import is_about, wait_through_cancel

PAUSE_FIRST_S = 1.0
PAUSE_LAST_S = 30.0
RECENT_S = 2 * PAUSE_LAST_S  # a task that has worked for this long since its last error is healthy again

_log = logging.getLogger(__name__)
SAMPLE_S = 0.25
STUCK_S = 0.5
SAMPLES_KEPT = 240  # one minute


class ExpectedError(Exception):
    """An error that isn't a bug. Its text says what to do, so it's logged without a traceback."""


class BackgroundTasks:
    """Runs background work. Leaving the context cancels all tasks that are still running.

    Work that returns is done. Work that raises is logged and restarted: a task that ended silently would
    leave the program looking healthy.
    """

    def __init__(self, *, sleep_s: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._sleep_s = sleep_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._errors: dict[str, tuple[float, str]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end(*self._tasks)

    def start(self, name: str, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Run the work in a task of its own, and again after each error."""
        task = asyncio.create_task(self._keep(name, work), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @property
    def failing(self) -> Mapping[str, str]:
        """The newest error of each task that has failed recently."""
        since_s = asyncio.get_running_loop().time() - RECENT_S
        return {name: error for name, (at_s, error) in self._errors.items() if at_s >= since_s}

    async def end(self, *tasks: asyncio.Task[None]) -> None:
        """Cancel these tasks, and return when they have ended."""
        for task in tasks:
            task.cancel()
        await wait_through_cancel(*tasks)

    async def _keep(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        time_s = asyncio.get_running_loop().time
        pause_s = PAUSE_FIRST_S
        while True:
            began_s = time_s()
            try:
                await work()
            except Exception as error:  # noqa: BLE001  # whatever it is, it's logged, and the work restarts
                if time_s() - began_s > RECENT_S:
                    pause_s = PAUSE_FIRST_S
                self._errors[name] = (time_s(), repr(error))
                trace = None if is_about(error, (ExpectedError,)) else error
                _log.error("%s failed; restarting in %g s: %s", name, pause_s, error, exc_info=trace)
            else:
                return
            await self._sleep_s(pause_s)
            pause_s = min(2 * pause_s, PAUSE_LAST_S)


class LoopLag:
    """Notices what blocks the event loop, by how late it wakes up. Its owner runs `run` as a task."""

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
