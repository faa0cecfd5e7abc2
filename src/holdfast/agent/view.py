"""A session as its owner sees it: the folds of its log, kept up to date by following it."""

import asyncio
from collections.abc import Callable, Sequence

from holdfast.agent.runlog import RunLog
from holdfast.folds import session, transcript
from holdfast.folds.phases import Phase
from holdfast.folds.run import Run
from holdfast.folds.session import Session
from holdfast.folds.transcript import Transcript
from holdfast.interfaces.journal import Journal, Record

READ_AT_ONCE = 64  # what is folded in one go holds up nobody, nor fills the memory


class SessionView:
    """State and transcript of one session, as far as the log was followed.

    Whoever shares it may bring it up to date; what was taken in before has no effect.
    """

    def __init__(self) -> None:
        self.session = Session()
        self.transcript = Transcript()
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    @property
    def last_seq(self) -> int:
        """How far the log was followed."""
        return self.session.last_seq

    def run(self, run_id: str) -> Run:
        """The run's state."""
        return self.session.runs[run_id]

    def apply(self, records: Sequence[Record]) -> None:
        """Take in what was committed, and wake those who waited for it."""
        for record in records:
            event = record.event
            session.apply(self.session, record.seq, event)
            transcript.apply(self.transcript, record.seq, event)
        for waiter in self._waiters:
            condition, future = waiter
            if not future.done() and condition():
                future.set_result(None)
        self._waiters = [waiter for waiter in self._waiters if not waiter[1].done()]

    async def catch_up(self, journal: Journal, session_id: str) -> None:
        """Read on until everything that is on the log now is part of this view."""
        newest = await journal.last_seq(session_id)
        while self.last_seq < newest:
            records = await journal.read(session_id, after=self.last_seq, limit=READ_AT_ONCE)
            if not records:
                return
            self.apply(records)

    def when(self, condition: Callable[[], bool]) -> asyncio.Future[None]:
        """Done once the log makes the condition true; whoever does not want to know any more cancels it."""
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

    async def wanted(self, run_id: str) -> None:
        """Return at once, or never once the run's stop is on the log: the cancelling of it is on its way."""
        if self.run(run_id).phase is Phase.STOPPING:
            await asyncio.get_running_loop().create_future()

    async def settled(self, log: RunLog) -> None:
        """Wait until all that the run said is on disk and part of this view."""
        await log.settled()
        if self.last_seq < log.last_seq:
            await self.catch_up(log.journal, log.session_id)
