"""The writer: one thread, one connection, and as many appends per commit as are waiting.

With little to do every append is a commit of its own; under load commits grow by themselves. Nothing waits
for a timer. The thread never runs an event loop and the event loop never touches the connection.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from holdfast import interfaces as seams
from holdfast.journal.commits import Commits, Job, Work

GROUP_JOBS_MAX = 4_096
GROUP_BYTES_MAX = 16 * 1024 * 1024
WAITING_JOBS_MAX = 65_536

Publish: TypeAlias = Callable[[Any], None]


class Waiting(Job):
    """A job with the future of whoever waits for it, and what to do on the loop once it is committed."""

    __slots__ = ("future", "publish")

    def __init__(
        self, future: asyncio.Future[Any], work: Work, *, publish: Publish | None, body_bytes: int
    ) -> None:
        super().__init__(work, body_bytes=body_bytes)
        self.future = future
        self.publish = publish


class Writer:
    """Hands jobs to the thread that commits them, and what came of them back to the loop."""

    def __init__(self, path: Path, connect: Callable[[], Commits]) -> None:
        self._path = path
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self._opened: asyncio.Future[int] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, name="holdfast-writer", daemon=True)
        self._is_refusing = False

    async def open(self) -> int:
        """Start the thread and take ownership of the file; the number of the fence."""
        self._thread.start()
        return await asyncio.shield(self._opened)

    def submit(
        self, work: Work, *, publish: Publish | None = None, body_bytes: int = 0
    ) -> asyncio.Future[Any]:
        """Hand in work; once committed, `publish` is called with its result, then the future is done."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._is_refusing or self._ended.done():
            future.set_exception(self._closed())
        elif self._jobs.qsize() >= WAITING_JOBS_MAX:
            text = f"{WAITING_JOBS_MAX} writes are waiting for the disk; try again in a moment"
            future.set_exception(seams.StoreOverloaded(text))
        else:
            self._jobs.put(Waiting(future, work, publish=publish, body_bytes=body_bytes))
        return future

    def refuse(self) -> None:
        """Take no more work."""
        self._is_refusing = True

    async def close(self) -> None:
        """Write what was handed in, then end the thread."""
        self.refuse()
        if self._thread.ident is None:
            return
        self._jobs.put(None)
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
            while jobs := self._next_group():
                commits.write(jobs)
                self._tell(self._deliver, jobs)
                commits.tidy()
        finally:
            commits.close()
            self._tell(self._end)

    def _next_group(self) -> list[Waiting]:
        """The jobs of the next commit; empty when it is time to end."""
        first = self._jobs.get()
        if first is None:
            return []
        group, size = [first], first.bytes
        while len(group) < GROUP_JOBS_MAX and size < GROUP_BYTES_MAX:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                self._jobs.put(None)
                break
            group.append(job)
            size += job.bytes
        return group

    def _deliver(self, jobs: Sequence[Waiting]) -> None:
        """Publish what a commit brought, then let go those who waited for it."""
        for job in jobs:
            if job.error is None and job.publish is not None:
                job.publish(job.result)
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
        while not self._jobs.empty():
            job = self._jobs.get()
            if job is not None and not job.future.done():
                job.future.set_exception(self._closed())

    def _closed(self) -> seams.StoreClosed:
        return seams.StoreClosed(f"the store {self._path} is closed")

    def _tell(self, function: Callable[..., Any], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has gone, and with it everyone who could listen
            self._loop.call_soon_threadsafe(function, *arguments)


def _own_copy(error: Exception) -> Exception:
    """Whoever raises an error adds to its traceback, so no two tasks are given the same one."""
    if not isinstance(error, seams.JournalError):
        return error
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy
