"""The writer: one thread, one connection, and as many appends per commit as are waiting.

With little to do every append is a commit of its own; under load commits grow by themselves. Nothing waits
for a timer. The thread never runs an event loop and the event loop never touches the connection.
"""

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from holdfast import interfaces as seams
from holdfast.journal.commits import Commits
from holdfast.journal.jobs import Job

GROUP_JOBS_MAX = 4_096
GROUP_BYTES_MAX = 16 * 1024 * 1024
WAITING_JOBS_MAX = 65_536


class Writer:
    """Hands jobs to the thread that commits them, and what came of them back to the loop."""

    def __init__(self, path: Path, connect: Callable[[], Commits]) -> None:
        self._path = path
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        self._gathered: list[Job] = []
        self._waiting = 0
        self._handed_over: queue.SimpleQueue[list[Job] | None] = queue.SimpleQueue()
        self._opened: asyncio.Future[int] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, name="holdfast-writer", daemon=True)
        self._is_refusing = False

    async def open(self) -> int:
        """Start the thread and take ownership of the file; the number of the fence."""
        self._thread.start()
        return await asyncio.shield(self._opened)

    def future(self) -> asyncio.Future[Any]:
        """The future of a job to come."""
        return self._loop.create_future()

    def submit(self, job: Job) -> asyncio.Future[Any]:
        """Hand in a job; once it is committed it is published, then its future is done."""
        if self._is_refusing or self._ended.done():
            job.future.set_exception(self._closed())
        elif self._waiting >= WAITING_JOBS_MAX:
            text = f"{WAITING_JOBS_MAX} writes are waiting for the disk; try again in a moment"
            job.future.set_exception(seams.StoreOverloaded(text))
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
            self._handed_over.put(gathered)

    def refuse(self) -> None:
        """Take no more work."""
        self._is_refusing = True

    async def close(self) -> None:
        """Write what was handed in, then end the thread."""
        self.refuse()
        if self._thread.ident is None:
            return
        self._hand_over()
        self._handed_over.put(None)
        # Not joined, as that would block the loop: `_ended` is the last thing that the thread does.
        await asyncio.shield(self._ended)

    def _run(self) -> None:
        assert asyncio._get_running_loop() is None, "the writer's thread must not run an event loop"  # noqa: SLF001
        try:
            commits = self._connect()
        except BaseException as error:  # noqa: BLE001  # it is handed to whoever called open()
            self._tell(self._opened.set_exception, error)
            self._tell(self._end)
            return
        try:
            self._tell(self._opened.set_result, commits.fence)
            self._commit_groups(commits)
        finally:
            commits.close()
            self._tell(self._end)

    def _commit_groups(self, commits: Commits) -> None:
        backlog: deque[Job] = deque()
        is_ending = False
        while backlog or not is_ending:
            with contextlib.suppress(queue.Empty):
                while not is_ending:
                    jobs = self._handed_over.get(block=not backlog)
                    if jobs is None:
                        is_ending = True
                    else:
                        backlog.extend(jobs)
            if group := _group(backlog):
                commits.write(group)
                self._tell(self._deliver, group)
                commits.tidy()

    def _deliver(self, jobs: Sequence[Job]) -> None:
        """Publish what a commit brought, then let go those who waited for it."""
        self._waiting -= len(jobs)
        for job in jobs:
            if job.error is None:
                job.publish()
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
        self._hand_over()
        while not self._handed_over.empty():
            for job in self._handed_over.get() or ():
                if not job.future.done():
                    job.future.set_exception(self._closed())

    def _closed(self) -> seams.StoreClosed:
        return seams.StoreClosed(f"the store {self._path} is closed")

    def _tell(self, function: Callable[..., Any], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has gone, and with it everyone who could listen
            self._loop.call_soon_threadsafe(function, *arguments)


def _group(backlog: deque[Job]) -> list[Job]:
    """The jobs of the next commit."""
    group: list[Job] = []
    size = 0
    while backlog and len(group) < GROUP_JOBS_MAX and size < GROUP_BYTES_MAX:
        job = backlog.popleft()
        group.append(job)
        size += job.bytes
    return group


def _own_copy(error: Exception) -> Exception:
    """Whoever raises an error adds to its traceback, so no two tasks are given the same one."""
    if not isinstance(error, seams.JournalError):
        return error
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy
