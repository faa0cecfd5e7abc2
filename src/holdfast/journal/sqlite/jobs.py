"""What is handed to the writer: something to write, who waits for it, and what came of it."""

import queue
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from holdfast.interfaces.journal import Appended, Condition, Fence, IdempotencyKey, ListedSession, Record

if TYPE_CHECKING:
    from asyncio import Future

    from holdfast.folds.rows import RunRow
    from holdfast.journal.follow import Tails
    from holdfast.journal.sqlite.row_cache import RowCache
    from holdfast.journal.sqlite.transaction import Transaction

    Work: TypeAlias = Callable[[Transaction], Any]


class WriteJob(Struct, kw_only=True, eq=False):
    """One piece of work; `bytes` is roughly how much it writes."""

    future: "Future[Any]"
    bytes: int = 0
    result: Any = None
    error: Exception | None = None

    def work(self, transaction: "Transaction") -> Any:
        """Do it, on the writer's thread; a JournalError says that nothing was written."""
        raise AssertionError(f"{type(self).__name__} does not say what to write to {transaction}")

    def publish(self) -> None:
        """Show what came of it, on the loop's thread, once it is committed."""


class AppendJob(WriteJob):
    """Events for the end of a log."""

    session_id: str
    records: Sequence[Record]
    tails: "Tails"
    row_cache: "RowCache"
    fence: Fence | None
    when: Sequence[Condition]
    idempotency_key: IdempotencyKey | None
    rows: "tuple[ListedSession, Sequence[RunRow]] | None" = None

    def work(self, transaction: "Transaction") -> Any:
        """Give the events their seqs."""
        return transaction.append(self)

    def publish(self) -> None:
        """Wake those who follow the session; what they then ask for is known."""
        if type(self.result) is Appended:
            if self.rows is not None:
                self.row_cache.keep(*self.rows)
            self.tails.publish(self.session_id, self.records)


class TransactionJob(WriteJob):
    """Anything else that is written, and what to do afterwards."""

    task: "Work"
    then: Callable[[Any], None] | None = None

    def work(self, transaction: "Transaction") -> Any:
        """Do what was asked."""
        return self.task(transaction)

    def publish(self) -> None:
        """Do what comes afterwards."""
        if self.then is not None:
            self.then(self.result)


class WriteQueue:
    """The queue between loop and thread; `put` and `end` are the loop's, the rest is the thread's."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Sequence[WriteJob] | None] = queue.SimpleQueue()

    def put(self, jobs: Sequence[WriteJob]) -> None:
        """Hand jobs over."""
        self._queue.put(jobs)

    def end(self) -> None:
        """Nothing comes any more."""
        self._queue.put(None)

    def left(self) -> Sequence[WriteJob]:
        """What nobody took."""
        jobs: list[WriteJob] = []
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

    def take(self, backlog: deque[WriteJob], *, wait_s: float) -> bool:
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
