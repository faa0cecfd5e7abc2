"""A session as its owner sees it: the folds of its log, kept up to date by following it."""

import asyncio
from collections.abc import Callable, Sequence

from holdfast import session, transcript
from holdfast.agent.runlog import RunLog
from holdfast.interfaces import Record
from holdfast.run import Run
from holdfast.session import Session
from holdfast.transcript import Transcript


class SessionView:
    """State and transcript of one session, as far as the log was followed."""

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

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the log makes the condition true."""
        if not condition():
            future = asyncio.get_running_loop().create_future()
            self._waiters.append((condition, future))
            await future

    async def settled(self, log: RunLog) -> None:
        """Wait until all that the run said is on disk and part of this view."""
        await log.settled()
        await self.until(lambda: self.last_seq >= log.last_seq)
