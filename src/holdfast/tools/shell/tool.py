"""The shell tool: runs commands in the foreground or in the background.

The tools that list, read and end background processes of a session.
"""

import asyncio
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace
from typing_extensions import override

from holdfast.interfaces.system_clock import steady_s
from holdfast.interfaces.tool import Tool, ToolCall, ToolResult, ToolTraits
from holdfast.policy.tool_names import SHELL, SHELL_JOBS, SHELL_KILL
from holdfast.sandbox.confinement import Confinement, Confiner
from holdfast.sandbox.first_shell import LEFT_BEHIND
from holdfast.sandbox.network_proxy import Resolve
from holdfast.sandbox.protected_paths import ProtectedPaths
from holdfast.tools.arguments import arguments_hash, parsed, spec_of
from holdfast.tools.files.workspace import PathRefused, Workspace
from holdfast.tools.offload import offload
from holdfast.tools.shell import marker
from holdfast.tools.shell.background import Background, TooManyJobs
from holdfast.tools.shell.confined_run import ConfinedRun
from holdfast.tools.shell.connections import hosts_of, may_install
from holdfast.tools.shell.jobs import BackgroundJob
from holdfast.tools.shell.needs import HINT, SANDBOXED, ShellNeeds, lift_for, limits_met
from holdfast.tools.shell.output import Capture, Shown, shorten
from holdfast.tools.shell.process import Command, ProcessEnd, run_command
from holdfast.tools.shell.process_table import ProcessEntry
from holdfast.tools.shell.scope import KillPatience
from holdfast.values import Action, Lift

if TYPE_CHECKING:
    from holdfast.tools.shell.lease_watchdog import LeaseWatchdog

TIME_LIMIT_S = 180
TIME_LIMIT_S_MAX = 3_600
EARLY_END_S = 0.5
KEEP_RUNNING = "[To keep a process running, set background.]"
UNWATCHED = (
    "The workspace has too many folders to check, or a change in it couldn't be undone. Files that this "
    "command creates for other programs to run or load later might remain."
)
_LEASE_LOST = (
    "[killed: this server couldn't reach the shared database in time, so another server might have "
    "continued this session. The command's effects so far aren't undone.]"
)


class ShellArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A command to run."""

    command: Annotated[str, Meta(min_length=1)]
    directory: str = ""
    time_limit_s: Annotated[int, Meta(ge=1, le=TIME_LIMIT_S_MAX)] = TIME_LIMIT_S
    background: Annotated[
        bool,
        Meta(description="Return at once."),
    ] = False
    needs: Annotated[ShellNeeds, Meta(description="Access beyond the sandbox, for a person to approve.")] = (
        ShellNeeds()
    )


class ShellWorld(Struct, frozen=True, kw_only=True):
    """The dependencies of the shell tool. `environment` comes from the caller, without keys."""

    environment: Mapping[str, str]
    background: Background
    argv: tuple[str, ...] = ("/bin/bash", "-c")
    kill_patience: KillPatience | None = None
    early_end_s: float = EARLY_END_S  # how long a background process is watched before the call returns
    confiner: Confiner | None = None  # None: commands run without a sandbox
    protected: ProtectedPaths | None = None  # watches over what confined commands change
    resolve: Resolve | None = None  # how the sandbox's proxy resolves names; None: as the system does
    watchdog: "LeaseWatchdog | None" = (
        None  # what kills commands if the server loses its lease; None: it has none
    )


class Shell(Tool):
    """Runs one command line."""

    args_type = ShellArgs
    spec = spec_of(
        SHELL,
        "Run a bash command line without input. Its child processes are stopped when it ends, unless you set "
        "background.",
        args=ShellArgs,
    )
    # The tool keeps its own time limit and returns the output so far; this one only catches its failure.
    traits = ToolTraits(patience_s=TIME_LIMIT_S_MAX + 30.0, place="workspace")

    def __init__(self, world: ShellWorld) -> None:
        self._world = world
        if world.confiner is not None and world.confiner.sandbox.confines is not None:
            said = type(self).spec.description + SANDBOXED
            self.spec = msgspec.structs.replace(type(self).spec, description=said)

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        """`argv` is exactly what will be started, and where; resolves links, so it blocks."""
        given = parsed(ShellArgs, args)
        lift = lift_for(
            given.needs,
            workspace,
            self._world.confiner,
            connects_to=lambda: hosts_of(
                given.command, environment=self._world.environment, workspace=workspace
            ),
        )
        return Action(
            tool=SHELL,
            # All of it, however long: people approve what they are shown, and an end that is cut off is not.
            summary=given.command,
            background=given.background,
            reason=given.needs.reason if lift != Lift() else "",
            shortfall=self._shortfall(args, workspace, lift),
            lift=lift,
            argv=(*self._world.argv, given.command),
            paths=(Workspace(workspace).resolved(given.directory),),
            digest=arguments_hash(SHELL, args),
        )

    def _shortfall(self, args: Mapping[str, object], workspace: Path, lift: Lift) -> str:
        """Return what the sandbox can't prevent in this workspace."""
        confinement = self.confinement(args, workspace=workspace, lift=lift)
        if confinement is None:
            return ""
        protected = self._world.protected
        unwatched = protected is not None and not protected.is_complete(workspace)
        return " ".join(filter(None, [confinement.shortfall, UNWATCHED if unwatched else ""]))

    def confinement(self, args: Mapping[str, object], *, workspace: Path, lift: Lift) -> Confinement | None:
        """Return this command's confinement; None without a sandbox. Blocks."""
        if self._world.confiner is None:
            return None
        given = parsed(ShellArgs, args)
        folder = Workspace(workspace).resolved(given.directory)
        confinement = self._world.confiner.confinement(workspace, cwd=folder, lift=lift)
        return confinement.noting_hosts() if confinement and may_install(given.command) else confinement

    def program(
        self, command: Command, workspace: Path, *, in_sandbox: bool, lift: Lift | None = None
    ) -> ConfinedRun | None:
        """Return a run of this program with the tool's environment; None if there is no sandbox. Blocks."""
        world, confinement = self._world, None
        if in_sandbox and world.confiner is not None:
            confinement = world.confiner.confinement(workspace, cwd=command.cwd, lift=lift)
        if in_sandbox and confinement is None:
            return None
        watchdog = world.watchdog
        own = watchdog.environment_in(workspace) if watchdog is not None else {}
        environment = {**world.environment, **own, **command.environment}
        command = replace(command, environment=environment, confinement=confinement)
        return ConfinedRun(command, protected=world.protected, resolve=world.resolve)

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        given = parsed(ShellArgs, args)
        if "\0" in given.command:
            return ToolResult("A command line can't contain a NUL character.", ok=False, ending="not_started")
        try:
            folder = await Workspace(call.workspace).bound_to(call.judged_paths).open_folder(given.directory)
        except PathRefused as refused:
            return ToolResult(str(refused), ok=False, ending="not_started")
        with folder:
            watchdog = self._world.watchdog
            own = watchdog.environment_in(call.workspace) if watchdog is not None else {}
            command = Command(
                argv=(*self._world.argv, given.command),
                cwd=folder.path_for_children,
                environment={**self._world.environment, **own},
                confinement=call.confinement,
            )
            command = await self._world.background.beside(command, session_id=call.session_id)
            run = ConfinedRun(command, protected=self._world.protected, resolve=self._world.resolve)
            return await (
                self._in_background(run, call) if given.background else self._confined(run, given, call)
            )

    async def _confined(self, run: ConfinedRun, given: ShellArgs, call: ToolCall) -> ToolResult:
        """Run it in the foreground, and say what the sandbox kept it from."""
        await run.open()
        try:
            result = await self._in_foreground(run.command, given, call)
        finally:
            await run.close()
        if run.command.confinement is None or result.ok or result.ending == "not_started":
            missed = hint = ""
        else:
            missed, hint = limits_met(result.text)
        advice = [result.advice, *run.advice, *([hint or HINT] if run.advice or hint else [])]
        return replace(
            result,
            ok=result.ok and not run.is_unchecked,
            text="\n".join(filter(None, [result.text, *run.sentences, missed])),
            advice="\n".join(filter(None, advice)),
        )

    async def _in_foreground(self, command: Command, given: ShellArgs, call: ToolCall) -> ToolResult:
        capture, began_s = Capture(), steady_s()
        try:
            ended = await run_command(
                command,
                capture,
                marker=marker.foreground(call.run_id, call.tool_call_id),
                patience_s=given.time_limit_s,
                hear=call.say,
                kill_patience=self._world.kill_patience,
            )
            if ended.why == "not_started":
                text = f"Couldn't start the command: {ended.error}"
                return ToolResult(text, ok=False, ending="not_started")
            text, left_out = await offload(capture.text)
            if ended.why == "sandbox_failed":
                return _sandbox_failed(ended, text)
            blob, lack = await capture.keep(call.blobs) if left_out else ("", "")
        finally:
            capture.close()
        sentences = [_ending(ended, given), _leftovers(ended.leftovers), _survivors(ended.survivors)]
        if left_out:
            sentences.append(f"The full output is stored as blob {blob}. {lack}".strip())
        watchdog = self._world.watchdog
        is_kept = watchdog is not None and (ended.code or 0) < 0 and watchdog.has_killed_since(began_s)
        if is_kept:
            sentences.append(_LEASE_LOST)
        killed = ended.why == "deadline" or bool(ended.survivors) or is_kept
        said = "\n".join([text.rstrip("\n") or "(no output)", *filter(None, sentences)])
        return ToolResult(
            said,
            ok=ended.code == 0 and not killed,
            ending="killed" if killed else "finished",
            blob=blob,
            advice=KEEP_RUNNING if LEFT_BEHIND in said else "",
        )

    async def _in_background(self, run: ConfinedRun, call: ToolCall) -> ToolResult:
        jobs = self._world.background
        await run.open()
        try:
            job = await jobs.start(run.command, call)
        except (TooManyJobs, OSError, ValueError) as error:
            await run.close()
            return ToolResult(f"Not started: {error}", ok=False, ending="not_started")
        except BaseException:
            await run.close()
            raise
        jobs.close_after(job, run)
        try:
            # A server that can't bind its port fails immediately, and the model should see that.
            await asyncio.wait([job.ended], timeout=self._world.early_end_s)
            output = await jobs.read(job, since=0)
        except BaseException:
            await jobs.kill(job)  # the model never hears of it, so it must not keep running
            raise
        said = f"\n{output.text.rstrip()}" if output.text.strip() else ""
        if not job.running:
            return ToolResult(f"{job.state.job_id} {status(job)}.{said}", ok=job.state.code == 0)
        text = f"Started as {job.state.job_id} (pid {job.state.pid}); it keeps running.{said}"
        named = f'"job_id": "{job.state.job_id}"'
        since = f'{named}, "since": {output.until}'
        advice = f"[Read it with shell_jobs {{{since}}}, stop it with shell_kill {{{named}}}.]"
        return ToolResult(text, ending="detached", advice=advice)


