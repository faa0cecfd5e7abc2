"""The supervisor: owns every task that runs a run, so that nothing outlives the server."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

from holdfast.agent.deps import AgentDeps
from holdfast.agent.policy import Judge
from holdfast.agent.runlog import BEAT_S, DeltaBatcher
from holdfast.agent.shared_fold import SharedFold
from holdfast.folds.rows import RunRow, RunStatus
from holdfast.interfaces.journal import Index, JournalError, RunQuery
from holdfast.journal.retrying_append import ready
from holdfast.runner.loop_lag import LoopLag
from holdfast.runner.owner import QueuePosition, RunnerShared, SessionOwner
from holdfast.runner.shared_folds import SharedFolds
from holdfast.runner.slots import Slots
from holdfast.runner.titles import Titles
from holdfast.values import OnRestart

_log = logging.getLogger(__name__)
DRAIN_POLL_S = 0.02  # how often a drain looks who is at rest


@dataclass(frozen=True, slots=True)
class RunnerLimits:
    """How much runs at once, what becomes of runs that a restart interrupted, how long a drain may take."""

    runs_max: int = 64
    on_restart: OnRestart = "resume"
    drain_s: float = 10.0
    resume_runs: Literal["all", "asked"] = "all"  # with what a restart interrupted: all of it, or on request
    delta_beat_s: float = BEAT_S  # how long deltas of different runs wait to share a commit
    suspect_alone_s: float = 60.0  # how long a run that may have crashed us keeps others like it waiting


class Supervisor:
    """Starts an owner for each session that has something to run; an async context manager.

    Leaving it cancels what still runs; the next start resumes it. `drain` before that lets runs come to a
    safe point. `lag` says how late the event loop is.
    """

    def __init__(self, deps: AgentDeps, limits: RunnerLimits | None = None) -> None:
        self._deps = deps
        self._limits = limits or RunnerLimits()
        slots = Slots(self._limits.runs_max)
        self._shared = RunnerShared(
            slots,
            suspect_alone_s=self._limits.suspect_alone_s,
            on_restart=self._limits.on_restart,
            batcher=DeltaBatcher(beat_s=self._limits.delta_beat_s),
        )
        self._owners: dict[str, tuple[SessionOwner, asyncio.Task[None]]] = {}
        self._wanted: dict[str, int] = {}  # session -> the newest seq that someone must have seen
        self._shared_folds = SharedFolds()
        self._titles = Titles(deps)
        self.lag = LoopLag()
        self._lag_task: asyncio.Task[None] | None = None
        self._resume_task: asyncio.Task[None] | None = None
        self._is_started = False  # from then on owners are started

    async def __aenter__(self) -> Self:
        self._lag_task = asyncio.create_task(self.lag.run(), name="watch the loop")
        self._resume_task = asyncio.create_task(self._resume_runs(), name="go on")
        if self._deps.store.trouble is None:
            try:
                await self._resume_task
            except BaseException:
                self._lag_task.cancel()  # nobody leaves what was not entered
                raise
        else:
            # Reading works meanwhile; what a crash interrupted goes on once the store takes writes.
            self._resume_task.add_done_callback(_log_resume_failure)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = [task for _, task in self._owners.values()]
        tasks += [task for task in (self._lag_task, self._resume_task) if task is not None]
        for task in tasks:
            task.cancel("shutdown")
        if tasks:
            await asyncio.wait(tasks)
        await self._titles.close()
        await self._record_clean_shutdown()

    async def _record_clean_shutdown(self) -> None:
        """Leave word that this was no crash, so that nobody is suspected of one."""
        try:
            await self._shared.crash_history.end(self._deps.store)
        except JournalError as error:
            _log.info("the next start will treat this shutdown as a crash: %s", error)

    async def drain(self) -> None:
        """Begin nothing more, and give what is under way some time to come to a safe point.

        Inputs are still taken: what they ask for happens after the next start.
        """
        self._deps.drain.close()
        loop, drain_s = asyncio.get_running_loop(), self._limits.drain_s
        give_up_s = loop.time() + drain_s
        if not all(owner.is_safe_to_stop for owner, _ in self._owners.values()):
            _log.warning(
                "finishing what is under way, for %g s at most; a second signal ends it now", drain_s
            )
        while self._owners and loop.time() < give_up_s:
            for owner, task in list(self._owners.values()):
                if owner.is_safe_to_stop:
                    task.cancel("shutdown")
            await asyncio.sleep(DRAIN_POLL_S)

    @property
    def judge(self) -> Judge:
        """Who decides about actions."""
        return self._deps.judge

    @property
    def has_caught_up(self) -> bool:
        """Whether all that earlier lives left is in the store."""
        return self._is_started

    def owner(self, session_id: str) -> SessionOwner | None:
        """Who owns the session now, if anyone."""
        return self._owners[session_id][0] if session_id in self._owners else None

    async def view(self, session_id: str) -> SharedFold:
        """The session's shared fold, up to date with its log."""
        view = self._shared_folds.of(session_id)
        await view.catch_up(self._deps.store, session_id)
        self._shared_folds.count(session_id)
        return view

    def known_view(self, session_id: str) -> SharedFold | None:
        """The session's shared fold as far as it was read, if there is one."""
        return self._shared_folds.known(session_id)

    def forget(self, session_id: str) -> None:
        """The session was purged: nothing that was read of it stays here."""
        self._shared_folds.forget(session_id)

    @property
    def active(self) -> int:
        """How many sessions have something to run."""
        return len(self._owners)

    @property
    def waiting(self) -> int:
        """How many of them wait for a slot."""
        return self._shared.slots.waiting

    def queue_position(self, run_id: str) -> QueuePosition | None:
        """What the run waits for before it begins or goes on; None if it waits for no turn."""
        return self._shared.queue_position(run_id)

    def reserved_place(self, *, waiting_max: int) -> AbstractContextManager[bool]:
        """Hold a place for a run while the block stores it; False if so many runs wait for one already."""
        return self._shared.slots.reserve(waiting_max=waiting_max)

    def wake_for(self, run_id: str, *, session_id: str, seq: int) -> None:
        """There is a new run on the session's log, which ends at `seq`."""
        owner = self.owner(session_id)
        if owner is None or owner.enqueued_seq < seq:  # else it was quicker than we are
            self._shared.slots.add_pending(run_id, session_id=session_id)
        self.wake(session_id, seq)

    def wake(self, session_id: str, seq: int) -> None:
        """There is something new on the session's log, up to `seq`."""
        self._wanted[session_id] = max(seq, self._wanted.get(session_id, 0))
        if self._is_started and session_id not in self._owners and not self._deps.drain.closed:
            view = self._shared_folds.of(session_id)
            owner = SessionOwner(session_id, self._deps, self._shared, view=view)
            task = asyncio.create_task(owner.work(), name=f"own {session_id}")
            self._owners[session_id] = (owner, task)
            task.add_done_callback(lambda done: self._ended(owner, done))

    def _ended(self, owner: SessionOwner, task: asyncio.Task[None]) -> None:
        session_id = owner.session_id
        del self._owners[session_id]
        wanted = self._wanted.pop(session_id, 0)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._shared_folds.forget(session_id)
            self._shared.slots.drop_pending(session_id)
            _log.error("the owner of session %s failed", session_id, exc_info=error)
            return
        self._shared_folds.keep(session_id, owner.view)
        self._titles.consider(session_id, owner.view)
        if owner.handled_seq < wanted:
            # Something came while the owner was on its way out.
            self.wake(session_id, wanted)

    async def _resume_runs(self) -> None:
        """After a restart: each run without an ending goes on, after all that its earlier life left."""
        store = self._deps.store
        await ready(store, self._deps.clock, spool=self._deps.spool)
        crash_history, now_ms = self._shared.crash_history, self._deps.clock.now_ms()
        await crash_history.load(store, now_ms)
        try:
            await crash_history.begin(store, now_ms)
        except JournalError as error:
            _log.info("the next start may treat a crash as a clean shutdown: %s", error)
        self._is_started = True
        for session_id, seq in list(self._wanted.items()):
            self.wake(session_id, seq)
        if self._limits.resume_runs == "asked":
            if crash_history.last_crashed:
                await self._end_leftovers()
            return
        async for run in open_runs(store):
            self.wake(run.session_id, run.last_seq)
        # What was said to a run that ended without hearing it waits for a run of its own.
        for session_id in await store.undelivered_steers():
            self.wake(session_id, 0)

    async def _end_leftovers(self) -> None:
        """End what a crash left of runs that nobody asked to go on with."""
        async for row in open_runs(self._deps.store):
            if row.status == "queued":
                return  # they come last, and none of them has begun
            await self._shared.orphans.end((await self.view(row.session_id)).run(row.run_id))


def _log_resume_failure(starting: asyncio.Task[None]) -> None:
    if not starting.cancelled() and (error := starting.exception()) is not None:
        _log.error("interrupted runs are not resumed: %s", error, exc_info=error)


PAGE = 200
OPEN: tuple[RunStatus, ...] = ("running", "stopping", "queued")


async def open_runs(index: Index) -> AsyncGenerator[RunRow]:
    """All of them, those that were running first."""
    for status in OPEN:
        before: tuple[int, str] | None = None
        while True:
            runs = await index.runs(RunQuery(limit=PAGE, before=before, status=status))
            for run in runs:
                yield run
            if len(runs) < PAGE:
                break
            before = (runs[-1].created_ms, runs[-1].run_id)
