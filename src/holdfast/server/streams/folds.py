"""The state of runs and sessions for those who look: folds, kept for a while and brought up to date."""

from collections import OrderedDict

from holdfast.folds.rows import RunRow, run_of
from holdfast.folds.session import Session
from holdfast.folds.transcript import Transcript
from holdfast.interfaces.journal import Record, Store
from holdfast.runner.supervisor import Supervisor
from holdfast.server.streams.hermes import RunFrames

RUNS_KEPT = 128
PAGE = 64  # records of an answer have up to a megabyte, and all of a page are in memory at once


class RunFold:
    """One run as far as its log was read."""

    def __init__(self, row: RunRow) -> None:
        self.frames = RunFrames()
        self.last_seq = row.first_seq - 1
        self.terminal_seq = 0

    def add(self, record: Record, run_id: str) -> None:
        """One more record of the session's log; those of other runs only move the cursor."""
        if record.seq <= self.last_seq:
            return
        self.last_seq = record.seq
        event = record.event
        if run_of(event) == run_id:
            self.frames.add(record.seq, event)
            if not self.terminal_seq and self.frames.run and self.frames.run.outcome:
                self.terminal_seq = record.seq


class Folds:
    """Folds on demand. A run is read from its own first event; a session is asked of who runs it."""

    def __init__(self, store: Store, supervisor: Supervisor) -> None:
        self._store = store
        self._supervisor = supervisor
        self._runs: OrderedDict[str, RunFold] = OrderedDict()

    async def run(self, row: RunRow) -> RunFold:
        """The run as its log stands now; the next look goes on from there."""
        fold = self._runs.get(row.run_id)
        if fold is None:
            fold = RunFold(row)
        until = row.last_seq if row.status == "ended" else await self._store.last_seq(row.session_id)
        while fold.last_seq < until:
            records = await self._store.read(row.session_id, after=fold.last_seq, limit=PAGE)
            if not records:
                break
            for record in records:
                fold.add(record, row.run_id)
        self._runs[row.run_id] = fold
        self._runs.move_to_end(row.run_id)
        if len(self._runs) > RUNS_KEPT:
            self._runs.popitem(last=False)
        return fold

    def forget(self) -> None:
        """A session was purged: nothing that was read of it stays here."""
        self._runs.clear()

    async def session(self, session_id: str) -> tuple[Session, Transcript]:
        """State and transcript of a session as its log stands now; to be read, never changed."""
        view = await self._supervisor.view(session_id)
        return view.session, view.transcript
