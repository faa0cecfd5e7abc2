"""The supervisor: owns the tasks of all runs, so that nothing outlives the server."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Generator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

import msgspec
from msgspec import Struct

from holdfast.agent.capabilities import missing_everywhere, names_in, needs_of
from holdfast.agent.deps import AgentDeps, NewRun
from holdfast.agent.runlog import BEAT_S, DeltaBatcher
from holdfast.agent.shared_fold import SharedFold
from holdfast.catalog import FEATURES, SHIPPED, UnfinishedWork
from holdfast.codec import UnreadableEvent
from holdfast.folds.rows import RunRow, RunStatus
from holdfast.interfaces.index import Index, RunQuery
from holdfast.interfaces.journal import (
    JournalError,
    MissingCapability,
)
from holdfast.interfaces.nodes import SessionPlace
from holdfast.journal.retrying_append import PASSING, once_readable, ready
from holdfast.racing import is_about
from holdfast.runner.claims import ELSEWHERE, SESSIONS_LOOK_S, LogOwners, SessionClaims
from holdfast.runner.crash_history import CrashHistory, SuspectTurns
from holdfast.runner.orphaned_processes import OrphanedProcesses
from holdfast.runner.owner_resources import OwnerResources
from holdfast.runner.slots import Slots
from holdfast.runner.titles import Titles
from holdfast.supervision import LoopLag
from holdfast.values import OnRestart

if TYPE_CHECKING:
    from holdfast.runner.owner import SessionOwner

_log = logging.getLogger(__name__)
HOLD_UP_S = 0.25  # how long owners that the store kept from working wait at least
DRAIN_POLL_S = 0.02  # how often a drain checks which owners can stop


class RunnerLimits(Struct, frozen=True):
    """How many runs work at once, what happens to interrupted runs, how long a drain may take."""

    runs_max: int = 64
    on_restart: OnRestart = "resume"
    drain_s: float = 10.0
    resume_runs: Literal["all", "asked"] = "all"  # which interrupted runs: all, or those that are asked for
    delta_beat_s: float = BEAT_S  # how long deltas of different runs wait to share a commit
    suspect_alone_s: float = 60.0  # how long a suspect of a crash keeps other suspects waiting


class Supervisor:
    """Starts an owner for each session that has something to run; an async context manager.

    Leaving it cancels what still runs; the next start resumes it. `drain` before that lets runs reach a safe
    point. `lag` says how late the event loop is. Where several nodes share a store, each session has an owner
    on one of them, and a supervisor claims what others leave.
    """

    def __init__(self, deps: AgentDeps, limits: RunnerLimits | None = None) -> None:
        self.deps = deps
        self._limits = limits or RunnerLimits()
        slots = Slots(self._limits.runs_max)
        self.resources = OwnerResources(
            slots,
            SuspectTurns(deps.store, deps.clock, alone_s=self._limits.suspect_alone_s),
            suspect_alone_s=self._limits.suspect_alone_s,
            on_restart=self._limits.on_restart,
            crash_history=CrashHistory(deps.store.node.name),
            orphans=OrphanedProcesses(others=bool(deps.store.node.name)),
            batcher=DeltaBatcher(beat_s=self._limits.delta_beat_s),
        )
        self._owners: dict[str, SessionOwner] = {}
        self._wanted: dict[str, int] = {}  # session -> the newest seq that its owner must handle
        self._elsewhere: set[str] = set()  # sessions whose run something else in this process executes
        self._titles = Titles(deps)
        self.lag = LoopLag()
        self._lag_task: asyncio.Task[None] | None = None
        self._resume_task: asyncio.Task[None] | None = None
        self._start_task: asyncio.Task[None] | None = None
        self._claims = SessionClaims(
            deps.store, deps.clock, room=self._room, busy=self._busy, wake=lambda id_: self.wake(id_, 0)
        )
        self._tasks = LogOwners(deps.store, deps.clock, look=self._claims.look, ended=self._ended)
        self._claim_task: asyncio.Task[None] | None = None
        self._held_up: dict[str, int] = {}  # sessions whose owner ended because the store was away
        self._hold_up_task: asyncio.Task[None] | None = None
        self._is_started = False  # from then on owners are started
        deps.wakes.connect(self._wake_for_agent)

    async def __aenter__(self) -> Self:
        self._lag_task = self.deps.background.start("event loop lag", self.lag.run)
        self._resume_task = asyncio.create_task(self._resume_runs(), name="resume runs")
        if self.deps.store.trouble is None:
            try:
                await self._resume_task
            except BaseException:
                self._lag_task.cancel()  # __aexit__ isn't called if __aenter__ fails
                raise
        else:
            # Reads work meanwhile; interrupted runs are resumed once the store takes writes.
            self._resume_task.add_done_callback(_log_resume_failure)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        own = (self._lag_task, self._resume_task, self._start_task, self._hold_up_task, self._claim_task)
        tasks = [task for task in own if task is not None]
        for task in tasks:
            task.cancel("shutdown")
        await self._tasks.cancel_all("shutdown")
        if tasks:
            await asyncio.wait(tasks)
        await self._titles.close()
        await self._record_clean_shutdown()

    async def _record_clean_shutdown(self) -> None:
        """Record that this was no crash, so that no run is suspected of one."""
        try:
            await self.resources.crash_history.end(self.deps.store)
        except JournalError as error:
            _log.info("the next start will treat this shutdown as a crash: %s", error)

    async def drain(self) -> None:
        """Start nothing more, and give working runs some time to reach a safe point.

        Inputs are still accepted; they take effect after the next start.
        """
        self.deps.drain.close()
        loop, drain_s = asyncio.get_running_loop(), self._limits.drain_s
        give_up_s = loop.time() + drain_s
        if not all(owner.is_safe_to_stop for owner in self._owners.values()):
            _log.warning("finishing current work, for %g s at most; a second signal stops it now", drain_s)
        while self._owners and loop.time() < give_up_s:
            for session_id, owner in self._owners.items():
                if owner.is_safe_to_stop:
                    self._tasks.cancel(session_id, "shutdown")
            await asyncio.sleep(DRAIN_POLL_S)

    @property
    def has_caught_up(self) -> bool:
        """Whether runs are worked on: the tools are open, and the store has what earlier processes left."""
        return self._is_started

    def owner(self, session_id: str) -> "SessionOwner | None":
        """The session's owner, if it has one now."""
        return self._owners.get(session_id)

    async def place(self, session_id: str) -> SessionPlace:
        """Where the session is worked on; `owner` is empty if no node works on it."""
        store = self.deps.store
        if self.owner(session_id) is not None:
            return SessionPlace(owner=store.node.name or "this server", url=store.node.url)
        return await store.place(session_id) if store.node.name else SessionPlace()

    async def lacking(self, session_id: str) -> tuple[str, ...]:
        """Return why no running node can continue the session's runs; empty if one can."""
        store = self.deps.store
        if needs := self.resources.absent_features.get(session_id):
            return (needs,)
        if not store.node.offers:
            return ()
        runs = (await self.view(session_id)).session.open_runs
        nodes = await store.nodes()
        offered = names_in(offer for node in nodes for offer in node.offers)
        needs = needs_of(runs, offered=offered)
        return missing_everywhere(needs, nodes) if needs else ()

    async def view(self, session_id: str) -> SharedFold:
        """The session's shared fold, up to date with its log."""
        if self.owner(session_id) is None:
            view = await self.resources.folds.current(self.deps.store, session_id)
        else:
            view = self.resources.folds.of(session_id)
        await view.catch_up(self.deps.store, session_id)
        self.resources.folds.count(session_id)
        return view

    def is_busy(self, session_id: str) -> bool:
        """Whether something in this process works on the session."""
        return session_id in self._owners or session_id in self._elsewhere

    @contextmanager
    def executed_elsewhere(self, session_id: str) -> Generator[None]:
        """Start no owner for the session meanwhile: the caller executes its run, and heeds its stop."""
        self._elsewhere.add(session_id)
        try:
            yield
        finally:
            self._elsewhere.discard(session_id)
            if session_id in self._wanted:
                self.wake(session_id, self._wanted[session_id])

    @property
    def active(self) -> int:
        """How many sessions have something to run."""
        return len(self._owners)

    @property
    def waiting(self) -> int:
        """How many of them wait for a slot."""
        return self.resources.slots.waiting

    def wake_for(self, run_id: str, *, session_id: str, seq: int, key: str = "") -> None:
        """Wake the owner for a new run of the key; the session's log ends at `seq`."""
        owner = self.owner(session_id)
        if owner is None or owner.enqueued_seq < seq:  # otherwise it has seen the run already
            self.resources.slots.add_pending(run_id, session_id=session_id, key=key)
        self.wake(session_id, seq)

    def wake(self, session_id: str, seq: int) -> None:
        """Wake the session's owner, or start one: the log has new events up to `seq`."""
        self._wanted[session_id] = max(seq, self._wanted.get(session_id, 0))
        if session_id in self._elsewhere:
            return
        if self._is_started and session_id not in self._owners and not self.deps.drain.closed:
            from holdfast.runner.owner import SessionOwner  # imported by then, see _start_owners

            view = self.resources.folds.of(session_id)
            owner = self._owners[session_id] = SessionOwner(session_id, self.deps, self.resources, view=view)
            self._tasks.start(session_id, owner.work())

    def _wake_for_agent(self, session_id: str, seq: int, run: NewRun | None) -> None:
        if run is not None:
            self.wake_for(run.run_id, session_id=session_id, seq=seq, key=run.key)
        else:
            self.wake(session_id, seq)

    def _ended(self, session_id: str, task: asyncio.Task[None]) -> None:
        owner = self._owners.pop(session_id)
        wanted = self._wanted.pop(session_id, 0)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self.resources.folds.forget(session_id)
            self.resources.slots.drop_pending(session_id)
            is_shared = bool(self.deps.store.node.name)
            if (is_shared or session_id in self.resources.absent_features) and is_about(error, ELSEWHERE):
                _log.info("session %s belongs elsewhere: %s", session_id, error)
                if is_about(error, (MissingCapability,)):
                    self._claims.leave_for_now(session_id)
            elif is_about(error, PASSING):
                _log.warning("session %s waits for the store: %s", session_id, error)
                self._hold_up(session_id, wanted)
            elif isinstance(error, UnreadableEvent):
                _log.error("session %s waits for a newer Holdfast: %s", session_id, error)
                self._claims.leave_for_now(session_id)
            else:
                _log.error("the owner of session %s failed", session_id, exc_info=error)
                self._claims.leave_for_now(session_id)
            return
        self.resources.folds.keep(session_id, owner.view)
        self._titles.consider(session_id, owner.view)
        if owner.handled_seq < wanted:
            # New events came while the owner was ending.
            self.wake(session_id, wanted)

    def _room(self) -> int:
        """How many more runs could begin here."""
        return 0 if self.deps.drain.closed else self.resources.slots.free

    def _busy(self) -> Collection[str]:
        """The sessions that something in this process works on, or waits with."""
        return {*self._owners, *self._elsewhere, *self._held_up}

    def _hold_up(self, session_id: str, seq: int) -> None:
        self._held_up[session_id] = seq
        if self._hold_up_task is None or self._hold_up_task.done():
            self._hold_up_task = self.deps.background.start("wait for the store", self._wake_held_up)

    async def _wake_held_up(self) -> None:
        """Start the owners again that the store kept from working, once it accepts writes."""
        while self._held_up:
            await self.deps.clock.sleep_s(HOLD_UP_S)
            try:
                await self.deps.store.writable()
            except JournalError as error:
                _log.error("%d sessions wait for the next start: %s", len(self._held_up), error)
                return
            held_up, self._held_up = self._held_up, {}
            for session_id, seq in held_up.items():
                self.wake(session_id, seq)

    async def _resume_runs(self) -> None:
        """Resume each run without an ending, once the store has everything that earlier processes left."""
        store = self.deps.store
        await ready(store, self.deps.clock, spool=self.deps.spool)
        crash_history, now_ms = self.resources.crash_history, self.deps.clock.now_ms()
        await once_readable(lambda: crash_history.load(store, now_ms), self.deps.clock)
        try:
            await crash_history.begin(store, now_ms)
        except JournalError as error:
            _log.info("the next start may treat a crash as a clean shutdown: %s", error)
        await once_readable(self._recover_features, self.deps.clock)
        if self.deps.opened is None:
            await self._start_owners()
        else:
            self._start_task = self.deps.background.start("start runs", self._start_owners)

    async def _recover_features(self) -> None:
        """Let the features finish the work that a crash interrupted; without one, don't run its sessions."""
        store = self.deps.store
        for shipped in SHIPPED:
            feature = FEATURES.get(shipped.name)
            if not shipped.unfinished or (feature is not None and shipped.name not in self.deps.features):
                continue
            notes = await store.notes(shipped.unfinished)
            if feature is None:
                works = [msgspec.json.decode(note, type=UnfinishedWork) for note in notes.values()]
                needing = [work.session_id for work in works if work.node == store.node.name]
                self.resources.absent_features |= dict.fromkeys(needing, f"feature:{shipped.name}")
                for session_id in needing:
                    _log.error("session %s needs the absent feature %s", session_id, shipped.name)
            elif notes:
                await feature.part(feature.recover)(self.deps)

    async def _start_owners(self) -> None:
        """Work on what was asked for since the start, and on what earlier processes left."""
        if not await self.deps.until_opened():
            return
        await asyncio.to_thread(import_module, "holdfast.runner.owner")  # the agent, which takes a while
        self._is_started = True
        for session_id, seq in list(self._wanted.items()):
            self.wake(session_id, seq)
        if self._limits.resume_runs == "asked":
            if self.resources.crash_history.last_crashed:
                await once_readable(self._end_leftovers, self.deps.clock)
            return
        if self._tasks.is_shared:
            claiming = partial(self._tasks.run, every_s=SESSIONS_LOOK_S)
            self._claim_task = self.deps.background.start("session claims", claiming)
            return
        await once_readable(self._wake_unfinished, self.deps.clock)

    async def _wake_unfinished(self) -> None:
        async for run in open_runs(self.deps.store):
            self.wake(run.session_id, run.last_seq)
        # A message to a run that ended before reading it gets a new run.
        for session_id in await self.deps.store.undelivered_steers():
            self.wake(session_id, 0)

    async def _end_leftovers(self) -> None:
        """Kill leftover processes of crashed runs that won't be resumed."""
        async for row in open_runs(self.deps.store):
            if row.status == "queued":
                return  # queued runs come last, and none has started
            await self.resources.orphans.end((await self.view(row.session_id)).run(row.run_id))


def _log_resume_failure(starting: asyncio.Task[None]) -> None:
    if not starting.cancelled() and (error := starting.exception()) is not None:
        _log.error("interrupted runs are not resumed: %s", error, exc_info=error)


PAGE = 200
OPEN: tuple[RunStatus, ...] = ("running", "stopping", "queued")


async def open_runs(index: Index) -> AsyncGenerator[RunRow]:
    """All runs without an ending, those that were running first."""
    for status in OPEN:
        before: tuple[int, str] | None = None
        while True:
            runs = await index.runs(RunQuery(limit=PAGE, before=before, status=status))
            for run in runs:
                yield run
            if len(runs) < PAGE:
                break
            before = (runs[-1].created_ms, runs[-1].run_id)
