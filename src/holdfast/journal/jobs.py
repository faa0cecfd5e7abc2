"""What is handed to the writer: something to write, who waits for it, and what came of it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast import interfaces as seams
from holdfast.interfaces import Record

if TYPE_CHECKING:
    from asyncio import Future

    from holdfast.journal.follow import Tails
    from holdfast.journal.transaction import Transaction

    Work: TypeAlias = Callable[[Transaction], Any]


class Job:
    """One piece of work; `bytes` is roughly how much it writes."""

    __slots__ = ("bytes", "error", "future", "result")

    def __init__(self, future: "Future[Any]") -> None:
        self.future = future
        self.bytes = 0
        self.result: Any = None
        self.error: Exception | None = None

    def work(self, transaction: "Transaction") -> Any:
        """Do it, on the writer's thread; a JournalError says that nothing was written."""
        raise AssertionError(f"{type(self).__name__} does not say what to write to {transaction}")

    def publish(self) -> None:
        """Show what came of it, on the loop's thread, once it is committed."""


class Append(Job):
    """Events for the end of a log."""

    __slots__ = ("fence", "once", "records", "session_id", "tails", "when")

    def __init__(
        self, future: "Future[Any]", session_id: str, *, records: Sequence[Record], tails: "Tails"
    ) -> None:
        # Not by super(): this is made for every delta of every run.
        self.future = future
        self.result = self.error = None
        self.session_id = session_id
        self.records = records
        self.tails = tails
        self.fence: seams.Fence | None = None
        self.when: Sequence[seams.Condition] = ()
        self.once: seams.Once | None = None
        self.bytes = len(records[0].body) * len(records)

    def work(self, transaction: "Transaction") -> Any:
        """Give the events their seqs."""
        return transaction.append(self)

    def publish(self) -> None:
        """Wake those who follow the session."""
        if type(self.result) is seams.Appended:
            self.tails.publish(self.session_id, self.records)


class Call(Job):
    """Anything else that is written, and what to do afterwards."""

    __slots__ = ("_then", "_work")

    def __init__(
        self, future: "Future[Any]", work: "Work", *, then: Callable[[], None] | None = None
    ) -> None:
        super().__init__(future)
        self._work = work
        self._then = then

    def work(self, transaction: "Transaction") -> Any:
        """Do what was asked."""
        return self._work(transaction)

    def publish(self) -> None:
        """Do what comes afterwards."""
        if self._then is not None:
            self._then()