def status(job: BackgroundJob) -> str:
    """A job's status, in words."""
    if job.running:
        return f"is running (pid {job.state.pid})"
    if job.state.survivors:
        return f"was killed, but is still alive: {job.state.survivors}"
    if job.state.code is None:
        return "has ended; its exit code is unknown because the server restarted in the meantime"
    return f"has ended with {_code(job.state.code)}"


def shown(text: str) -> str:
    """Part of a job's output as the model sees it."""
    return shorten(text, Shown())[0]


def _sandbox_failed(ended: ProcessEnd, output: str) -> ToolResult:
    """The result of a command whose sandbox failed; it was not run in any other way."""
    if ended.code is not None and ended.code < 0:
        text = (
            f"{output.rstrip()}\n[The sandbox died ({_code(ended.code)}), and the command with it. The "
            "command's effects so far aren't undone.]"
        )
        return ToolResult(text.lstrip(), ok=False, ending="killed")
    text = (
        "The sandbox couldn't start the command, so it didn't run. This isn't an error of the command: "
        f"{output.strip() or 'bubblewrap gave no reason'}"
    )
    return ToolResult(text, ok=False, ending="not_started")


def _ending(ended: ProcessEnd, given: ShellArgs) -> str:
    if ended.why == "deadline":
        return (
            f"[killed: the time limit of {given.time_limit_s} s has passed; this is the output so far. The "
            "command's effects so far aren't undone.]"
        )
    if ended.code is None:
        return "[its exit code is unknown]"
    return f"[{_code(ended.code)}]" if ended.code else ""


def _code(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def _leftovers(left: tuple[ProcessEntry, ...]) -> str:
    if not left:
        return ""
    return f"{LEFT_BEHIND}{_named(left)}]"


def _survivors(survivors: tuple[ProcessEntry, ...]) -> str:
    return f"[still alive after KILL: {_named(survivors)}; its effect is unknown]" if survivors else ""


def _named(processes: tuple[ProcessEntry, ...]) -> str:
    names = ", ".join(map(str, processes[:10]))
    return f"{names} and {len(processes) - 10} more" if len(processes) > 10 else names  # noqa: PLR2004


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
