"""How jobs get from the event loop to the writer's thread, and when the thread waits a moment for more.

With little to do nothing waits. While many runs talk at once, a commit of nothing but deltas waits a few
milliseconds for company: waking the thread and the disk for each delta costs more than the delta. Whatever
else comes ends the wait, and so does the last of those who can come, since a run has one append in flight.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from holdfast.journal.jobs import Append, Job

LINGER_S = 0.004  # how long after a commit the next one may wait
LATELY_S = 0.05
BUSY_JOBS = 32  # so many in LATELY_S are many


class Handover:
    """The queue between loop and thread; `put` and `end` are the loop's, the rest is the thread's."""

    def __init__(
        self, *, linger_s: float = LINGER_S, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._linger_s = linger_s
        self._monotonic_s = monotonic_s
        self._queue: queue.SimpleQueue[Sequence[Job] | None] = queue.SimpleQueue()
        self._hurry = threading.Event()
        self._complete = 0  # while the thread waits: with so many jobs nobody is left to wait for
        self._here = 0
        self._commits: deque[tuple[float, int]] = deque()  # when, and how many jobs, lately
        self._jobs = 0
        self._sessions: set[str] = set()
        self._sessions_before: set[str] = set()
        self._counted_from_s = 0.0

    def put(self, jobs: Sequence[Job]) -> None:
        """Hand jobs over."""
        self._queue.put(jobs)
        if self._complete:
            self._here += len(jobs)
            if self._here >= self._complete or not all(job.may_wait for job in jobs):
                self._hurry.set()

    @property
    def is_lingering(self) -> bool:
        """Whether the thread waits for company."""
        return self._complete > 0

    def end(self) -> None:
        """Nothing comes any more."""
        self._queue.put(None)
        self._hurry.set()

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

    def take(self, backlog: deque[Job]) -> bool:
        """Add what was handed over, waiting for the first and perhaps for company; False after the end."""
        if not self._drain(backlog):
            return False
        if self._is_busy() and all(job.may_wait for job in backlog):
            return self._linger(backlog)
        return True

    def _drain(self, backlog: deque[Job]) -> bool:
        while not backlog or not self._queue.empty():
            jobs = self._queue.get()
            if jobs is None:
                return False
            backlog.extend(jobs)
        return True

    def _is_busy(self) -> bool:
        since_s = self._monotonic_s() - LATELY_S
        while self._commits and self._commits[0][0] < since_s:
            self._jobs -= self._commits.popleft()[1]
        return self._jobs >= BUSY_JOBS

    def _linger(self, backlog: deque[Job]) -> bool:
        self._here = len(backlog)
        self._complete = max(len(self._sessions), len(self._sessions_before))
        try:
            # What came before the loop knew of the wait did not end it.
            if not self._drain(backlog):
                return False
            wait_s = self._commits[-1][0] + self._linger_s - self._monotonic_s()
            is_company_awaited = len(backlog) < self._complete and all(job.may_wait for job in backlog)
            if wait_s > 0 and is_company_awaited:
                self._hurry.wait(wait_s)
        finally:
            self._complete = 0
            self._hurry.clear()
        return self._drain(backlog)

    def committed(self, jobs: Sequence[Job]) -> None:
        """A commit is over."""
        now_s = self._monotonic_s()
        self._commits.append((now_s, len(jobs)))
        self._jobs += len(jobs)
        if now_s - self._counted_from_s > LATELY_S:
            self._counted_from_s = now_s
            self._sessions, self._sessions_before = set(), self._sessions
        self._sessions.update([job.session_id for job in jobs if type(job) is Append])
