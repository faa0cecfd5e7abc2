"""Opens the runner of an agent: its store, its models and its tools."""

import asyncio
import fcntl
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.agent.deps import AgentDeps
from holdfast.config.target_secrets import secrets_of
from holdfast.embedding.errors import ConfigurationError
from holdfast.embedding.model_names import ModelServer
from holdfast.embedding.parts import AgentParts, Kept
from holdfast.host.known_secrets import mcp_secrets_of
from holdfast.host.runtime import Parts, Runner, open_runner
from holdfast.interfaces.journal import JournalError, Store
from holdfast.journal.memory import MemoryStore
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.redaction import Redactor
from holdfast.targets import Target, windows_of

if TYPE_CHECKING:
    from holdfast.interfaces.feature import SessionTools


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
            from holdfast.embedding.mcp_servers import open_servers

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
