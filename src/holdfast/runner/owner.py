"""The owner of one session: follows its log and executes its runs, one at a time.

Everything it does follows from the log. A stop, a steer or an answer reaches it through the log, and after a
crash it reads the same log and continues.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial

from msgspec.structs import replace

from holdfast import events as e
from holdfast.agent.asks import Asks
from holdfast.agent.capabilities import missing, names_in, needs_of
from holdfast.agent.children import Children, append, passing_on, tell_parent
from holdfast.agent.deps import AgentDeps, in_flight
from holdfast.agent.loop import run_agent
from holdfast.agent.policy import mode_limit
from holdfast.agent.run_hooks import after_turn, ending
from holdfast.agent.runlog import RunLog, Unwritable
from holdfast.agent.running_call import stopped
from holdfast.agent.shared_fold import SharedFold
from holdfast.events.modes import mode_set
from holdfast.folds.asks import calls_of, withdrawn
from holdfast.folds.entries import Text, Thinking
from holdfast.folds.inputs import MessageState, SessionMessage
from holdfast.folds.phases import Phase
from holdfast.folds.run import Run
from holdfast.folds.session import Session
from holdfast.interfaces.feature import RunContext
from holdfast.interfaces.ids import begin_work, new_run_id
from holdfast.interfaces.journal import (
    Fence,
    HomedElsewhere,
    IfAskOpen,
    IfRunOpen,
    IfSessionKnown,
    JournalError,
    MissingCapability,
)
from holdfast.journal.retrying_append import RetryingAppend
from holdfast.racing import is_about
from holdfast.runner.claims import release
from holdfast.runner.owner_resources import SUSPECT_FROM, OwnerResources
from holdfast.runner.slots import Slot
from holdfast.values import (
    PARENT_GONE,
    PARENT_STOPPED,
    WORKSPACE_MODES,
    Failure,
    Outcome,
    RunSettings,
    asks_less,
)

_log = logging.getLogger(__name__)

RESUMPTIONS_MAX = 3
AFTER_TURN_S = 5.0  # how long each feature's work after the last turn can delay the end of a run


class SessionOwner:
    """Executes the runs of one session until none is left."""

    def __init__(self, session_id: str, deps: AgentDeps, shared: OwnerResources, *, view: SharedFold) -> None:
        self.session_id = session_id
        self.view = view
        self.handled_seq = 0  # the last seq that it has handled
        self.enqueued_seq = 0  # each run up to this seq is in the queue, or waits for something else
        self._deps = deps
        self._shared = shared
        self._current: asyncio.Task[None] | None = None
        self._current_id = ""
        self._slot = Slot(shared.slots, "")
        self._is_working = self._is_ending = False
        self._stop_cause = ""
        self._settling: set[str] = set()
        self._only_settles = False  # the session's files are where this node can't reach them
        self._is_telling = False  # the parent of a sub-agent is being told how it ended
        self.logs: dict[str, RunLog] = {}

    async def work(self) -> None:
        """Own the session until there is nothing to run; cancelling it cancels the current run.

        A session whose run can't be saved stays with this node until it ends, because no other node could
        save it either.
        """
        begin_work(session=self.session_id)
        self.view = await self._shared.folds.current(self._deps.store, self.session_id)
        fence = await self._claim()
        try:
            await self._follow_log(fence)
        except asyncio.CancelledError:
            await release(self._deps.store, self.session_id, fence)
            raise
        await release(self._deps.store, self.session_id, fence)

    async def _claim(self) -> Fence:
        """Claim the session; one whose files are elsewhere only to end runs that were stopped."""
        store = self._deps.store
        try:
            await self._insist_on_offers()
            return await store.claim(self.session_id)
        except (HomedElsewhere, MissingCapability):
            await self.view.catch_up(store, self.session_id)
            session = self.view.session
            if not (session.owes_ending or any(self._is_over(run) for run in session.open_runs)):
                raise
            self._only_settles = True
            return await store.claim(self.session_id, to_settle=True)

    async def _insist_on_offers(self) -> None:
        """Raise MissingCapability if this node lacks what an open run needs; another one may have it."""
        store = self._deps.store
        if needs := self._shared.absent_features.get(self.session_id):
            raise MissingCapability((needs,))
        if not store.node.offers:
            return
        await self.view.catch_up(store, self.session_id)
        runs = [run for run in self.view.session.open_runs if run.phase is not Phase.STOPPING]
        if not any(run.settings.model or run.unfinished_tools for run in runs):
            return
        offered = names_in(offer for node in await store.nodes() for offer in node.offers)
        if lacking := missing(needs_of(runs, offered=offered), store.node.offers):
            raise MissingCapability(tuple(sorted(lacking)))

    async def _follow_log(self, fence: Fence) -> None:
        """Do what the log asks for until there is nothing to do."""
        store = self._deps.store
        await self.view.catch_up(store, self.session_id)
        async with asyncio.TaskGroup() as tasks:
            after = self.view.last_seq
            following = store.follow(self.session_id, after=after, pace="seldom")
            if not await self._handle_log(tasks, fence):
                return
            async for records in following:
                self.view.apply(records, after=after)
                after = records[-1].seq
                if not await self._handle_log(tasks, fence):
                    return

    @property
    def is_safe_to_stop(self) -> bool:
        """Whether stopping now loses nothing: everything that was started has its end on the log."""
        if self._settling or self._is_telling:
            return False
        if self._current is None or not self._is_working:
            return True
        run = self.view.run(self._current_id)
        log = self.logs.get(run.run_id)
        if run.phase is not Phase.RUNNING or in_flight(run) or log is None or not log.is_flushed:
            return False
        is_between_attempts = bool(run.call_id) and run.finish is None
        is_waiting = bool(run.open_asks) or run.waits_for_children
        return run.run_id in self._deps.drain.waiting or is_waiting or is_between_attempts

    async def _handle_log(self, tasks: asyncio.TaskGroup, fence: Fence) -> bool:
        """Do what the log asks for; False if there is nothing more to do."""
        seq = self.view.last_seq
        has_more = await self._start_and_stop_runs(tasks, fence)
        for run_id in self.view.session.open_ids:
            if run_id != self._current_id or self._slot.is_requested:
                self._shared.slots.remove_pending(run_id)
        self.enqueued_seq = seq
        return has_more

    async def _start_and_stop_runs(self, tasks: asyncio.TaskGroup, fence: Fence) -> bool:
        session = self.view.session
        self.handled_seq = self.view.last_seq
        if self._current is not None and session.runs[self._current_id].phase is Phase.ENDED:
            self._current = None
        self._settling = {id_ for id_ in self._settling if session.runs[id_].phase is not Phase.ENDED}
        for run in session.open_runs:
            if self._is_over(run) and run.run_id not in self._settling:
                self._settling.add(run.run_id)
                tasks.create_task(self._settle(run, fence), name=f"settle {run.run_id}")
        if self._is_telling and session.parent_told:
            self._is_telling = False
        if session.owes_ending and not self._is_telling:
            self._is_telling = True
            telling = tell_parent(self._deps, self.session_id, self.view)
            tasks.create_task(telling, name=f"tell the parent of {self.session_id}")
        is_busy = bool(self._settling) or self._is_telling
        if self._only_settles:
            return is_busy
        if self._current is None:
            return await self._start_next(tasks, fence) or is_busy
        run = session.runs[self._current_id]
        if _is_waiting(run):
            self._slot.release()
        else:
            self._slot.reacquire()
        if run.phase is Phase.STOPPING and not self._stop_cause and not self._is_ending:
            self._stop_cause = run.stop_cause
            self._current.cancel(run.stop_cause)
        return True

    def _is_over(self, run: Run) -> bool:
        """Return whether the run has no task and isn't needed, so that only its ending is missing."""
        if self._current is not None and run.run_id == self._current_id:
            return False
        message = self.view.session.inbox.messages[run.message_id]
        # A removed message needs no run, and a message that was retried twice needs only the newest one.
        is_needless = message.state is MessageState.REMOVED or message.run_id != run.run_id
        return run.phase is Phase.STOPPING or (run.phase is Phase.QUEUED and is_needless)

    async def _start_next(self, tasks: asyncio.TaskGroup, fence: Fence) -> bool:
        session = self.view.session
        if any(self.view.run(run_id).started_ms for run_id in self._settling):
            return True  # one run at a time, and an earlier process may have left something of this one
        run = next((run for run in session.open_runs if run.phase is Phase.RUNNING), None)
        if run is None:
            message = self._next_message()
            if message is None:
                return False
            run = session.runs.get(message.run_id)
            if run is None or run.phase is Phase.ENDED:
                # A steer that came too late for its run gets a new run.
                await self._queue_run(message, fence)
                return True
        self._current_id, self._stop_cause = run.run_id, ""
        self._slot = Slot(self._shared.slots, run.run_id, key=run.api_key)
        self._is_working = self._is_ending = False
        self._current = tasks.create_task(self._execute(run, fence), name=f"run {run.run_id}")
        # A stop may be next: a task that is cancelled before its first step would never end the run.
        await asyncio.sleep(0)
        return True

    def _next_message(self) -> SessionMessage | None:
        """The next message of the queue; a pause holds those that were waiting then, not those sent later."""
        session = self.view.session
        queue = (session.inbox.messages[message_id] for message_id in session.inbox.queue)
        waiting = (m for m in queue if m.run_id not in self._settling and not session.holds(m))
        return next(waiting, None)

    async def _queue_run(self, message: SessionMessage, fence: Fence) -> None:
        run = await self._run_sent_to(message)
        settings = RunSettings() if run is None else replace(run.settings, on_disconnect="", purpose="answer")
        queued = e.RunQueued(
            at_ms=self._deps.clock.now_ms(),
            run_id=new_run_id(),
            message_id=message.message_id,
            settings=settings,  # of the other run, but this one answers, to no client
            key="" if run is None else run.api_key,
        )
        # Its storage was confirmed to the sender, so wait if the store accepts no writes now.
        run_of = (self.session_id, queued.run_id)
        late = RetryingAppend(
            self._deps.store, self._deps.clock, run=run_of, fence=fence, last_seq=self.view.last_seq
        )
        await late.append([queued])
        # Applied before the queue is read again, or the message would get a second run.
        await self.view.catch_up(self._deps.store, self.session_id)

    async def _run_sent_to(self, message: SessionMessage) -> Run | None:
        """The run that the message was sent to."""
        said = await self._deps.store.read(self.session_id, after=message.seq - 1, limit=1)
        ids = [record.event.run_id for record in said if isinstance(record.event, e.MessageAccepted)]
        return self.view.session.runs.get(ids[0]) if ids else None

    async def _settle(self, run: Run, fence: Fence) -> None:
        await self._shared.orphans.end(run)
        async with self._run_log(run, fence) as log:
            await self._end(run, log, Outcome("cancelled", cause=run.stop_cause or "removed"))

    async def _execute(self, run: Run, fence: Fence) -> None:
        begin_work(session=self.session_id, run=run.run_id)
        relaying = passing_on(self._deps, self.session_id, run, self.view)
        async with relaying, self._run_log(run, fence) as log:
            self.logs[run.run_id] = log
            try:
                outcome = await self._outcome(run, log)
                # From here on a stop is too late: if cancelled now, the run would have no ending.
                self._is_ending = True
                await self._end(run, log, outcome)
            except JournalError as error:
                # Nothing was shown that is not on disk; the next start continues from there.
                _log.error(
                    "run %s can't be saved, so it is paused until the next start: %s", run.run_id, error
                )
                raise
            finally:
                del self.logs[run.run_id]
                self._shared.slots.remove_pending(run.run_id)

    def _run_log(self, run: Run, fence: Fence) -> RunLog:
        deps = self._deps
        run_of = (self.session_id, run.run_id)
        log = RunLog(deps.store, deps.clock, run=run_of, fence=fence, secrets=deps.secrets, spool=deps.spool)
        log.batcher = self._shared.batcher
        entries = self.view.transcript.runs[run.run_id].entries
        spoken = [entry.segment for entry in entries if isinstance(entry, Text | Thinking)]
        log.continue_after(self.view.last_seq, segment=max(spoken, default=0))
        return log

    async def _outcome(self, run: Run, log: RunLog) -> Outcome:
        try:
            if await self._is_orphaned(run):
                return Outcome("cancelled", cause=PARENT_GONE)
            await self._limit_mode(run)
            if run.phase is Phase.QUEUED:
                return await self._begin(run, log)
            return await self._resume(run, log)
        except asyncio.CancelledError:
            if not self._stop_cause:
                raise
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
            return Outcome("cancelled", cause=self._stop_cause)
        except Exception as error:  # a bug of ours must end the run as failed, not hang it
            if is_about(error, (JournalError,)):
                raise
            _log.exception("run %s failed because of a bug in Holdfast", run.run_id)
            return _bug_outcome(error)

    async def _is_orphaned(self, run: Run) -> bool:
        """Whether it works for a parent whose session is deleted."""
        parent = self.view.session.parent
        if parent is None or run is not self.view.session.delegated_run:
            return False
        row = await self._deps.store.session(parent.session_id)
        return row is None or row.purge_at_ms > 0

    async def _limit_mode(self, run: Run) -> None:
        """Before a run of a sub-agent's session, make its mode at least as strict as its parent's is now.

        That may have become stricter since the session's last run, or just before a crash.
        """
        session, judge = self.view.session, self._deps.judge
        if session.parent is None:
            return
        folder = run.settings.workspace
        is_elsewhere = session.approval_mode in WORKSPACE_MODES and folder != session.mode_workspace
        mode = judge.in_mode("" if is_elsewhere else session.approval_mode).applied_mode()
        limit = await mode_limit(judge, session, self._state_of)
        if asks_less(mode, limit):
            chosen = mode_set(limit, at_ms=self._deps.clock.now_ms(), by="", workspace=folder)
            await append(self._deps, self.session_id, [chosen], when=[IfSessionKnown()])
            await self.view.catch_up(self._deps.store, self.session_id)

    async def _state_of(self, session_id: str) -> Session:
        view = await self._shared.folds.current(self._deps.store, session_id)
        await view.catch_up(self._deps.store, session_id)
        self._shared.folds.count(session_id)
        return view.session

    async def _begin(self, run: Run, log: RunLog) -> Outcome:
        log.live = partial(self._shared.queued_line, run.run_id)
        async with self._slot:
            log.live = None
            await self._pass_drain_gate(run)
            now_ms = log.now_ms()
            log.emit(e.MessageDispatched(at_ms=now_ms, run_id=run.run_id, message_id=run.message_id))
            settings = self.view.session.started_settings(run)
            log.emit(e.RunStarted(at_ms=now_ms, run_id=run.run_id, settings=settings))
            if settings is not None:
                await self.view.flush(log)  # the run reads its settings from the log
            return await run_agent(self.view, log, self._deps)

    async def _resume(self, run: Run, log: RunLog) -> Outcome:
        """Continue after a crash or a restart, but not endlessly."""
        # First, because processes that it left would keep running even if the run ends here.
        await self._shared.orphans.end(run)
        if (run.settings.on_restart or self._shared.on_restart) == "interrupt":
            return Outcome("interrupted", cause="restart")
        if run.resumptions_without_progress >= RESUMPTIONS_MAX:
            return Outcome("interrupted", cause="crash_loop")
        log.live = partial(self._shared.queued_line, run.run_id)
        if run.resumptions_without_progress < SUSPECT_FROM:
            async with self._slot:
                return await self._continue(run, log)
        # One of these may crash the server; alone, it takes no other run down with it.
        async with self._hold_suspect_slot(run), self._slot:
            return await self._continue(run, log)

    @asynccontextmanager
    async def _hold_suspect_slot(self, run: Run) -> AsyncGenerator[None]:
        """Keep other suspects waiting until this one completes something, waits itself, or its time is up."""
        suspects = self._shared.suspects
        await suspects.acquire(run.run_id)

        async def clear() -> None:
            try:
                await self._until_unsuspected(run)
            finally:
                await suspects.release()

        clearing = asyncio.create_task(clear())
        try:
            # A task that is cancelled before its first step would never release the turn.
            await asyncio.sleep(0)
            yield
        finally:
            clearing.cancel()
            await asyncio.wait([clearing])

    async def _until_unsuspected(self, run: Run) -> None:
        """Return once the suspect has resumed and no longer has to keep others waiting."""
        tried = run.resumptions
        await self.view.until(lambda: run.resumptions > tried)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._shared.suspect_alone_s):
                await self.view.until(
                    lambda: not run.resumptions_without_progress or run.only_waits or _is_waiting(run)
                )

    async def _pass_drain_gate(self, run: Run) -> None:
        """Wait here if the server is draining; after that, the run works."""
        await self._deps.drain.checkpoint(run.run_id)
        self._is_working = True

    async def _continue(self, run: Run, log: RunLog) -> Outcome:
        log.live = None
        await self._pass_drain_gate(run)
        after = self._cause_of_resumption(run, log.fence)
        log.emit(e.RunResumed(at_ms=log.now_ms(), run_id=run.run_id, after=after))
        log.resumed = True
        if run.attempt_id and run.finish in {None, "failed"}:
            # The call has no answer, so its output so far doesn't count.
            log.emit(e.AttemptSuperseded(at_ms=log.now_ms(), run_id=run.run_id, attempt_id=run.attempt_id))
        return await run_agent(self.view, log, self._deps)

    def _cause_of_resumption(self, run: Run, fence: Fence) -> str:
        if fence.crashed is None:
            return self._shared.crash_history.cause_of(run.taken_up_ms)
        return "crash" if fence.crashed else "restart"

    async def _end(self, run: Run, log: RunLog, outcome: Outcome) -> None:
        """Close what is open, then append the ending; it's declined if the run has one already."""
        if outcome.kind == "completed" and not (run.tools or run.asks or run.children):
            with suppress(Unwritable):
                await self._append_ending(run, log, outcome)
                return
        outcome = await self._close(run, log, outcome)
        await self._append_ending(run, log, outcome)

    async def _append_ending(self, run: Run, log: RunLog, outcome: Outcome) -> None:
        ended = e.RunEnded(
            at_ms=log.now_ms(),
            run_id=run.run_id,
            outcome=outcome.kind,
            cause=outcome.cause,
            failure=outcome.failure,
            trace=outcome.trace,
            refused_actions=run.refused_actions,
        )
        await log.end(ended, when=[IfRunOpen(run.run_id)])

    async def _close(self, run: Run, log: RunLog, outcome: Outcome) -> Outcome:
        """End what the run has open; returns the outcome, which is a failure if an event can't be written."""
        try:
            await log.flush()
        except Unwritable as error:
            log.drop_unwritable()
            outcome = _bug_outcome(error)
            # Some of it may be on the log all the same, and nothing may end twice.
            await self.view.catch_up(self._deps.store, self.session_id)
        await self.view.flush(log)
        await self._end_children(run, log, outcome)
        now_ms = log.now_ms()
        for call in run.unfinished_tools:
            result = stopped(begun=call.started is not None)
            log.emit(
                e.ToolEnded(
                    at_ms=now_ms,
                    run_id=run.run_id,
                    tool_call_id=call.asked.tool_call_id,
                    ok=False,
                    result=result.text,
                    ending=result.ending,
                )
            )
        await self.view.flush(log)
        context = RunContext(self.view, log, Asks(self.view, log, self._deps), self._deps)
        await after_turn(context, seconds=AFTER_TURN_S)
        await ending(context, outcome, seconds=AFTER_TURN_S)
        for ask_id, ask in run.asks.items():
            if ask.state == "open":
                closing = withdrawn(ask.asked, now_ms, cause=outcome.cause or outcome.kind)
                # A person may answer at the same time; then there is nothing to withdraw.
                await log.append([closing], when=[IfAskOpen(ask_id)])
        return outcome

    async def _end_children(self, run: Run, log: RunLog, outcome: Outcome) -> None:
        """Stop the sub-agents that mustn't outlive the run, and wait for their endings.

        Their answers are no longer needed, so none of them starts a run.
        """
        is_stop = outcome.kind == "cancelled"
        is_child = self.view.session.parent is not None
        ending = [
            child
            for child in run.open_children
            if is_child or not child.started.background or (is_stop and not child.started.outlives)
        ]
        children = Children(self.session_id, self.view, self._deps)
        await children.stopped(ending, cause=PARENT_STOPPED)
        await children.give_up_uncreated(run.run_id)
        if not is_stop:
            return
        kept = {id_ for id_, child in run.children.items() if child.started.outlives}
        for message in self.view.session.inbox.steers(run.run_id):
            if message.child and message.child not in kept:
                now_ms = log.now_ms()
                await log.append([e.MessageRemoved(at_ms=now_ms, message_id=message.message_id)])


def _is_waiting(run: Run) -> bool:
    """Whether the run only waits for a person, its sub-agents, or a time that a provider asked for."""
    if run.phase is not Phase.RUNNING or run.attempt_is_open:
        return False
    if not (run.gate_until_ms > 0 or run.only_waits):
        return False
    asking = {tool_call_id for ask in run.open_asks for tool_call_id in calls_of(ask.asked)}
    return all(tool.asked.tool_call_id in asking for tool in run.busy_tools)


def _bug_outcome(error: Exception) -> Outcome:
    failure = Failure(kind="local_bug", text=f"Holdfast itself failed: {error!r}", rule="exception")
    return Outcome("failed", cause="local_bug", failure=failure)
