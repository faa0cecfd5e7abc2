"""The one fold of a session that its owner and all its readers share, kept up to date from the log."""

import asyncio
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from holdfast.agent.runlog import RunLog
from holdfast.folds.context import KeptContext
from holdfast.folds.phases import Phase
from holdfast.folds.rows import QUIET
from holdfast.folds.run import Run
from holdfast.folds.session_fold import RunFold, SessionFold
from holdfast.interfaces.journal import Journal, Record
from holdfast.messages import Message

READ_AT_ONCE = 64  # bounds how long one step blocks the event loop, and how many records are in memory


class FoldListener(Protocol):
    """Is told about the fold after each record."""

    def applied(self, record: Record) -> None:
        """Called when the fold includes this record and none after it; must not raise."""
        ...


class SharedFold:
    """The fold of one session; only this class applies records to it, each once.

    Anyone may offer records, so the fold is never behind its fastest reader. Everything else that it exposes
    is read-only.
    """

    def __init__(self) -> None:
        self._fold = fold = SessionFold()
        self._context = KeptContext()
        self.session = fold.session
        self.transcript = fold.transcript
        self.runs: Mapping[str, RunFold] = fold.runs  # by id
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._listeners: list[weakref.ref[FoldListener]] = []
        self._failure: Exception | None = None
        self.bytes = 0  # of the applied records, about the size of the fold
        self.last_seq = 0  # the newest record in the fold

    @property
    def is_broken(self) -> bool:
        """Whether a record couldn't be applied; it may be applied in part, so nothing can follow it."""
        return self._failure is not None

    def run(self, run_id: str) -> Run:
        """The run's state."""
        return self.session.runs[run_id]

    def context(self, run_id: str) -> tuple[Message, ...]:
        """The messages for the run's next model call."""
        return self._context.messages(self.transcript, run_id)

    def listen(self, listener: FoldListener) -> None:
        """Tell the listener about each record from now on; this keeps only a weak reference to it."""
        self._listeners.append(weakref.ref(listener, self._listeners.remove))

    def apply(self, records: Sequence[Record], *, after: int) -> None:
        """Apply the new ones among these records, which follow `after` in the log, and wake waiting tasks.

        `after` must not be beyond `last_seq`, or records would be missing from the fold. An error is raised
        here and in every waiting task, now and later: the fold stays as it is.
        """
        assert after <= self.last_seq, "records are missing"
        if self._failure is not None:
            self._raise_failure()
        try:
            self._apply(records)
        except Exception as error:
            self._fail(error)
            raise

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure.with_traceback(None)

    def _fail(self, error: Exception) -> None:
        self._failure = error
        for _, future in self._waiters:
            if not future.done():
                future.set_exception(error)
                future.exception()  # a task that no longer waits doesn't have to look
        self._waiters.clear()

    def _apply(self, records: Sequence[Record]) -> None:
        fold = self._fold
        is_news = False
        for record in records:
            if record.seq <= self.last_seq:
                continue
            event = record.event
            fold.apply(record.seq, event)
            self.last_seq = record.seq
            is_news |= type(event) not in QUIET
            self.bytes += len(record.body)
            for reference in tuple(self._listeners):
                if (listener := reference()) is not None:
                    listener.applied(record)
        if is_news and self._waiters:
            self._wake()

    def _wake(self) -> None:
        for condition, future in self._waiters:
            if not future.done() and condition():
                future.set_result(None)
        self._waiters = [waiter for waiter in self._waiters if not waiter[1].done()]

    async def catch_up(self, journal: Journal, session_id: str) -> None:
        """Read until the fold includes everything that is now in the log."""
        newest = await journal.last_seq(session_id)
        while (after := self.last_seq) < newest:
            records = await journal.read(session_id, after=after, limit=READ_AT_ONCE)
            if not records:
                return
            self.apply(records, after=after)

    def when(self, condition: Callable[[], bool]) -> asyncio.Future[None]:
        """A future that is done once the log makes the condition true; cancel it if you no longer need it.

        A condition must not depend on deltas: it is checked only after other events. The future fails if a
        record can't be applied.
        """
        self._raise_failure()
        future = asyncio.get_running_loop().create_future()
        if condition():
            future.set_result(None)
        else:
            self._waiters.append((condition, future))
        return future

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the log makes the condition true."""
        if not condition():
            await self.when(condition)

    async def block_if_stopping(self, run_id: str) -> None:
        """Return immediately, or never if the run's stop is in the log: its cancellation is on the way."""
        if self.run(run_id).phase is Phase.STOPPING:
            await asyncio.get_running_loop().create_future()

    async def flush(self, log: RunLog) -> None:
        """Wait until everything that the run said is on disk and in the fold."""
        await log.flush()
        if self.last_seq < log.last_seq:
            await self.catch_up(log.journal, log.session_id)
