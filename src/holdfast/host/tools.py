"""The tools of a server: the built-in ones, those of MCP servers, and the processes they leave behind."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.config.consistency import mcp_config
from holdfast.config.files import own_config_home
from holdfast.config.settings import Settings
from holdfast.interfaces.tool import Tool
from holdfast.policy.lifts import Containment
from holdfast.sandbox.confinement import Confiner
from holdfast.sandbox.git_identity import git_identity
from holdfast.sandbox.profiles import Profiles, SandboxOptions
from holdfast.sandbox.protected_paths import ProtectedPaths
from holdfast.sandbox.quarantine import Quarantine
from holdfast.sandbox.sandbox import Sandbox, open_sandbox
from holdfast.sandbox.server_profiles import ServerProfiles
from holdfast.tools.built_in import built_in_tools
from holdfast.tools.files.secret_files import SecretFiles
from holdfast.tools.files.workspace import Workspace, Workspaces
from holdfast.tools.registry import Registry
from holdfast.tools.shell.background import Background
from holdfast.tools.shell.command_reader import CommandReader
from holdfast.tools.shell.environment import child_environment
from holdfast.tools.shell.reaper import OrphanReaper, orphans_adopted

if TYPE_CHECKING:
    from holdfast.tools.mcp.servers import ServerPlace

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HostTools:
    """The tools and what they share."""

    registry: Registry
    from_mcp: Callable[[], Sequence[Tool]]
    workspaces: Workspaces
    read_command: CommandReader
    secret_finder: SecretFiles
    confiner: Confiner
    protected: ProtectedPaths

    def containment(self, workspace: Path) -> Containment:
        """What the sandbox is known to hold for commands in this workspace. Looks at files, so it blocks."""
        sandbox = self.confiner.sandbox
        if sandbox.confines is None:
            return Containment()
        profile = self.confiner.profiles.profile(workspace)
        return Containment(held=sandbox.contains(profile), network=profile.network)


@asynccontextmanager
async def open_tools(
    settings: Settings, now_ms: Callable[[], int], *, config: Path | None = None
) -> AsyncGenerator[HostTools]:
    """Open all tools; leaving ends MCP servers and keeps background processes running.

    `config` is the configuration file, if any; the file tools never open it.
    """
    environment = child_environment(os.environ)  # noqa: TID251  # this is the edge
    background = Background(settings.data_dir / "background", now_ms=now_ms)
    await background.adopt()
    registry = Registry()
    kept_out = await asyncio.to_thread(kept_out_of_tools, settings, config)
    confiner = await asyncio.to_thread(open_confiner, settings, environment, kept_out=kept_out)
    protected = ProtectedPaths(Quarantine(settings.data_dir / "quarantine"))
    built_in = await asyncio.to_thread(
        lambda: built_in_tools(
            environment, background=background, kept_out=kept_out, confiner=confiner, protected=protected
        )
    )
    registry.put("built_in", built_in)
    read_command = CommandReader()
    try:
        async with (
            orphans_adopted(OrphanReaper()),
            _mcp(settings, environment, sandbox=confiner.sandbox, kept_out=kept_out) as from_mcp,
        ):
            yield HostTools(
                registry,
                from_mcp,
                partial(Workspace, kept_out=kept_out),
                read_command,
                SecretFiles(environment),
                confiner,
                protected,
            )
    finally:
        await asyncio.to_thread(read_command.close)
        await background.close()


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


@asynccontextmanager
async def _mcp(
    settings: Settings, environment: dict[str, str], *, sandbox: Sandbox, kept_out: tuple[str, ...]
) -> AsyncGenerator[Callable[[], Sequence[Tool]]]:
    if not settings.mcp_servers:
        yield tuple
        return
    from holdfast.tools.mcp.confined import ServerConfiner
    from holdfast.tools.mcp.servers import McpServers

    folder = settings.data_dir / "sandbox" / "mcp"
    profiles = await asyncio.to_thread(ServerProfiles, Path.home(), folder, own=kept_out)
    confiner = ServerConfiner(sandbox, profiles)

    configs = [mcp_config(server) for server in settings.mcp_servers]
    owner = str(settings.data_dir)
    place = await asyncio.to_thread(server_place, settings)
    async with McpServers(
        configs, environment=environment, owner=owner, confiner=confiner, place=place
    ) as servers:
        yield servers.snapshot


def server_place(settings: Settings) -> "ServerPlace":
    """Where MCP servers belong: the workspace, and the folder that keeps sign-ins."""
    from holdfast.tools.mcp.servers import ServerPlace

    return ServerPlace(settings.workspace, settings.data_dir / "mcp-sign-ins")
