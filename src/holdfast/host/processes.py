"""The background processes of sessions, as people see them and end them."""

from collections.abc import Sequence

from holdfast.api.live import BackgroundJobShown, BackgroundOutput
from holdfast.tools.shell.background import Background
from holdfast.tools.shell.jobs import BackgroundJob
from holdfast.tools.shell.marker import parsed

OUTPUT_BYTES_MAX = 64 * 1024


class SessionProcesses:
    """What tools of this server started in the background."""

    def __init__(self, background: Background) -> None:
        self._background = background

    def all(self, session_id: str) -> Sequence[BackgroundJobShown]:
        """The session's processes, oldest first, including those that have ended."""
        return [_shown(job) for job in self._background.jobs(session_id)]

    async def read(self, session_id: str, job_id: str) -> BackgroundOutput | None:
        """A process and the end of its output; None if the session has no such process."""
        job = self._background.job(job_id, session_id=session_id)
        return await self._with_output(job) if job is not None else None

    async def stop(self, session_id: str, job_id: str) -> BackgroundOutput | None:
        """End a process and everything that it started; None if the session has no such process."""
        job = self._background.job(job_id, session_id=session_id)
        if job is None:
            return None
        await self._background.kill(job)
        return await self._with_output(job)

    async def _with_output(self, job: BackgroundJob) -> BackgroundOutput:
        since = max(job.output_bytes - OUTPUT_BYTES_MAX, 0)
        found = await self._background.read(job, since=since)
        return BackgroundOutput(job=_shown(job), output=found.text, is_cut=found.since > 0)


def _shown(job: BackgroundJob) -> BackgroundJobShown:
    state = job.state
    marker = parsed(state.marker)
    return BackgroundJobShown(
        job_id=state.job_id,
        run_id=marker.run_id if marker is not None else "",
        command=state.title,
        running=job.running,
        started_at=state.started_at_ms / 1000,
        exit_code=state.code,
    )
