"""The writer: one thread, one connection, and as many appends per commit as are waiting.

With little to do every append is a commit of its own; under load commits grow by themselves. The thread never
runs an event loop and the event loop never touches the connection.

The file may be locked or its disk full when the writer starts. Then it tries again by itself, ever more
seldom, and refuses what is handed in meanwhile.
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
    """Hands jobs to the thread that commits them, and what came of them back to the loop.

    `forget` is called on the loop when someone else has written to the file, and when it opens late.
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
        self._backlog: deque[WriteJob] = deque()  # this and the group are the thread's
        self._group: Sequence[WriteJob] = ()
        self._tried = asyncio.Event()
        self._decided = asyncio.Event()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, name="holdfast-writer", daemon=True)
        self._is_refusing = False
        self.fence = 0
        self.trouble: JournalError | None = StoreClosed(f"the store {path} is not open yet")

    async def open(self) -> None:
        """Start the thread and wait for its first try to own the file; raises what does not pass."""
        self._thread.start()
        await self._tried.wait()
        if self._decided.is_set():
            await self.opened()

    async def opened(self) -> None:
        """Wait until the file is open for writing; raises if it never will be."""
        await self._decided.wait()
        self.insist()

    def insist(self) -> None:
        """Raise what keeps the file from being open for writing now, if anything does."""
        if self.trouble is not None:
            raise _own_copy(self.trouble)

    def future(self) -> asyncio.Future[Any]:
        """The future of a job to come."""
        return self._loop.create_future()

    def submit(self, job: WriteJob) -> asyncio.Future[Any]:
        """Hand in a job; once it is committed it is published, then its future is done."""
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
                # After all tasks that are ready now have had their turn: one commit, and one thread to wake.
                self._loop.call_soon(self._hand_over)
            self._gathered.append(job)
        return job.future

    def _hand_over(self) -> None:
        gathered, self._gathered = self._gathered, []
        if gathered:
            self._queue.put(gathered)

    def refuse(self) -> None:
        """Take no more work."""
        self._is_refusing = True

    async def close(self) -> None:
        """Write what was handed in, then end the thread."""
        self.refuse()
        if self._thread.ident is None:
            return
        self._hand_over()
        self._queue.end()
        # Not joined, as that would block the loop: `_ended` is the last thing that the thread does.
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
        except Exception as error:  # noqa: BLE001  # everyone who writes is told of it
            self._tell(self._give_up, error)
        finally:
            self._tell(self._end)

    def _connected(self) -> Commits | None:
        """The file, open for writing, however long that takes; None if the store is closed before."""
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
            # Nothing passes once the thread is gone, so nobody may wait for that.
            _log.error("the writer thread of %s has ended", self._path, exc_info=error)
            error = StoreClosed(f"{self._path} takes no more writes, restart Holdfast: {error!r}")
        self.trouble = error
        self._tried.set()
        self._decided.set()

    def _commit_groups(self, commits: Commits) -> None:
        goes_on = True
        while goes_on or self._backlog:
            goes_on = goes_on and self._queue.take(self._backlog, wait_s=self._tuning.look_s)
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
        """The files are gone: nothing is taken until the next start."""
        self.trouble = trouble

    def _deliver(self, jobs: Sequence[WriteJob]) -> None:
        """Publish what a commit brought, then let go those who waited for it.

        One whose publishing fails keeps nobody else waiting: all of it is on disk.
        """
        self._waiting -= len(jobs)
        for job in jobs:
            if job.error is None:
                try:
                    job.publish()
                except Exception:  # noqa: BLE001  # the others of the commit must not suffer for it
                    _log.exception(
                        "events saved in %s couldn't be published; readers take them from the file",
                        self._path,
                    )
                    self._forget()  # whoever reads on finds it in the file
        for job in jobs:
            if job.future.done():
                continue
            if job.error is None:
                job.future.set_result(job.result)
            else:
                job.future.set_exception(_own_copy(job.error))

    def _end(self) -> None:
        """The thread is gone: nobody is left waiting for it."""
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
        with contextlib.suppress(RuntimeError):  # the loop has gone, and with it everyone who could listen
            self._loop.call_soon_threadsafe(function, *arguments)


def _group(backlog: deque[WriteJob], *, jobs_max: int) -> list[WriteJob]:
    """The jobs of the next commit."""
    group: list[WriteJob] = []
    size = 0
    while backlog and len(group) < jobs_max and size < GROUP_BYTES_MAX:
        job = backlog.popleft()
        group.append(job)
        size += job.bytes
    return group


def _own_copy(error: Exception) -> Exception:
    """Whoever raises an error adds to its traceback, so no two tasks are given the same one."""
    if not isinstance(error, JournalError):
        return error
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy
