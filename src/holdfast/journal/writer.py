"""The writer: one thread, one connection, and as many appends per commit as are waiting.

With little to do every append is a commit of its own; under load commits grow by themselves. Nothing waits
for a timer. The thread never runs an event loop and the event loop never touches the connection.
"""

import asyncio
import contextlib
import logging
import os
import queue
import struct
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import apsw

from holdfast import interfaces as seams
from holdfast.journal.connection import Durability, named, open_for_writing
from holdfast.journal.transaction import Append, Transaction

GROUP_JOBS_MAX = 4_096
GROUP_BYTES_MAX = 16 * 1024 * 1024
WAITING_JOBS_MAX = 65_536

_log = logging.getLogger(__name__)

Work: TypeAlias = Callable[[Transaction], Any]
Deliver: TypeAlias = Callable[[Sequence["Job"]], None]


class Job:
    """Something to write, and the future of whoever waits for it."""

    __slots__ = ("append", "error", "future", "result", "work")

    def __init__(self, future: asyncio.Future[Any], work: Work, *, append: Append | None = None) -> None:
        self.future = future
        self.work = work
        self.append = append
        self.result: Any = None
        self.error: Exception | None = None


class CommitMark:
    """How many commits were published, kept beside the store so that a cut log is noticed.

    SQLite takes a write-ahead log that is damaged in the middle for one that ends there. The mark is written
    without fsync after each commit and before anyone sees it: after a power cut it may be too low, which
    hides some damage, never too high, which would invent it.
    """

    _FORM = struct.Struct("<Q")

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def read(self) -> int:
        """The number of commits known to have been published; 0 if the mark is new."""
        data = os.pread(self._file, self._FORM.size, 0)
        return self._FORM.unpack(data)[0] if len(data) == self._FORM.size else 0

    def write(self, commits: int) -> None:
        """Remember that so many commits are about to be published."""
        os.pwrite(self._file, self._FORM.pack(commits), 0)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


class Writer:
    """Owns the writing connection and the thread that uses it."""

    def __init__(self, path: Path, deliver: Deliver, *, durability: Durability, vfs: str | None) -> None:
        self._path = path
        self._deliver = deliver
        self._durability: Durability = durability
        self._vfs = vfs
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._opened: asyncio.Future[int] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, name="holdfast-writer", daemon=True)
        self._closing = False

    async def open(self) -> int:
        """Start the thread, bring the schema up to date, take ownership; the number of the fence."""
        self._thread.start()
        return await asyncio.shield(self._opened)

    def submit(self, work: Work, *, append: Append | None = None) -> asyncio.Future[Any]:
        """Hand in work; the future is done when it is committed."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._closing:
            future.set_exception(seams.StoreClosed(f"the store {self._path} is closed"))
        elif self._jobs.qsize() >= WAITING_JOBS_MAX:
            text = f"{WAITING_JOBS_MAX} writes are waiting for the disk; try again in a moment"
            future.set_exception(seams.StoreOverloaded(text))
        else:
            self._jobs.put(Job(future, work, append=append))
        return future

    async def close(self) -> None:
        """Write what was handed in, then end the thread."""
        if not self._closing:
            self._closing = True
            self._jobs.put(None)
        await asyncio.shield(self._ended)
        self._thread.join()

    def _run(self) -> None:
        assert asyncio._get_running_loop() is None, "the writer's thread must not run an event loop"  # noqa: SLF001
        try:
            connection, mark, transaction = self._open()
        except BaseException as error:  # noqa: BLE001  # it is handed to whoever called open()
            self._tell(self._opened.set_exception, error)
            self._tell(self._ended.set_result, None)
            return
        try:
            self._tell(self._opened.set_result, transaction.trusted_fence)
            while jobs := self._next_group():
                self._write_group(jobs, connection, transaction, mark)
        finally:
            mark.close()
            with contextlib.suppress(apsw.Error):  # what is not checkpointed now stays in the log, safely
                connection.close()
            self._tell(self._ended.set_result, None)

    def _open(self) -> tuple[apsw.Connection, CommitMark, Transaction]:
        try:
            connection = open_for_writing(self._path, durability=self._durability, vfs=self._vfs)
        except apsw.Error as error:
            raise named(error, self._path) from error
        mark = CommitMark(self._path.with_name(self._path.name + "-mark"))
        transaction = Transaction(connection)
        try:
            transaction.begin()
            self._check(mark.read(), transaction.commits)
            transaction.trusted_fence = transaction.raise_fence()
            transaction.flush()
            connection.execute("COMMIT")
            mark.write(transaction.commits)
        except BaseException as error:
            mark.close()
            connection.close()
            raise (named(error, self._path) if isinstance(error, apsw.Error) else error) from error
        return connection, mark, transaction

    def _check(self, published: int, found: int) -> None:
        if found < published:
            raise seams.StoreDamaged(
                f"integrity check failed at {self._path}: {published} commits were published, but only "
                f"{found} are readable. The write-ahead log was cut or damaged. Restore a backup, or run "
                "`holdfast doctor` to see what is there and to go on without the rest"
            )

    def _next_group(self) -> list[Job]:
        """The jobs of the next commit; empty when it is time to end."""
        first = self._jobs.get()
        if first is None:
            return []
        group, size = [first], 0
        while len(group) < GROUP_JOBS_MAX and size < GROUP_BYTES_MAX:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                self._jobs.put(None)
                break
            group.append(job)
            if job.append is not None:
                size += sum(len(record.body) for record in job.append.records)
        return group

    def _write_group(
        self, jobs: list[Job], connection: apsw.Connection, transaction: Transaction, mark: CommitMark
    ) -> None:
        try:
            transaction.begin()
            for job in jobs:
                try:
                    job.result = job.work(transaction)
                except seams.JournalError as refused:
                    job.error = refused
            transaction.flush()
            connection.execute("COMMIT")
            mark.write(transaction.commits)
        except Exception as error:  # noqa: BLE001  # it is handed to everyone whose append it took along
            failure = named(error, self._path) if isinstance(error, apsw.Error) else error
            try:
                transaction.roll_back()
            except apsw.Error as worse:
                failure.add_note(f"undoing it failed too: {worse}")
            for job in jobs:
                job.error = failure
        if transaction.purged:
            self._wipe_log(connection, transaction)
        self._tell(self._deliver, jobs)

    def _wipe_log(self, connection: apsw.Connection, transaction: Transaction) -> None:
        """Empty the log, which still holds what was purged; a reader in the way puts it off by a commit."""
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.Error as error:
            _log.warning("purged text is still in the write-ahead log of %s: %s", self._path, error)
        else:
            transaction.purged = False

    def _tell(self, function: Callable[..., Any], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has gone, and with it everyone who could listen
            self._loop.call_soon_threadsafe(function, *arguments)
