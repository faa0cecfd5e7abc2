"""Jobs for the writer: what to write, the future that waits for it, and its result."""

import queue
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from holdfast.events import Event
from holdfast.interfaces.journal import Appended, Condition, Fence, IdempotencyKey, Record

if TYPE_CHECKING:
    from asyncio import Future

    from holdfast.folds.rows import RunRow
    from holdfast.interfaces.index import ListedSession
    from holdfast.journal.follow import Tails
    from holdfast.journal.sqlite.row_cache import RowCache
    from holdfast.journal.sqlite.transaction import Transaction

    Work: TypeAlias = Callable[[Transaction], Any]


class WriteJob(Struct, kw_only=True, eq=False):
    """One unit of work; `bytes` is roughly how much it writes."""

    future: "Future[Any]"
    bytes: int = 0
    result: Any = None
    error: Exception | None = None

    def work(self, transaction: "Transaction") -> Any:
        """Do the work on the writer's thread; a JournalError means that nothing was written."""
        raise AssertionError(f"{type(self).__name__} does not say what to write to {transaction}")

    def publish(self) -> None:
        """Show the result, on the loop's thread, after the commit."""


class AppendJob(WriteJob):
    """Events to append to a log."""

    session_id: str
    events: Sequence[Event]
    records: Sequence[Record]
    tails: "Tails"
    row_cache: "RowCache"
    after_commit: Callable[[Sequence[Event], float], None] | None
    began_s: float
    fence: Fence | None
    when: Sequence[Condition]
    idempotency_key: IdempotencyKey | None
    rows: "tuple[ListedSession, Sequence[RunRow]] | None" = None  # of an append that is more than deltas

    def work(self, transaction: "Transaction") -> Any:
        """Assign seqs to the events and write them."""
        return transaction.append(self)

    def publish(self) -> None:
        """Cache the new rows, then wake the session's followers, which will ask for them."""
        if type(self.result) is Appended:
            if self.rows is None:
                self.tails.publish_deltas([(self.session_id, self.records)])
            else:
                self.row_cache.keep(*self.rows)
                self.tails.publish_news(self.session_id, self.records)
            if self.after_commit is not None:
                self.after_commit(self.events, monotonic() - self.began_s)


class TransactionJob(WriteJob):
    """Any other write, and what to do after it."""

    task: "Work"
    then: Callable[[Any], None] | None = None

    def work(self, transaction: "Transaction") -> Any:
        """Run the function in the transaction."""
        return self.task(transaction)

    def publish(self) -> None:
        """Run what comes after the commit."""
        if self.then is not None:
            self.then(self.result)


class WriteQueue:
    """The queue between loop and thread; the loop calls `put` and `end`, the thread calls the rest."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Sequence[WriteJob] | None] = queue.SimpleQueue()

    def put(self, jobs: Sequence[WriteJob]) -> None:
        """Hand over jobs."""
        self._queue.put(jobs)

    def end(self) -> None:
        """Say that no more jobs follow."""
        self._queue.put(None)

    def left(self) -> Sequence[WriteJob]:
        """The jobs that were never taken."""
        jobs: list[WriteJob] = []
        while not self._queue.empty():
            jobs += self._queue.get() or ()
        return jobs

    def is_ended_within(self, seconds: float) -> bool:
        """Wait for the end of the queue only; no jobs are handed over yet."""
        try:
            jobs = self._queue.get(timeout=seconds)
        except queue.Empty:
            return False
        assert jobs is None, "work was taken before the file was open"
        return True

    def take(self, backlog: deque[WriteJob], *, wait_s: float) -> bool:
        """Move jobs to the backlog, waiting up to `wait_s` for the first one; False after the end."""
        while not backlog or not self._queue.empty():
            try:
                jobs = self._queue.get(timeout=wait_s)
            except queue.Empty:
                return True
            if jobs is None:
                return False
            backlog.extend(jobs)
        return True
