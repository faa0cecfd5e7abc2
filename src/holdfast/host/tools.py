"""The tools of a server: the built-in ones, those of MCP servers, and the processes they leave behind."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.config.consistency import mcp_config
from holdfast.config.files import own_config_home
from holdfast.config.settings import Settings
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.tool import Tool
from holdfast.policy.lifts import Containment
from holdfast.sandbox.confinement import Confiner
from holdfast.sandbox.git_identity import git_identity
from holdfast.sandbox.profiles import Profiles, SandboxOptions
from holdfast.sandbox.protected_paths import ProtectedPaths
from holdfast.sandbox.quarantine import Quarantine
from holdfast.sandbox.sandbox import Sandbox, open_sandbox
from holdfast.sandbox.server_profiles import ServerProfiles
from holdfast.supervision import BackgroundTasks
from holdfast.tools.built_in import built_in_tools
from holdfast.tools.files.secret_files import SecretFiles
from holdfast.tools.files.workspace import Workspace, Workspaces
from holdfast.tools.mcp.brought import BroughtServers
from holdfast.tools.registry import Registry
from holdfast.tools.shell.background import Background
from holdfast.tools.shell.command_reader import CommandReader
from holdfast.tools.shell.environment import child_environment
from holdfast.tools.shell.keeper import Keeper, kept_tools
from holdfast.tools.shell.reaper import OrphanReaper, orphans_adopted

if TYPE_CHECKING:
    from holdfast.tools.mcp.config import McpServerConfig
    from holdfast.tools.mcp.servers import McpServers, ServerPlace

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HostTools:
    """The tools and what they share."""

    registry: Registry
    from_mcp: Callable[[], Sequence[Tool]]
    workspace: Path  # the configured one, links resolved
    workspaces: Workspaces
    read_command: CommandReader
    secret_finder: SecretFiles
    confiner: Confiner
    protected: ProtectedPaths
    brought: BroughtServers
    background: Background
    tasks: BackgroundTasks

    def containment(self, workspace: Path) -> Containment:
        """What the sandbox is known to hold for commands in this workspace. Looks at files, so it blocks."""
        sandbox = self.confiner.sandbox
        if sandbox.confines is None:
            return Containment()
        profile = self.confiner.profiles.profile(workspace)
        return Containment(held=sandbox.contains(profile), network=profile.network)


@asynccontextmanager
async def open_tools(
    settings: Settings,
    clock: Clock,
    *,
    config: Path | None = None,
    keeper: Keeper | None = None,
) -> AsyncGenerator[HostTools]:
    """Open all tools; leaving ends MCP servers and keeps background processes running.

    `config` is the configuration file, if any; the file tools never open it. `keeper` kills foreground tools
    if the server loses its lease.
    """
    environment = child_environment(os.environ)  # noqa: TID251  # this is the edge
    environment |= keeper.environment if keeper is not None else {}
    processes = Background(settings.data_dir / "background", now_ms=clock.now_ms)
    await processes.adopt()
    registry = Registry()
    kept_out = await asyncio.to_thread(kept_out_of_tools, settings, config)
    workspace = await asyncio.to_thread(settings.workspace.resolve)
    confiner = await asyncio.to_thread(open_confiner, settings, environment, kept_out=kept_out)
    protected = ProtectedPaths(Quarantine(settings.data_dir / "quarantine"))
    built_in = await asyncio.to_thread(
        lambda: built_in_tools(
            environment,
            background=processes,
            kept_out=kept_out,
            confiner=confiner,
            protected=protected,
            keeper=keeper,
        )
    )
    registry.put("built_in", built_in)
    read_command = CommandReader()
    mcp = _McpHost(settings, environment, confiner.sandbox, kept_out)
    try:
        async with (
            BackgroundTasks() as tasks,
            orphans_adopted(OrphanReaper(), tasks),
            kept_tools(keeper, tasks) if keeper is not None else nullcontext(),
            mcp.configured() as from_mcp,
            mcp.brought(clock) as brought,
        ):
            yield HostTools(
                registry,
                from_mcp,
                workspace,
                partial(Workspace, kept_out=kept_out),
                read_command,
                SecretFiles(environment),
                confiner,
                protected,
                brought,
                processes,
                tasks,
            )
    finally:
        await asyncio.to_thread(read_command.close)
        await processes.close()


def open_confiner(
    settings: Settings, environment: Mapping[str, str], *, kept_out: tuple[str, ...]
) -> Confiner:
    """The sandbox of these settings; raises SandboxRefused. Starts a few programs, so it blocks."""
    wanted = settings.sandbox
    sandbox = open_sandbox(
        wanted.mode,
        settings.data_dir / "sandbox",
        search=environment.get("PATH", os.defpath),
        git_config=git_identity(environment),
    )
    if sandbox.why:
        _log.info("sandbox: %s", sandbox.why)
    for path in (*wanted.write, *wanted.read):
        if sandbox.confines is not None and not os.path.lexists(path):
            _log.warning("sandbox: %s doesn't exist, so commands don't have it", path)
    network = wanted.network if isinstance(wanted.network, str) else "hosts"
    options = SandboxOptions(
        home=Path.home(),
        environment=environment,
        network=network,
        hosts=() if isinstance(wanted.network, str) else wanted.network,
        write=wanted.write,
        read=wanted.read,
        caches=wanted.caches,
        own=kept_out,
    )
    return Confiner(sandbox, Profiles(options))


def own_folders(settings: Settings) -> tuple[Path, ...]:
    """Holdfast's own folders, which the file tools never open."""
    return (settings.data_dir, settings.spool_dir, own_config_home())


def kept_out_of_tools(settings: Settings, config: Path | None) -> tuple[str, ...]:
    """The real paths of what no tool opens."""
    own = (*own_folders(settings), *((config,) if config else ()))
    return tuple(os.path.realpath(path) for path in own)


@dataclass(frozen=True, slots=True)
class _McpHost:
    """Connects MCP servers of this Holdfast."""

    settings: Settings
    environment: dict[str, str]
    sandbox: Sandbox
    kept_out: tuple[str, ...]

    def servers(self, owner: str, configs: "Sequence[McpServerConfig]") -> "McpServers":
        """The servers, not connected yet; looks at files, but only once, when the first is started."""
        from holdfast.tools.mcp.confined import ServerConfiner
        from holdfast.tools.mcp.servers import McpServers

        folder = self.settings.data_dir / "sandbox" / "mcp"
        profiles = ServerProfiles(Path.home(), folder, own=self.kept_out)
        return McpServers(
            configs,
            environment=self.environment,
            owner=owner,
            confiner=ServerConfiner(self.sandbox, profiles),
            place=server_place(self.settings),
        )

    @asynccontextmanager
    async def configured(self) -> AsyncGenerator[Callable[[], Sequence[Tool]]]:
        """The tools of the configured servers."""
        if not self.settings.mcp_servers:
            yield tuple
            return
        configs = [mcp_config(server) for server in self.settings.mcp_servers]
        made = await asyncio.to_thread(self.servers, str(self.settings.data_dir), configs)
        async with made as servers:
            yield servers.snapshot

    def brought(self, clock: Clock) -> BroughtServers:
        """What clients bring for their sessions."""
        data_dir = self.settings.data_dir
        return BroughtServers(lambda whose, configs: self.servers(f"{data_dir}/{whose}", configs), clock)


def server_place(settings: Settings) -> "ServerPlace":
    """Where MCP servers belong: the workspace, and the folder that keeps sign-ins."""
    from holdfast.tools.mcp.servers import ServerPlace

    return ServerPlace(settings.workspace, settings.data_dir / "mcp-sign-ins")
