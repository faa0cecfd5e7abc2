"""Opens the runner of an agent: its store, its models and its tools.

The MCP servers of an agent: the same settings and the same connections as those of `holdfast serve`.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from holdfast.agent.deps import AgentDeps
from holdfast.catalog import FEATURES
from holdfast.config.files import own_environ
from holdfast.config.mcp_servers import BadMcpServer, mcp_config
from holdfast.config.server import ServerSettings
from holdfast.config.settings import McpSandboxSettings, McpServerSettings, Settings
from holdfast.config.target_secrets import secrets_of
from holdfast.embedding.errors import ConfigurationError
from holdfast.embedding.model_names import ModelServer
from holdfast.embedding.parts import AgentParts, Kept
from holdfast.host.known_secrets import mcp_secrets_of
from holdfast.host.runtime import Parts, Runner, open_runner
from holdfast.host.tools import kept_out_of_tools
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.feature import SessionTools, ToolsContext
from holdfast.interfaces.journal import JournalError, Store
from holdfast.journal.memory import MemoryStore
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.redaction import Redactor
from holdfast.sandbox.sandbox import Sandbox, open_sandbox
from holdfast.targets import Target, windows_of
from holdfast.tools.shell.environment import child_environment


@asynccontextmanager
async def open_agent(parts: AgentParts) -> AsyncGenerator[Runner]:
    """The runner of an agent; leaving it closes the store and every connection."""
    async with AsyncExitStack() as stack:
        targets = tuple([await _target(model, stack) for model in parts.models])
        redactor = Redactor((*secrets_of(targets), *mcp_secrets_of(parts.mcp_servers)))
        store = await _store(parts.kept, redactor, stack)
        await parts.prices.load(targets)
        session_tools: Mapping[str, SessionTools] = {}
        if parts.mcp_servers:
            session_tools = await open_servers(parts.mcp_servers, parts.kept, parts.clock, stack=stack)
        agent = partial(
            AgentDeps,
            session_tools=session_tools,
            judge=parts.judge,
            tools=parts.registry,
            workspace=await asyncio.to_thread(parts.workspace.resolve),
            instructions=parts.instructions,
            context_window=min(target.context_window for target in targets),
            windows=windows_of(targets),
            budget=parts.budget,
            secrets=redactor,
            on_ask=parts.on_ask,
        )
        runtime = Parts(targets=targets, store=store, agent=agent, prices=parts.prices, clock=parts.clock)
        yield await stack.enter_async_context(open_runner(runtime))


async def _target(model: Target | ModelServer, stack: AsyncExitStack) -> Target:
    if isinstance(model, Target):
        return model
    return await stack.enter_async_context(model.serve())


async def _store(kept: Kept, redactor: Redactor, stack: AsyncExitStack) -> Store:
    store: Store
    if isinstance(kept, MemoryDisk):
        store = MemoryStore(redactor, kept)
    else:
        lock = await asyncio.to_thread(_locked, kept)
        stack.callback(os.close, lock)
        try:
            store = await SqliteStore.open(kept, redactor)
        except (OSError, JournalError) as error:
            raise ConfigurationError(f"The store {kept} can't be opened: {error}") from error
    stack.push_async_callback(store.close)
    return store


def _locked(path: Path) -> int:
    """A file that is locked until it is closed: two processes would take each other's runs away."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigurationError(
            f"The store {path} can't be opened: {error.strerror}. Use a folder that you can write to."
        ) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        raise ConfigurationError(
            f"Another agent has the store {path} open. Use one agent for it, or give each its own file."
        ) from error
    return file


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
        if not isinstance(one.sandbox, McpSandboxSettings):  # pyright: ignore[reportUnnecessaryIsInstance]  # programs without types
            raise TypeError(
                f"mcp_servers: the sandbox of {one.name!r} is a McpSandboxSettings, for example "
                f'McpSandboxSettings(mode="off"), and not {one.sandbox!r:.80}.'
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
            if one.session_tools and one.is_used(settings)
        }
    except BadMcpServer as error:
        raise ConfigurationError(f"mcp_servers: {error}") from error


def _sandbox(servers: tuple[McpServerSettings, ...], folder: Path, environment: Mapping[str, str]) -> Sandbox:
    """The sandbox of the servers that are started in one. Tests it, so it blocks."""
    is_needed = any(server.command and server.sandbox.mode != "off" for server in servers)
    search = environment.get("PATH", os.defpath)
    return open_sandbox("auto" if is_needed else "off", folder / "sandbox", search=search)
