"""The owner of one session: follows its log and carries its runs out, one at a time.

Everything that it does follows from the log. A stop, a steer or an answer reaches it because it is on the
log; after a crash it reads the same log and goes on.
"""

import asyncio
import logging
from dataclasses import dataclass

from holdfast import events as e
from holdfast.agent.loop import Outcome, run_agent
from holdfast.agent.runlog import RunLog
from holdfast.agent.view import SessionView
from holdfast.capabilities import Model
from holdfast.entries import Text, Thinking
from holdfast.interfaces import Clock, Fence, IfRunOpen, JournalError, Store
from holdfast.phases import Phase
from holdfast.run import Run
from holdfast.values import Failure

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Means:
    """What every owner works with."""

    store: Store
    model: Model
    clock: Clock
    instructions: str = ""


class SessionOwner:
    """Carries out the runs of one session until none is left."""

    def __init__(self, session_id: str, means: Means) -> None:
        self.session_id = session_id
        self.view = SessionView()
        self._means = means
        self._current: asyncio.Task[None] | None = None
        self._current_id = ""
        self._stop_cause = ""

    async def work(self) -> None:
        """Follow the log until there is nothing to run; cancelling it cancels the current run."""
        fence = await self._means.store.claim(self.session_id)
        newest = await self._means.store.last_seq(self.session_id)
        async with asyncio.TaskGroup() as tasks:
            async for records in self._means.store.follow(self.session_id):
                self.view.apply(records)
                if self.view.last_seq >= newest:
                    self._react(tasks, fence)
                    if self._current is None:
                        return

    def _react(self, tasks: asyncio.TaskGroup, fence: Fence) -> None:
        if self._current is not None and self.view.run(self._current_id).phase is Phase.ENDED:
            self._current = None
        if self._current is None:
            run = self._next_run()
            if run is not None:
                self._current_id, self._stop_cause = run.run_id, ""
                self._current = tasks.create_task(self._carry_out(run, fence), name=f"run {run.run_id}")
        if self._current is not None and self.view.run(self._current_id).phase is Phase.STOPPING:
            self._stop(self.view.run(self._current_id).stop_cause)

    def _next_run(self) -> Run | None:
        begun = self.view.session.current_run
        if begun is not None:
            return begun
        if self.view.session.queue_paused:
            return None
        return next(iter(self.view.session.open_runs), None)

    def _stop(self, cause: str) -> None:
        assert self._current is not None
        if not self._stop_cause:
            self._stop_cause = cause
            self._current.cancel(cause)

    async def _carry_out(self, run: Run, fence: Fence) -> None:
        run_id, means = run.run_id, self._means
        async with RunLog(means.store, means.clock, run=(self.session_id, run_id), fence=fence) as log:
            try:
                outcome = await self._outcome(run, log)
                await self._end(log, outcome, fence)
            except JournalError as error:
                # Nothing was shown that is not on disk; the next start goes on from there.
                _log.error("run %s cannot be written and rests until the next start: %s", run_id, error)
                raise

    async def _outcome(self, run: Run, log: RunLog) -> Outcome:
        try:
            self._begin(run, log)
            await self.view.settled(log)
            return await run_agent(
                self.view, log, model=self._means.model, instructions=self._means.instructions
            )
        except asyncio.CancelledError:
            if not self._stop_cause:
                raise
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
            await log.settled()
            return Outcome("cancelled", cause=self._stop_cause)
        except JournalError:
            raise
        except Exception as error:  # noqa: BLE001  # a bug of ours must end the run truthfully, not hang it
            _log.exception("run %s met a bug of ours", run.run_id)
            failure = Failure(kind="local_bug", text=f"Holdfast itself failed: {error!r}", rule="exception")
            return Outcome("failed", cause="local_bug", failure=failure)

    def _begin(self, run: Run, log: RunLog) -> None:
        now_ms = log.now_ms()
        if run.phase is Phase.QUEUED:
            log.emit(e.MessageDispatched(at_ms=now_ms, run_id=run.run_id, message_id=run.message_id))
            log.emit(e.RunStarted(at_ms=now_ms, run_id=run.run_id))
            return
        log.emit(e.RunResumed(at_ms=now_ms, run_id=run.run_id, after="restart"))
        if run.attempt_is_open:
            log.emit(e.AttemptSuperseded(at_ms=now_ms, run_id=run.run_id, attempt_id=run.attempt_id))
        spoken = [
            x.segment for x in self.view.transcript.runs[run.run_id].entries if isinstance(x, Text | Thinking)
        ]
        log.begin_segments_after(max(spoken, default=0))

    async def _end(self, log: RunLog, outcome: Outcome, fence: Fence) -> None:
        ended = e.RunEnded(
            at_ms=log.now_ms(),
            run_id=log.run_id,
            outcome=outcome.kind,
            cause=outcome.cause,
            failure=outcome.failure,
            trace=outcome.trace,
        )
        # Declined means that the run has its ending already: the first one stands.
        await self._means.store.append_run(
            self.session_id, [ended], fence=fence, when=[IfRunOpen(log.run_id)]
        )
