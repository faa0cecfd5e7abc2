"""Opens the runner of an agent: its store, its models and its tools."""

import asyncio
import fcntl
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

from holdfast.agent.deps import AgentDeps, OnAsk
from holdfast.config.target_secrets import secrets_of
from holdfast.embedding.errors import ConfigurationError
from holdfast.embedding.model_names import ModelServer
from holdfast.host.runtime import Parts, Runner, open_runner
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import JournalError, Store
from holdfast.interfaces.system_clock import SystemClock
from holdfast.interfaces.tool import Tool
from holdfast.journal.memory import MemoryDisk, MemoryStore
from holdfast.journal.redacting import RedactingStore
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.models.prices import Prices
from holdfast.policy.approvals import deny_unattended
from holdfast.policy.verdicts import Allow, Deny, NeedsApproval, Verdict
from holdfast.redaction import Redactor
from holdfast.targets import Target
from holdfast.tools.registry import NameTaken, Registry
from holdfast.values import Action, Budget, Choice, GrantRule, Width

Kept: TypeAlias = MemoryDisk | Path


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentParts:
    """What an agent is made of, as it was given."""

    models: tuple[Target | ModelServer, ...]
    registry: Registry
    instructions: str
    workspace: Path
    kept: Kept
    budget: Budget = field(default_factory=Budget)
    judge: "TrustedTools"
    on_ask: OnAsk
    clock: Clock = field(default_factory=SystemClock)
    prices: Prices = field(default_factory=Prices)


@dataclass(frozen=True, slots=True)
class Configuration:
    """What `Agent.from_config` read; `opened` makes the runner of an agent with these tools of its own."""

    opened: Callable[[Registry, "TrustedTools", OnAsk], Callable[[], AbstractAsyncContextManager[Runner]]]


@asynccontextmanager
async def open_agent(parts: AgentParts) -> AsyncGenerator[Runner]:
    """The runner of an agent; leaving it closes the store and every connection."""
    async with AsyncExitStack() as stack:
        targets = tuple([await _target(model, stack) for model in parts.models])
        opened = await _store(parts.kept, stack)
        redactor = Redactor(secrets_of(targets))
        await parts.prices.load(targets)
        agent = partial(
            AgentDeps,
            judge=parts.judge,
            tools=parts.registry,
            workspace=parts.workspace,
            instructions=parts.instructions,
            context_window=min(target.context_window for target in targets),
            budget=parts.budget,
            secrets=redactor,
            on_ask=parts.on_ask,
        )
        store = RedactingStore(opened, lambda: redactor)
        runtime = Parts(targets=targets, store=store, agent=agent, prices=parts.prices, clock=parts.clock)
        yield await stack.enter_async_context(open_runner(runtime))


async def _target(model: Target | ModelServer, stack: AsyncExitStack) -> Target:
    if isinstance(model, Target):
        return model
    return await stack.enter_async_context(model.serve())


async def _store(kept: Kept, stack: AsyncExitStack) -> Store:
    store: Store
    if isinstance(kept, MemoryDisk):
        store = MemoryStore(kept)
    else:
        lock = await asyncio.to_thread(_locked, kept)
        stack.callback(os.close, lock)
        try:
            store = await SqliteStore.open(kept)
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


def kept_in(store: str | Path) -> Kept:
    """Where an agent keeps its sessions; raises ConfigurationError or TypeError."""
    if isinstance(store, Path):
        return store.expanduser()
    if not isinstance(store, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # programs without types
        raise TypeError(f'store is "memory" or the path of a file, and not {type(store).__name__}.')
    if store == "memory":
        return MemoryDisk()
    if "://" in store:
        raise ConfigurationError(
            f'An agent can\'t keep its sessions in {store.partition(":")[0]}; use store="memory" or the path '
            "of a SQLite file."
        )
    if not store.strip():
        raise ConfigurationError('store is empty; use "memory" or the path of a SQLite file.')
    return Path(store).expanduser()


def registry_of(tools: Iterable[Tool]) -> Registry:
    """The agent's tools by name; raises ConfigurationError."""
    registry = Registry()
    try:
        registry.put("own", tools)
    except NameTaken as error:
        raise ConfigurationError(f"{error} Rename one with @tool(name=…).") from error
    return registry


@dataclass(frozen=True, slots=True)
class TrustedTools:
    """Allows every tool but those that need an approval: the program that uses the agent chose them."""

    asked_about: frozenset[str] = frozenset()
    can_ask: bool = False  # somebody answers approvals

    def verdict(self, action: Action, grants: Sequence[GrantRule], *, workspace: Path) -> Verdict:
        """Ask about the tools that were marked; allow the others."""
        del grants, workspace
        if action.tool in self.asked_about:
            return NeedsApproval((f"The program wants to be asked before {action.tool} runs.",))
        return Allow("The program allows its own tools.")

    def for_a_person(self, findings: tuple[str, ...]) -> NeedsApproval | Deny:
        """Ask if somebody answers, else deny."""
        return NeedsApproval(findings) if self.can_ask else deny_unattended(findings)

    def choices(self, action: Action, grants: Sequence[GrantRule], *, workspace: Path) -> tuple[Choice, ...]:
        """No grants: each answer is for one action."""
        del action, grants, workspace
        return ("once", "deny")

    async def remember(self, grant_id: str, rule: GrantRule) -> None:
        """Never called, because nobody is offered "always"."""
        raise AssertionError(f"nobody granted {grant_id} {rule}")

    def standing(self) -> Mapping[str, GrantRule]:
        """None."""
        return {}

    async def forget(self, grant_id: str) -> bool:
        """There is nothing to forget."""
        del grant_id
        return False

    def rule(
        self, action: Action, grants: Sequence[GrantRule], *, workspace: Path, width: Width = "exact"
    ) -> GrantRule | None:
        """None: nothing is granted."""
        del action, grants, workspace, width
