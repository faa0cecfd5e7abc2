"""Background processes: they outlive the run that started them, and are found again after a restart.

Each job has three files: its state, a FIFO that it writes to, and a ring with the end of its output. The job
holds both ends of the FIFO, so that SIGPIPE does not kill it when the server dies: it blocks in a write
until a server reads again.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from holdfast.decisions.fair_shares import FairShare, with_extra
from holdfast.interfaces.tool import ToolCall
from holdfast.tools.offload import join, offload
from holdfast.tools.shell.jobs import BackgroundJob, JobState, forget_files, stored_states
from holdfast.tools.shell.marker import background, parsed
from holdfast.tools.shell.output import cleaned
from holdfast.tools.shell.process import Command
from holdfast.tools.shell.process_table import table
from holdfast.tools.shell.scope import KillPatience, MarkedProcess, find_marked

if TYPE_CHECKING:
    from holdfast.tools.shell.confined_run import ConfinedRun

_log = logging.getLogger(__name__)

JOBS_MAX = 100  # of one session
IN_ALL_SESSIONS_MAX = 400
_TITLE_CHARS_MAX = 2_000


class TooManyJobs(Exception):
    """No more background processes can be started; the text says what to do."""


class JobOutput(Struct, frozen=True, kw_only=True):
    """Part of a job's output; `until` is where to continue."""

    text: str
    since: int
    until: int


