"""What an agent is made of, before anything is opened.

Nothing here loads the runtime, so that `from holdfast import Agent` costs little: an agent loads it to open.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct, field

from holdfast.embedding.errors import ConfigurationError
from holdfast.embedding.model_names import ModelServer
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.system_clock import SystemClock
from holdfast.interfaces.tool import Tool
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.models.call_deps import Prices
from holdfast.policy.tool_names import MCP_PREFIX
from holdfast.policy.verdicts import Allow, NeedsApproval, Verdict
from holdfast.targets import Target
from holdfast.tools.registry import NameTaken, Registry
from holdfast.values import Action, ApprovalMode, Budget, Choice, GrantRule, Width

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from holdfast.agent.deps import OnAsk
    from holdfast.config.settings import McpServerSettings
    from holdfast.host.runtime import Runner

Kept: TypeAlias = MemoryDisk | Path


class AgentParts(Struct, frozen=True, kw_only=True):
    """What an agent is made of, as it was given."""

    models: tuple[Target | ModelServer, ...]
    registry: Registry
    mcp_servers: "tuple[McpServerSettings, ...]" = ()
    instructions: str
    workspace: Path
    kept: Kept
    budget: Budget = field(default_factory=Budget)
    judge: "TrustedTools"
    on_ask: "OnAsk"
    clock: Clock = field(default_factory=SystemClock)
    prices: Prices = field(default_factory=Prices)


class Configuration(Struct, frozen=True):
    """What `Agent.from_config` read; `opened` makes the runner of an agent with these tools of its own."""

    opened: "Callable[[Registry, TrustedTools, OnAsk], Callable[[], AbstractAsyncContextManager[Runner]]]"


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


class TrustedTools(Struct, frozen=True):
    """Allows every tool but those that need an approval: the program that uses the agent chose them.

    It only chose MCP servers, not the tools that they have.
    """

    asked_about: frozenset[str] = frozenset()

    def in_mode(self, mode: Literal["", ApprovalMode]) -> "TrustedTools":
        """The same: the program decides, and nobody else."""
        del mode
        return self

    def applied_mode(self) -> ApprovalMode:
        """The program chose its tools, so only those that it marked need an approval."""
        return "ask"

    def verdict(self, action: Action, grants: Sequence[GrantRule], *, workspace: Path) -> Verdict:
        """Ask about the tools that were marked; allow the others."""
        del grants, workspace
        if action.tool.startswith(MCP_PREFIX):
            return NeedsApproval((f"{action.tool} belongs to an MCP server, which decides what it does.",))
        if action.tool in self.asked_about:
            return NeedsApproval((f"The program wants to be asked before {action.tool} runs.",))
        return Allow("The program allows its own tools.")

    def for_a_person(self, findings: tuple[str, ...]) -> NeedsApproval:
        """Ask the program: by on_approval, or by an ApprovalNeeded that it catches."""
        return NeedsApproval(findings)

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
