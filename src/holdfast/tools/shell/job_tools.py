"""The tools that list, read and end background processes of a session."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta
from typing_extensions import override

from holdfast.interfaces.tool import Tool, ToolCall, ToolResult, ToolTraits
from holdfast.policy.tool_names import SHELL_JOBS, SHELL_KILL
from holdfast.tools.arguments import arguments_hash, parsed, spec_of
from holdfast.tools.shell.background import Background
from holdfast.tools.shell.tool import shown, status
from holdfast.values import Action

WAIT_S_MAX = 60
_TITLE_CHARS = 200


class ShellJobsArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which jobs to look at."""

    job_id: Annotated[str, Meta(description="Default: list all.")] = ""
    since: Annotated[
        int,
        Meta(ge=0, description="Skip this many bytes, as the last result said."),
    ] = 0
    wait_s: Annotated[
        float,
        Meta(ge=0, le=WAIT_S_MAX, description="Seconds to wait for new output."),
    ] = 0.0


class ShellKillArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which job to end."""

    job_id: Annotated[str, Meta(min_length=1)]


class ShellJobs(Tool):
    """Lists the session's background processes, or reads one."""

    args_type = ShellJobsArgs
    spec = spec_of(
        SHELL_JOBS,
        "List the background processes of this session, or read the output of one.",
        args=ShellJobsArgs,
        on_demand=True,
    )
    traits = ToolTraits(read_only=True, idempotent=True, parallel_safe=True, patience_s=WAIT_S_MAX + 30.0)

    def __init__(self, background: Background) -> None:
        self._background = background

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        given = parsed(ShellJobsArgs, args)
        summary = f"read the output of {given.job_id}" if given.job_id else "list background processes"
        return Action(tool=SHELL_JOBS, summary=summary, digest=arguments_hash(SHELL_JOBS, args))

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        given = parsed(ShellJobsArgs, args)
        if not given.job_id:
            return ToolResult(listed(self._background, call.session_id))
        job = self._background.job(given.job_id, session_id=call.session_id)
        if job is None:
            return _unknown(self._background, given.job_id, call.session_id)
        output = await self._background.read(job, since=given.since, wait_s=given.wait_s)
        lines = [f"{job.state.job_id} {status(job)}; continue with since={output.until}."]
        if output.since > given.since:
            lines.append(f"[bytes {given.since:,} to {output.since:,} are no longer stored]")
        if job.output_lost:
            lines.append(f"[some output was lost: {job.output_lost}]")
        lines.append(shown(output.text).rstrip("\n") or "(no new output)")
        lines += job.sentences
        return ToolResult("\n".join(lines), advice="\n".join(job.advice))


class ShellKill(Tool):
    """Ends one of the session's background processes."""

    args_type = ShellKillArgs
    spec = spec_of(
        SHELL_KILL, "Stop a background process and everything it started.", args=ShellKillArgs, on_demand=True
    )
    # Killing what is dead changes nothing, so it may be done again.
    traits = ToolTraits(idempotent=True, patience_s=30.0)

    def __init__(self, background: Background) -> None:
        self._background = background

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        given = parsed(ShellKillArgs, args)
        summary = f"stop background process {given.job_id}"
        return Action(tool=SHELL_KILL, summary=summary, digest=arguments_hash(SHELL_KILL, args))

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        given = parsed(ShellKillArgs, args)
        job = self._background.job(given.job_id, session_id=call.session_id)
        if job is None:
            return _unknown(self._background, given.job_id, call.session_id)
        await self._background.kill(job)
        return ToolResult(f"{job.state.job_id} {status(job)}.", ok=not job.state.survivors)


def listed(background: Background, session_id: str) -> str:
    """The session's jobs, one a line."""
    jobs = background.jobs(session_id)
    lines = [
        f"{job.state.job_id} {status(job)}; {job.output_bytes:,} bytes of output: {_title(job.state.title)}"
        for job in jobs
    ]
    return "\n".join(lines) or "No background processes were started in this session."


def _unknown(background: Background, job_id: str, session_id: str) -> ToolResult:
    return ToolResult(f"Unknown job {job_id!r}.\n{listed(background, session_id)}", ok=False)


def _title(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TITLE_CHARS else line[:_TITLE_CHARS] + "…"
