"""Sub-agents for the model: one tool that delegates a task, and the verbs for those in the background.

They are described here like any tool; `run.py` carries them out, because they act on logs.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from typing_extensions import override

from holdfast.features.delegation.agents import NamedAgent
from holdfast.interfaces.feature import FeatureContext
from holdfast.interfaces.tool import Tool, ToolCall, ToolResult, ToolTraits
from holdfast.messages import ToolSpec
from holdfast.policy.tool_names import (
    CHILD_STATUS,
    CHILD_STEER,
    CHILD_STOP,
    CHILD_TAIL,
    CHILD_WAIT,
    DELEGATE,
)
from holdfast.tools.arguments import arguments_hash, spec_of
from holdfast.values import Action

TASK_CHARS_MAX = 64_000
WAIT_S_DEFAULT, WAIT_S_MAX = 600.0, 86_400.0
TAIL_LINES_DEFAULT, TAIL_LINES_MAX = 40, 400

_Text = Annotated[str, Meta(min_length=1, max_length=TASK_CHARS_MAX)]
_Name = Annotated[str, Meta(min_length=1, max_length=100, description="The sub-agent's name.")]
_ToolName = Annotated[str, Meta(min_length=1, max_length=200)]


class ChildBudget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sub-agent's budget; 0 means an equal share of the rest."""

    tokens: Annotated[int, Meta(ge=0)] = 0
    cost_usd: Annotated[float, Meta(ge=0)] = 0.0
    turns: Annotated[int, Meta(ge=0)] = 0
    minutes: Annotated[float, Meta(ge=0)] = 0.0


class DelegateArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task for a sub-agent."""

    task: Annotated[
        _Text,
        Meta(description="All that it needs to know: it can't see this conversation."),
    ]
    instructions: Annotated[str, Meta(max_length=TASK_CHARS_MAX, description="Such as its role.")] = ""
    tools: Annotated[
        Annotated[tuple[_ToolName, ...], Meta(max_length=200)] | None,
        Meta(description="Some of yours. Default: all."),
    ] = None
    target: Annotated[str, Meta(max_length=256, description="Model target. Default: yours.")] = ""
    budget: Annotated[ChildBudget | None, Meta(description="Default: an equal share of yours.")] = None
    background: Annotated[
        bool,
        Meta(description="Return its name now; its answer comes as a message."),
    ] = False
    outlives_stop: Annotated[
        bool, Meta(description="In the background: keep running if this run is stopped.")
    ] = False


class NamedTask(DelegateArgs, frozen=True):
    """A task for a sub-agent that is described in advance."""

    agent: str = ""


class ChildArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which sub-agent."""

    name: _Name


class StatusArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which sub-agent to look at."""

    name: Annotated[str, Meta(max_length=100, description="A sub-agent. Default: all.")] = ""


class WaitArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which sub-agents to wait for."""

    names: Annotated[
        tuple[_Name, ...], Meta(max_length=100, description="Wait for all of these. Default: any active one.")
    ] = ()
    seconds: Annotated[float, Meta(ge=0, le=WAIT_S_MAX, description="Maximum time to wait.")] = WAIT_S_DEFAULT


class TailArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sub-agent to read."""

    name: _Name
    lines: Annotated[int, Meta(ge=1, le=TAIL_LINES_MAX)] = TAIL_LINES_DEFAULT


class SteerArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message to a sub-agent."""

    name: _Name
    message: _Text


class ChildTool(Tool):
    """One of these tools, as the model and the policy see it; `run` is called only without an agent loop."""

    def __init__(
        self, name: str, description: str, *, args: type[msgspec.Struct], traits: ToolTraits
    ) -> None:
        self.args_type = args
        self.spec = spec_of(name, description, args=args)
        self.traits = traits

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        name = self.spec.name
        summary = str(args.get("task") or args.get("name") or name)
        return Action(tool=name, summary=summary, digest=arguments_hash(name, args))

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        return ToolResult("Sub-agents aren't available here.", ok=False, ending="not_started")


