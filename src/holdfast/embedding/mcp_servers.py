"""The MCP servers of an agent: the same settings and the same connections as those of `holdfast serve`."""

import asyncio
import os
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from holdfast.catalog import FEATURES
from holdfast.config.files import own_environ
from holdfast.config.mcp_servers import BadMcpServer, mcp_config
from holdfast.config.server import ServerSettings
from holdfast.config.settings import McpServerSettings, Settings
from holdfast.embedding.errors import ConfigurationError
from holdfast.embedding.parts import Kept
from holdfast.host.tools import kept_out_of_tools
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.feature import SessionTools, ToolsContext
from holdfast.sandbox.sandbox import Sandbox, open_sandbox
from holdfast.tools.shell.environment import child_environment

CONNECT_S = 30.0


def checked_servers(given: object) -> tuple[McpServerSettings, ...]:
    """The servers; raises TypeError or ConfigurationError."""
    if not isinstance(given, Iterable) or isinstance(given, str | bytes | Mapping):
        raise TypeError(f"mcp_servers is a list of McpServerSettings, and not {given!r:.80}.")
    servers: list[McpServerSettings] = []
    for one in given:  # pyright: ignore[reportUnknownVariableType]  # looked at next
        if not isinstance(one, McpServerSettings):
            raise TypeError(f"mcp_servers is a list of McpServerSettings, and one of it is {one!r:.80}.")
        if not isinstance(one.command, list | tuple):  # pyright: ignore[reportUnnecessaryIsInstance]  # programs without types
            raise TypeError(
                f'mcp_servers: the command of {one.name!r} is a list, such as ["python", "server.py"], and '
                f"not {one.command!r:.80}."
            )
        server = replace(one, command=tuple(one.command))
        try:
            mcp_config(server)
        except BadMcpServer as error:
            raise ConfigurationError(f"mcp_servers: {error}") from error
        servers.append(server)
    return tuple(servers)


async def open_servers(
    servers: tuple[McpServerSettings, ...], kept: Kept, clock: Clock, *, stack: AsyncExitStack
) -> Mapping[str, SessionTools]:
    """Connect the servers until the stack closes; raises ConfigurationError if one can't be connected.

    What the servers keep, such as caches, is in a folder beside the store's file, or in a temporary one.
    """
    if isinstance(kept, Path):
        folder = kept.with_name(f"{kept.name}.mcp")
    else:
        made = await asyncio.to_thread(lambda: TemporaryDirectory(prefix="holdfast-"))
        stack.push_async_callback(asyncio.to_thread, made.cleanup)
        folder = Path(made.name)
    settings = Settings(server=ServerSettings(data_dir=str(folder)), mcp_servers=servers)
    environment = child_environment(own_environ())
    sandbox = await asyncio.to_thread(_sandbox, servers, folder, environment)
    kept_out = await asyncio.to_thread(kept_out_of_tools, settings, None)
    context = ToolsContext(settings, clock, environment, kept_out, lambda: sandbox, connect_s=CONNECT_S)
    try:
        return {
            one.name: await stack.enter_async_context(one.part(one.session_tools)(context))
            for one in FEATURES.values()
            if one.session_tools
        }
    except BadMcpServer as error:
        raise ConfigurationError(f"mcp_servers: {error}") from error


def _sandbox(servers: tuple[McpServerSettings, ...], folder: Path, environment: Mapping[str, str]) -> Sandbox:
    """The sandbox of the servers that are started in one. Tests it, so it blocks."""
    is_needed = any(server.command and server.sandbox.mode != "off" for server in servers)
    search = environment.get("PATH", os.defpath)
    return open_sandbox("auto" if is_needed else "off", folder / "sandbox", search=search)
