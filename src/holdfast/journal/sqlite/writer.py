"""The writer: one thread, one connection, and as many appends per commit as are waiting.

Under light load every append is its own commit; under heavy load commits grow on their own. The thread never
runs an event loop, and the event loop never touches the connection.

When the writer starts, the file may be locked or its disk full. Then the writer retries on its own, less and
less often, and refuses all work until it succeeds.
"""

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from holdfast.interfaces.journal import (
    TRANSIENT_AT_OPENING,
    JournalError,
    StoreClosed,
    StoreFailed,
    StoreOverloaded,
)
from holdfast.journal.sqlite.commits import Commits
from holdfast.journal.sqlite.jobs import WriteJob, WriteQueue
from holdfast.journal.sqlite.tuning import Tuning

GROUP_BYTES_MAX = 16 * 1024 * 1024
PAUSE_FIRST_S = 0.05
PAUSE_LAST_S = 1.0

_log = logging.getLogger(__name__)


class Writer:
    """Hands jobs to the thread that commits them, and brings the results back to the loop.

    `forget` is called on the loop when another process has written to the file, and when the file opens late.
    """

    def __init__(
        self,
        path: Path,
        connect: Callable[[], Commits],
        *,
        forget: Callable[[], None],
        tuning: Tuning | None = None,
    ) -> None:
        self._path = path
        self._tuning = tuning or Tuning()
        self._connect = connect
        self._forget = forget
        self._loop = asyncio.get_running_loop()
        self._gathered: list[WriteJob] = []
        self._waiting = 0
        self._queue = WriteQueue()
        self._backlog: deque[WriteJob] = deque()  # used by the thread only, like the group
        self._group: Sequence[WriteJob] = ()
        self._tried = asyncio.Event()
        self._decided = asyncio.Event()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, name="holdfast-writer", daemon=True)
        self._is_refusing = False
        self.fence = 0
        self.trouble: JournalError | None = StoreClosed(f"the store {path} is not open yet")

    async def open(self) -> None:
        """Start the thread and wait for its first attempt to own the file; raises permanent errors."""
        self._thread.start()
        await self._tried.wait()
        if self._decided.is_set():
            await self.opened()

    async def opened(self) -> None:
        """Wait until the file is open for writing; raises if it never will be."""
        await self._decided.wait()
        self.insist()

    def insist(self) -> None:
        """Raise the error that keeps the file from being writable now, if there is one."""
        if self.trouble is not None:
            raise _own_copy(self.trouble)

    def future(self) -> asyncio.Future[Any]:
        """The future of a new job."""
        return self._loop.create_future()

    def submit(self, job: WriteJob) -> asyncio.Future[Any]:
        """Submit a job; after its commit it is published, then its future completes."""
        if self._is_refusing:
            job.future.set_exception(self._closed())
        elif self.trouble is not None:
            job.future.set_exception(_own_copy(self.trouble))
        elif self._waiting >= self._tuning.waiting_jobs_max:
            text = f"{self._tuning.waiting_jobs_max} writes are waiting for the disk; try again in a moment"
            job.future.set_exception(StoreOverloaded(text))
        else:
            self._waiting += 1
            if not self._gathered:
                # After all tasks that are ready now: this makes one commit and wakes the thread once.
                self._loop.call_soon(self._hand_over)
            self._gathered.append(job)
        return job.future

    def _hand_over(self) -> None:
        gathered, self._gathered = self._gathered, []
        if gathered:
            self._queue.put(gathered)

    def refuse(self) -> None:
        """Accept no more work."""
        self._is_refusing = True

    async def close(self) -> None:
        """Write what was submitted, then end the thread."""
        self.refuse()
        if self._thread.ident is None:
            return
        self._hand_over()
        self._queue.end()
        # Not joined, because that would block the loop: setting `_ended` is the last thing the thread does.
        await asyncio.shield(self._ended)

    def _run(self) -> None:
        assert asyncio._get_running_loop() is None, "the writer's thread must not run an event loop"  # noqa: SLF001
        try:
            commits = self._connected()
            if commits is None:
                return
            try:
                self._tell(self._take_over, commits.fence)
                self._commit_groups(commits)
            finally:
                commits.close()
        except Exception as error:  # noqa: BLE001  # every waiting writer gets the error
            self._tell(self._give_up, error)
        finally:
            self._tell(self._end)

    def _connected(self) -> Commits | None:
        """Open the file for writing, however long that takes; None if the store is closed first."""
        pause_s = PAUSE_FIRST_S
        while True:
            try:
                return self._connect()
            except TRANSIENT_AT_OPENING as trouble:
                self._tell(self._be_late, trouble)
            except JournalError:
                raise
            except Exception as error:
                raise StoreFailed(f"opening {self._path} failed: {error!r}") from error
            if self._queue.is_ended_within(pause_s):
                return None
            pause_s = min(2 * pause_s, PAUSE_LAST_S)

    def _be_late(self, trouble: JournalError) -> None:
        if not self._tried.is_set():
            _log.warning("the store can't be opened for writing yet, so Holdfast keeps trying: %s", trouble)
        self.trouble = trouble
        self._tried.set()

    def _take_over(self, fence: int) -> None:
        if self._tried.is_set():
            _log.info("the store %s is open for writing now", self._path)
            self._forget()
        self.fence, self.trouble = fence, None
        self._tried.set()
        self._decided.set()

    def _give_up(self, error: Exception) -> None:
        if not isinstance(error, JournalError) or isinstance(error, TRANSIENT_AT_OPENING):
            # Once the thread is gone no trouble passes, so nobody may wait for it.
            _log.error("the writer thread of %s has ended", self._path, exc_info=error)
            error = StoreClosed(f"{self._path} accepts no more writes, restart Holdfast: {error!r}")
        self.trouble = error
        self._tried.set()
        self._decided.set()

    def _commit_groups(self, commits: Commits) -> None:
        is_open = True
        while is_open or self._backlog:
            is_open = is_open and self._queue.take(self._backlog, wait_s=self._tuning.look_s)
            if group := _group(self._backlog, jobs_max=self._tuning.group_jobs_max):
                self._group = group
                commits.write(group)
                if commits.saw_foreign_write():
                    self._tell(self._forget)
                self._tell(self._deliver, group)
                commits.tidy()
            else:
                commits.rest()
            if commits.is_save_due:
                self._tell(self._be_stuck, commits.trouble)
                commits.save()
                self._tell(self._be_stuck, commits.trouble)

    def _be_stuck(self, trouble: JournalError) -> None:
        """Refuse all work until the next start, because the files are gone."""
        self.trouble = trouble

    def _deliver(self, jobs: Sequence[WriteJob]) -> None:
        """Publish the results of a commit, then complete its futures.

        If publishing one job fails, the others don't wait for it: all of them are on disk.
        """
        self._waiting -= len(jobs)
        for job in jobs:
            if job.error is None:
                try:
                    job.publish()
                except Exception:  # noqa: BLE001  # the other jobs of the commit must not be affected
                    _log.exception(
                        "events saved in %s couldn't be published; readers take them from the file",
                        self._path,
                    )
                    self._forget()  # readers find the events in the file
        for job in jobs:
            if job.future.done():
                continue
            if job.error is None:
                job.future.set_result(job.result)
            else:
                job.future.set_exception(_own_copy(job.error))

    def _end(self) -> None:
        """Fail everything that still waits for the thread."""
        self._ended.set_result(None)
        self.trouble = self.trouble or self._closed()
        self._tried.set()
        self._decided.set()
        self._hand_over()
        for job in (*self._group, *self._backlog, *self._queue.left()):
            if not job.future.done():
                job.future.set_exception(_own_copy(self.trouble))

    def _closed(self) -> StoreClosed:
        return StoreClosed(f"the store {self._path} is closed")

    def _tell(self, function: Callable[..., Any], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody can be told
            self._loop.call_soon_threadsafe(function, *arguments)


def _group(backlog: deque[WriteJob], *, jobs_max: int) -> list[WriteJob]:
    """Take the jobs of the next commit."""
    group: list[WriteJob] = []
    size = 0
    while backlog and len(group) < jobs_max and size < GROUP_BYTES_MAX:
        job = backlog.popleft()
        group.append(job)
        size += job.bytes
    return group


def _own_copy(error: Exception) -> Exception:
    """A copy, because raising an exception changes its traceback: no two tasks may share one."""
    if not isinstance(error, JournalError):
        return error
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy
