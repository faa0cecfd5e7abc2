"""What is handed to the writer: something to write, who waits for it, and what came of it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast import interfaces as seams
from holdfast.interfaces import Record

if TYPE_CHECKING:
    from asyncio import Future

    from holdfast.journal.follow import Tails
    from holdfast.journal.known import Known
    from holdfast.journal.transaction import Transaction
    from holdfast.rows import RunRow

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

    __slots__ = ("fence", "known", "once", "records", "rows", "session_id", "tails", "when")

    # Without super() and keywords: this is made for every delta of every run.
    def __init__(  # noqa: PLR0913, PLR0917
        self,
        future: "Future[Any]",
        session_id: str,
        records: Sequence[Record],
        tails: "Tails",
        known: "Known",
        fence: seams.Fence | None,
        when: Sequence[seams.Condition],
        once: seams.Once | None,
    ) -> None:
        self.future = future
        self.result = self.error = None
        self.session_id = session_id
        self.records = records
        self.tails = tails
        self.known = known
        self.rows: tuple[seams.ListedSession, Sequence[RunRow]] | None = None
        self.fence = fence
        self.when = when
        self.once = once
        self.bytes = len(records[0].body) * len(records)

    def work(self, transaction: "Transaction") -> Any:
        """Give the events their seqs."""
        return transaction.append(self)

    def publish(self) -> None:
        """Wake those who follow the session; what they then ask for is known."""
        if type(self.result) is seams.Appended:
            if self.rows is not None:
                self.known.keep(*self.rows)
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
