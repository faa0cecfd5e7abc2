"""What is handed to the writer: something to write, who waits for it, and what came of it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from holdfast.interfaces import journal as seams
from holdfast.interfaces.journal import Record

if TYPE_CHECKING:
    from asyncio import Future

    from holdfast.folds.rows import RunRow
    from holdfast.journal.follow import Tails
    from holdfast.journal.sqlite.known import Known
    from holdfast.journal.sqlite.transaction import Transaction

    Work: TypeAlias = Callable[[Transaction], Any]


class Job(Struct, kw_only=True, eq=False):
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


class Append(Job):
    """Events for the end of a log."""

    session_id: str
    records: Sequence[Record]
    tails: "Tails"
    known: "Known"
    fence: seams.Fence | None
    when: Sequence[seams.Condition]
    once: seams.Once | None
    rows: "tuple[seams.ListedSession, Sequence[RunRow]] | None" = None

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

    task: "Work"
    then: Callable[[Any], None] | None = None

    def work(self, transaction: "Transaction") -> Any:
        """Do what was asked."""
        return self.task(transaction)

    def publish(self) -> None:
        """Do what comes afterwards."""
        if self.then is not None:
            self.then(self.result)
