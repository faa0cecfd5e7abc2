"""What an agent works with, and what it is allowed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from holdfast.capabilities import Model
from holdfast.events import GrantAdded
from holdfast.interfaces import Clock, Store, Tool
from holdfast.secrets_out import NO_SECRETS, Secrets
from holdfast.values import Action, Budget, Choice


@dataclass(frozen=True, slots=True)
class Allowed:
    """The action may be done."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A person must decide; all reasons, and the answers that they may give."""

    findings: tuple[str, ...]
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """The action is not done; the model hears why."""

    why: str
    ending: Literal["denied", "no_approver"] = "denied"


Verdict: TypeAlias = Allowed | Asked | Refused


class Judge(Protocol):
    """Decides about one exact action, from the rules and what people granted; pure."""

    def __call__(
        self, tool: Tool, action: Action, *, grants: Sequence[GrantAdded], workspace: Path
    ) -> Verdict:
        """The verdict; findings are added by the caller where the log itself gives a reason to ask."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMeans:
    """Everything that a run needs from outside; the same for all runs."""

    store: Store
    model: Model
    clock: Clock
    judge: Judge
    tools: Callable[[], Mapping[str, Tool]]
    workspace: Path = field(default_factory=Path.cwd)
    instructions: str = ""
    secrets: Secrets = NO_SECRETS
    turns_max: int = 100
    budget: Budget = field(default_factory=Budget)
    asks_expire_s: float = 86_400.0
    on_expiry: Literal["continue", "stop"] = "continue"


def nothing_is_allowed(
    tool: Tool, action: Action, *, grants: Sequence[GrantAdded], workspace: Path
) -> Verdict:
    """The judge of an agent that has none: only what changes nothing runs."""
    del action, grants, workspace
    return Allowed() if tool.traits.read_only else Refused("No policy allows this.", "no_approver")