class Delegate(ChildTool):
    """Delegates a task, within limits, to any sub-agent or to those that are described in advance."""

    def __init__(
        self,
        description: str,
        *,
        args: type[msgspec.Struct],
        agents: Mapping[str, NamedAgent] = MappingProxyType({}),
        children_max: int = 8,
        depth_max: int = 3,
    ) -> None:
        traits = ToolTraits(idempotent=True, parallel_safe=True, place="anywhere")
        super().__init__(DELEGATE, description, args=args, traits=traits)
        self.args_type = args if agents else NamedTask
        self.agents = agents  # if any, there are no others
        self.children_max = children_max  # how many sub-agents of a session work at once
        self.depth_max = depth_max  # how many levels of sub-agents there are


def delegate_among(tool: Delegate, agents: Mapping[str, NamedAgent]) -> ToolSpec:
    """Return the declaration of the tool with these agents to choose from."""
    names = Annotated[
        str,
        Meta(description="One of the agents. Default: one like you.", extra_json_schema={"enum": [*agents]}),
    ]
    args = msgspec.defstruct("DelegateArgs", [("agent", names, "")], bases=(DelegateArgs,), frozen=True)
    return spec_of(DELEGATE, f"{tool.spec.description} Agents:\n{_described(agents)}", args=args)


def _described(agents: Mapping[str, NamedAgent]) -> str:
    return "\n".join(f"- {name}: {agent.description}" for name, agent in agents.items())


def delegate_to(agents: Mapping[str, NamedAgent]) -> Delegate:
    """Return the tool that delegates to these agents alone."""
    args = msgspec.defstruct(
        "DelegateArgs",
        [
            ("agent", Literal[tuple(agents)]),
            ("task", Annotated[_Text, Meta(description="All that it needs to know.")]),
        ],
        frozen=True,
        forbid_unknown_fields=True,
    )
    return Delegate(
        "Delegate a self-contained task to one of these agents, and get its answer. It can't see this "
        f"conversation. Calls in one answer run concurrently.\n{_described(agents)}",
        args=args,
        agents=agents,
    )


_LOOKS = ToolTraits(read_only=True, idempotent=True, parallel_safe=True, place="anywhere")
_ACTS = ToolTraits(idempotent=True, place="anywhere")


def tools(context: FeatureContext) -> Sequence[Tool]:
    """Return the tools, unless sub-agents are turned off."""
    limits = context.settings.agent
    if not limits.children_max:
        return ()
    return child_tools(children_max=limits.children_max, depth_max=limits.children_depth_max)


def child_tools(*, children_max: int = 8, depth_max: int = 3) -> list[ChildTool]:
    """Return the tools, in the order in which the model sees them."""
    return [
        Delegate(
            "Delegate a self-contained task to a sub-agent in the same workspace, and get its answer. Calls "
            "in one answer run concurrently.",
            args=DelegateArgs,
            children_max=children_max,
            depth_max=depth_max,
        ),
        ChildTool(
            CHILD_STATUS,
            "Show the status, last output and cost of your sub-agents.",
            args=StatusArgs,
            traits=_LOOKS,
        ),
        ChildTool(
            CHILD_WAIT,
            "Wait for background sub-agents to end. Their answers arrive as messages.",
            args=WaitArgs,
            traits=_LOOKS,
        ),
        ChildTool(
            CHILD_TAIL, "Read the end of a sub-agent's transcript so far.", args=TailArgs, traits=_LOOKS
        ),
        ChildTool(
            CHILD_STEER,
            "Send a message to an active sub-agent. It reads the message before its next step.",
            args=SteerArgs,
            traits=_ACTS,
        ),
        ChildTool(CHILD_STOP, "Stop a sub-agent. Its work so far is kept.", args=ChildArgs, traits=_ACTS),
    ]
