"""A session as its owner sees it: the folds of its log, kept up to date by following it."""

import asyncio
from collections.abc import Sequence

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
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

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
        reached = [waiter for waiter in self._waiters if waiter[0] <= self.last_seq]
        self._waiters = [waiter for waiter in self._waiters if waiter[0] > self.last_seq]
        for _, future in reached:
            if not future.done():
                future.set_result(None)

    async def reached(self, seq: int) -> None:
        """Wait until the log was followed up to `seq`."""
        if self.last_seq < seq:
            future = asyncio.get_running_loop().create_future()
            self._waiters.append((seq, future))
            await future

    async def settled(self, log: RunLog) -> None:
        """Wait until all that the run said is on disk and part of this view."""
        await log.settled()
        await self.reached(log.last_seq)
