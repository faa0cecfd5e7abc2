"""The tools of a server: the built-in ones, those of features, and the processes they leave behind."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.api.live import BackgroundJobShown, BackgroundOutput
from holdfast.catalog import FEATURES
from holdfast.config.files import own_config_home, root_of
from holdfast.config.settings import Settings
from holdfast.host.fast_imports import gc_paused
from holdfast.host.opening import Opening
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.feature import SessionTools, ToolsContext, Upkeep
from holdfast.interfaces.journal import Store
from holdfast.interfaces.tool import Tool
from holdfast.sandbox.protected_paths import ProtectedPaths
from holdfast.sandbox.quarantine import Quarantine
from holdfast.supervision import BackgroundTasks
from holdfast.tools.files.workspace import Workspace, Workspaces
from holdfast.tools.registry import Registry
from holdfast.tools.shell.background import Background
from holdfast.tools.shell.environment import child_environment
from holdfast.tools.shell.jobs import BackgroundJob
from holdfast.tools.shell.marker import parsed
from holdfast.tools.shell.reaper import OrphanReaper, orphans_adopted

if TYPE_CHECKING:
    from holdfast.policy.lifts import Containment
    from holdfast.policy.shell.wrappers import ScriptStep
    from holdfast.sandbox.confinement import Confiner
    from holdfast.sandbox.sandbox import Sandbox
    from holdfast.tools.files.secret_files import SecretFiles
    from holdfast.tools.shell.command_reader import CommandReader
    from holdfast.tools.shell.lease_watchdog import LeaseWatchdog


class OpenedTools(Struct, frozen=True):
    """What is there once the tools are imported and the sandbox is tested."""

    confiner: "Confiner"
    read_command: "CommandReader"
    environment: Mapping[str, str]
    shell: str  # the name of the shell that runs commands


class ToolWorld(Struct, frozen=True):
    """Dependencies of the built-in tools."""

    environment: Mapping[str, str]
    kept_out: tuple[str, ...]
    background: Background
    protected: ProtectedPaths
    watchdog: "LeaseWatchdog | None"
    sandbox: "Callable[[], Sandbox] | None"  # a test that began earlier; waits for it


class HostTools(Struct, frozen=True):
    """The tools and what they share."""

    registry: Registry
    session_tools: Mapping[str, SessionTools]  # by feature
    workspace: Path  # the configured one, links resolved
    workspaces: Workspaces
    opening: "Opening[OpenedTools]"
    protected: ProtectedPaths
    background: Background
    tasks: BackgroundTasks

    def containment(self, workspace: Path) -> "Containment":
        """What the sandbox holds for commands in this workspace. Waits for its self-test, so it blocks."""
        from holdfast.policy.lifts import Containment

        confiner = self.opening.result().confiner
        sandbox = confiner.sandbox
        if sandbox.confines is None:
            return Containment()
        profile = confiner.profiles.profile(workspace)
        return Containment(held=sandbox.contains(profile), network=profile.network)

    def read_command(self, argv: tuple[str, ...]) -> "tuple[ScriptStep, ...]":
        """Everything that an argv would run. Blocks."""
        return self.opening.result().read_command(argv)

    def secret_finder(self) -> "SecretFiles":
        """Searches files for secrets; blocks."""
        from holdfast.tools.files.secret_files import SecretFiles

        return SecretFiles(self.opening.result().environment)


@asynccontextmanager
async def open_tools(
    settings: Settings,
    clock: Clock,
    *,
    config: Path | None = None,
    watchdog: "LeaseWatchdog | None" = None,
    further: Callable[[], Mapping[str, Sequence[Tool]]] = dict,
    sandbox: "Callable[[], Sandbox] | None" = None,
) -> AsyncGenerator[HostTools]:
    """Open what tools share; leaving closes session tools and keeps background processes running.

    When `opening` begins, the sandbox is tested and the registry filled: with the built-in tools, and with
    the groups that `further` makes. `config` is the configuration file, if any; the file tools never open it.
    `watchdog` kills foreground tools if the server loses its lease. `sandbox` waits for a test of the sandbox
    that began earlier.
    """
    environment = child_environment(os.environ)  # noqa: TID251  # this is the edge
    environment |= watchdog.environment if watchdog is not None else {}
    processes = Background(settings.data_dir / "background", now_ms=clock.now_ms)
    await processes.adopt()
    kept_out = await asyncio.to_thread(kept_out_of_tools, settings, config)
    workspace = await asyncio.to_thread(settings.workspace.resolve)
    registry = Registry()
    protected = ProtectedPaths(Quarantine(settings.data_dir / "quarantine"))

    def opened() -> OpenedTools:
        with gc_paused():
            from holdfast.host.tool_groups import open_all  # with all that it imports, which takes a while
        world = ToolWorld(environment, kept_out, processes, protected, watchdog, sandbox)
        return open_all(settings, world, registry, further=further)

    opening = Opening(opened)
    context = ToolsContext(settings, clock, environment, kept_out, lambda: opening.result().confiner.sandbox)
    try:
        async with (
            BackgroundTasks() as tasks,
            orphans_adopted(OrphanReaper(), tasks),
            _kept(watchdog, tasks),
            AsyncExitStack() as stack,
            aclosing(opening),  # first, so that no session tool waits for it any more
        ):
            session_tools = {
                one.name: await stack.enter_async_context(one.part(one.session_tools)(context))
                for one in FEATURES.values()
                if one.session_tools and one.is_used(settings)
            }
            yield HostTools(
                registry,
                session_tools,
                workspace,
                partial(Workspace, kept_out=kept_out),
                opening,
                protected,
                processes,
                tasks,
            )
    finally:
        if opening.is_made:
            await asyncio.to_thread(opening.result().read_command.close)
        await processes.close()


def _kept(watchdog: "LeaseWatchdog | None", tasks: BackgroundTasks) -> AbstractAsyncContextManager[None]:
    if watchdog is None:
        return nullcontext()
    from holdfast.tools.shell.lease_watchdog import watched_tools

    return watched_tools(watchdog, tasks)


def own_folders(settings: Settings) -> tuple[Path, ...]:
    """Holdfast's own folders, which the file tools never open."""
    # Also those of the other profiles.
    return (root_of(settings.data_dir), settings.spool_dir, root_of(own_config_home()))


def kept_out_of_tools(settings: Settings, config: Path | None) -> tuple[str, ...]:
    """The real paths of what no tool opens."""
    own = (*own_folders(settings), *((config,) if config else ()))
    return tuple(os.path.realpath(path) for path in own)


OUTPUT_BYTES_MAX = 64 * 1024
LEFTOVERS_S = 3600.0  # how often to look for processes whose session is gone


class SessionProcesses:
    """The background processes of this server's tools."""

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

    def upkeep(self, store: Store) -> Upkeep:
        """Ends processes with the purge of their session, and looks for those that outlived theirs."""
        background = self._background

        async def collect() -> float:
            # By the run, because a new session can have the id of a purged one.
            for job_id, run_id in background.run_ids().items():
                if await store.run(run_id) is None:
                    await background.forget_job(job_id)
            return LEFTOVERS_S

        async def drop_purged() -> None:
            """`collect` does it, at the start too."""

        def holds(session_id: str) -> bool:
            return session_id in background.session_ids()

        return Upkeep(background.forget, holds, drop_purged, collect)

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
