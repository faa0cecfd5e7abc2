"""How jobs get from the event loop to the writer's thread: whatever is there goes into the next commit."""

import queue
from collections import deque
from collections.abc import Sequence

from holdfast.journal.sqlite.jobs import Job


class JobQueue:
    """The queue between loop and thread; `put` and `end` are the loop's, the rest is the thread's."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Sequence[Job] | None] = queue.SimpleQueue()

    def put(self, jobs: Sequence[Job]) -> None:
        """Hand jobs over."""
        self._queue.put(jobs)

    def end(self) -> None:
        """Nothing comes any more."""
        self._queue.put(None)

    def left(self) -> Sequence[Job]:
        """What nobody took."""
        jobs: list[Job] = []
        while not self._queue.empty():
            jobs += self._queue.get() or ()
        return jobs

    def is_ended_within(self, seconds: float) -> bool:
        """Wait for the end alone: nothing else is handed over yet."""
        try:
            jobs = self._queue.get(timeout=seconds)
        except queue.Empty:
            return False
        assert jobs is None, "work was taken before the file was open"
        return True

    def take(self, backlog: deque[Job], *, wait_s: float) -> bool:
        """Add what was handed over, waiting so long for the first if there is none; False after the end."""
        while not backlog or not self._queue.empty():
            try:
                jobs = self._queue.get(timeout=wait_s)
            except queue.Empty:
                return True
            if jobs is None:
                return False
            backlog.extend(jobs)
        return True
