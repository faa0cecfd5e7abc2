"""The supervisor: owns every task that runs a run, so that nothing outlives the server."""

import asyncio
import logging
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

from holdfast.agent.means import AgentMeans
from holdfast.agent.policy import Judge
from holdfast.interfaces import RunQuery
from holdfast.runner.owner import Floor, SessionOwner

_log = logging.getLogger(__name__)
PAGE = 200


@dataclass(frozen=True, slots=True)
class RunnerLimits:
    """How much runs at once, and what happens to runs that a restart interrupted."""

    runs_max: int = 64
    on_restart: Literal["resume", "interrupt"] = "resume"


class Supervisor:
    """Starts an owner for each session that has something to run; an async context manager.

    Leaving it cancels what still runs; the next start resumes it.
    """

    def __init__(self, means: AgentMeans, limits: RunnerLimits | None = None) -> None:
        self._means = means
        self._limits = limits or RunnerLimits()
        self._floor = Floor(asyncio.Semaphore(self._limits.runs_max), asyncio.Lock(), self._limits.on_restart)
        self._owners: dict[str, tuple[SessionOwner, asyncio.Task[None]]] = {}
        self._wanted: dict[str, int] = {}  # session -> the newest seq that someone must have seen

    async def __aenter__(self) -> Self:
        await self._go_on()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = [task for _, task in self._owners.values()]
        for task in tasks:
            task.cancel("shutdown")
        if tasks:
            await asyncio.wait(tasks)

    @property
    def judge(self) -> Judge:
        """Who decides about actions."""
        return self._means.judge

    def owner(self, session_id: str) -> SessionOwner | None:
        """Who owns the session now, if anyone."""
        return self._owners[session_id][0] if session_id in self._owners else None

    @property
    def active(self) -> int:
        """How many sessions have something to run."""
        return len(self._owners)

    @property
    def waiting(self) -> int:
        """How many of them wait for a slot."""
        return max(0, self.active - self._limits.runs_max)

    def wake(self, session_id: str, seq: int) -> None:
        """There is something new on the session's log, up to `seq`."""
        self._wanted[session_id] = max(seq, self._wanted.get(session_id, 0))
        if session_id not in self._owners:
            owner = SessionOwner(session_id, self._means, self._floor)
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
            _log.error("the owner of session %s ended", session_id, exc_info=error)
        elif owner.view.last_seq < wanted:
            # Something came while the owner was on its way out.
            self.wake(session_id, wanted)

    async def _go_on(self) -> None:
        """After a restart: each run without an ending goes on."""
        for status in ("running", "stopping", "queued"):
            before: tuple[int, str] | None = None
            while True:
                query = RunQuery(limit=PAGE, before=before, status=status)
                runs = await self._means.store.runs(query)
                for run in runs:
                    self.wake(run.session_id, run.last_seq)
                if len(runs) < PAGE:
                    break
                before = (runs[-1].created_ms, runs[-1].run_id)