class Background:
    """All background processes of one server, by their id."""

    def __init__(
        self,
        folder: Path,
        *,
        now_ms: Callable[[], int],
        jobs_max: int = JOBS_MAX,
        in_all_sessions_max: int = IN_ALL_SESSIONS_MAX,
        kill_patience: KillPatience | None = None,
        clean: Callable[[str], str] = cleaned,
    ) -> None:
        self._folder = folder
        self._now_ms = now_ms
        self._jobs_max = jobs_max
        self._in_all_sessions_max = in_all_sessions_max
        self._kill_patience = kill_patience or KillPatience()
        self._clean = clean
        self._jobs: dict[str, BackgroundJob] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def start(self, command: Command, call: ToolCall) -> BackgroundJob:
        """Start it and return when it runs; raises TooManyJobs, or OSError if it can't be started.

        When cancelled, it leaves nothing running, because the job would be unknown.
        """
        given_up = self._given_up_for(call.session_id, call.api_key)
        marker = background(call.run_id, call.tool_call_id)
        state = JobState(
            job_id=f"job-{token_hex(4)}",
            session_id=call.session_id,
            key=call.api_key,
            marker=str(marker),
            title=command.argv[-1][:_TITLE_CHARS_MAX],
            started_at_ms=self._now_ms(),
            network=command.confinement.profile.network if command.confinement else "",
        )
        job = BackgroundJob(state, self._folder, kill_patience=self._kill_patience)
        self._jobs[state.job_id] = job  # before any wait, or two that come at once would take one place
        try:
            job.start(command.marked(marker))
            await asyncio.wait([job.started])
            job.started.result()
            await self._forget(*given_up)
        except BaseException:
            job.end_it()
            await join(job.ended, within_s=self._linger_s)
            await self._forget(job, *given_up)
            raise
        return job

    def close_after(self, job: BackgroundJob, run: "ConfinedRun") -> None:
        """Release a job's resources when it has ended, and keep its notes."""

        async def close() -> None:
            await asyncio.wait([job.ended])
            await run.close()
            job.sentences, job.advice = run.sentences, run.advice

        task = asyncio.create_task(close(), name=f"close around {job.state.job_id}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def beside(self, command: Command, *, session_id: str) -> Command:
        """The same command, in the network of the session's background processes if it has any.

        So a command reaches the server that another one started.
        """
        confinement = command.confinement
        jobs = [job.state for job in self.jobs(session_id) if job.running]
        # A network that leads somewhere was approved for its own process alone.
        pids = {state.pid for state in jobs if state.pid and state.network == "off"}
        if confinement is None or not pids:
            return command
        rows = await offload(table)
        # The started process waits outside; its child is the first process inside.
        inside = next((row.pid for row in rows if row.parent in pids and not row.is_dead), 0)
        profile = replace(confinement.profile, beside=inside)
        return replace(command, confinement=replace(confinement, profile=profile))

    def jobs(self, session_id: str) -> list[BackgroundJob]:
        """The session's jobs, oldest first, including those that have ended."""
        return [job for job in self._jobs.values() if job.state.session_id == session_id]

    def job(self, job_id: str, *, session_id: str) -> BackgroundJob | None:
        """One job of the session."""
        job = self._jobs.get(job_id)
        return job if job and job.state.session_id == session_id else None

    async def read(self, job: BackgroundJob, *, since: int, wait_s: float = 0.0) -> JobOutput:
        """Output after that many bytes; if there is none, waits up to `wait_s` for it."""
        if wait_s > 0 and job.output_bytes <= since:
            await job.news(within_s=wait_s)

        def output() -> JobOutput:
            data, start = job.read(since)
            text = self._clean(data.decode("utf-8", "replace"))  # of a megabyte, it would hold up the loop
            return JobOutput(text=text, since=start, until=start + len(data))

        return await offload(output)

    async def kill(self, job: BackgroundJob) -> None:
        """End the job and everything it started; it stays listed."""
        job.end_it()
        await join(job.ended, within_s=self._linger_s)

    def run_ids(self) -> Mapping[str, str]:
        """The run that started each job, by the job's id."""
        return {name: one.run_id for name, job in self._jobs.items() if (one := parsed(job.state.marker))}

    def session_ids(self) -> set[str]:
        """The sessions that have jobs, running or not; safe to call from any thread."""
        return {job.state.session_id for job in list(self._jobs.values())}

    async def forget(self, session_id: str) -> None:
        """End the session's jobs and everything they started, and remove their files."""
        await self._end(self.jobs(session_id))

    async def forget_job(self, job_id: str) -> None:
        """The same for one job."""
        await self._end([job for job in self._jobs.values() if job.state.job_id == job_id])

    async def _end(self, jobs: Sequence[BackgroundJob]) -> None:
        for job in jobs:
            job.end_it()
        for job in jobs:
            await join(job.ended, within_s=self._linger_s)
            if alive := job.state.survivors or ("its process" if job.running else ""):
                _log.warning(
                    "%s of session %s is still alive: %s", job.state.job_id, job.state.session_id, alive
                )
        # What still runs stays known, for the next attempt.
        await self._forget(*(job for job in jobs if not job.running))

    async def adopt(self) -> list[BackgroundJob]:
        """Find the jobs of an earlier server in the folder, and watch those that are alive."""
        states, living = await offload(self._look_back)
        by_marker: dict[str, list[MarkedProcess]] = {}
        for one in living:
            by_marker.setdefault(str(one.marker), []).append(one)
        adopted: list[BackgroundJob] = []
        ended = [state for state in states if state.marker not in by_marker]
        dropped = ended[: max(len(states) - with_extra(self._in_all_sessions_max), 0)]  # the oldest
        for state in states:
            if state.job_id not in self._jobs and state not in dropped:
                job = BackgroundJob(state, self._folder, kill_patience=self._kill_patience)
                self._jobs[state.job_id] = job
                job.adopt([one.process for one in by_marker.get(state.marker, [])])
                await asyncio.wait([job.started])
                adopted.append(job)
        for state in dropped:
            await offload(lambda job_id=state.job_id: forget_files(self._folder, job_id))
        return adopted

    async def close(self) -> None:
        """Stop watching; the jobs continue, and the next server adopts them."""
        for job in self._jobs.values():
            job.leave()
        for job in self._jobs.values():
            await join(job.ended, within_s=self._linger_s)
        if self._closing:
            _, late = await asyncio.wait(self._closing, timeout=self._linger_s)
            for task in late:
                task.cancel()
        self._jobs.clear()

    @property
    def _linger_s(self) -> float:
        return self._kill_patience.term_s + self._kill_patience.kill_s + 5.0

    def _look_back(self) -> tuple[list[JobState], list[MarkedProcess]]:
        states = sorted(stored_states(self._folder), key=lambda state: state.started_at_ms)
        markers = [marker for state in states if not state.ended and (marker := parsed(state.marker))]
        tagged = {marker.tag: marker for marker in markers}
        return states, find_marked(lambda marker: marker.background, tagged=tagged)

    def _given_up_for(self, session_id: str, key: str) -> list[BackgroundJob]:
        """The ended job that makes room for one more and is no longer listed; empty if there is room."""
        jobs, where = self.jobs(session_id), ""
        if len(jobs) < self._jobs_max:
            jobs, where = [*self._jobs.values()], " in all sessions"
            if len(jobs) < self._in_all_sessions_max:
                return []
        ended = next((job for job in jobs if not job.running), None)
        if ended is not None:
            del self._jobs[ended.state.job_id]
            return [ended]
        if where and self._has_extra(key):
            return []
        raise TooManyJobs(f"{len(jobs)} background processes are running{where}. Stop some of them first.")

    def _has_extra(self, key: str) -> bool:
        """Whether a key still gets a process, though there are as many as there may be."""
        shares = FairShare()
        for job in self._jobs.values():
            shares.acquire(job.state.key)
        return shares.has_room(key, self._in_all_sessions_max)

    async def _forget(self, *jobs: BackgroundJob) -> None:
        for job in jobs:
            self._jobs.pop(job.state.job_id, None)
            await offload(lambda job_id=job.state.job_id: forget_files(self._folder, job_id))
