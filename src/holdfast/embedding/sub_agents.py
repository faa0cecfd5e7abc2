"""Sub-agents that a program describes, and the tool with which the model chooses among them."""

import re
from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec import Struct

from holdfast.catalog import FEATURES
from holdfast.embedding.errors import ConfigurationError
from holdfast.embedding.model_names import ModelServer
from holdfast.interfaces.tool import Tool
from holdfast.targets import Target
from holdfast.tools.functions import FunctionTool

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class SubAgent(Struct, frozen=True, kw_only=True):
    """An agent that your agent can give a task to: it works in its own session, and answers once.

    The model chooses by `name` and `description`. A sub-agent sees its `instructions` and the task, not the
    conversation, and has only its own `tools`. Its `model` is one of the agent's models; by default, the
    first. It shares the budget of the run that started it, and is stopped with it. After a crash, both
    continue.

    Example::

        from holdfast import Agent, SubAgent
        from holdfast.testing import Call, Say, ScriptedModel

        critic = SubAgent(name="critic", description="Finds mistakes in a text.", instructions="Be brief.")
        call = Call("delegate", agent="critic", task="Check: 2 + 3 = 6")
        agent = Agent(ScriptedModel([call, Say("Wrong."), Say("It is 5, not 6.")]), agents=[critic])
        assert (await agent.run("Is 2 + 3 = 6?")).output == "It is 5, not 6."
    """

    name: str
    description: str
    instructions: str = ""
    tools: tuple[Callable[..., object] | Tool, ...] | list[Callable[..., object] | Tool] = ()
    model: str = ""


class Team(Struct, frozen=True):
    """An agent's tools with those of its sub-agents, if it has any."""

    tools: tuple[Tool, ...] = ()
    has_agents: bool = False
    hidden: frozenset[str] = frozenset()  # the tools that the agent itself doesn't have


MakeTool: TypeAlias = Callable[[object], Tool]


def team_of(
    own: Iterable[Tool], agents: object, *, models: Iterable[Target | ModelServer], tool_of: MakeTool
) -> Team:
    """The agent's tools and its sub-agents; raises TypeError or ConfigurationError."""
    tools = list(own)
    given = _checked(agents)
    if not given:
        return Team(tuple(tools))
    known = [model.name for model in models if isinstance(model, Target)]
    of_own = {tool.spec.name for tool in tools}
    by_name = {tool.spec.name: tool for tool in tools}
    delegation = FEATURES.get("delegation")
    if delegation is None:
        raise ConfigurationError("agents needs the feature delegation, which isn't installed.")
    named_agent, named = delegation.part("tools:NamedAgent"), dict[str, object]()
    for agent in given:
        if agent.name in named:
            raise ConfigurationError(f"agents: two are named {agent.name!r}; give each its own name.")
        if agent.model and agent.model not in known:
            raise ConfigurationError(
                f"agents: the model of {agent.name!r} is none of the agent's models ({', '.join(known)}). "
                "Add it to them."
            )
        made = [tool_of(tool) for tool in agent.tools]
        for tool in made:
            if not _is_same(by_name.setdefault(tool.spec.name, tool), tool):
                raise ConfigurationError(
                    f"agents: {agent.name!r} has another tool named {tool.spec.name!r}. Rename one with "
                    "@tool(name=…)."
                )
        names = tuple([tool.spec.name for tool in made])
        named[agent.name] = named_agent(
            description=agent.description, instructions=agent.instructions, tools=names, model=agent.model
        )
    delegate: Tool = delegation.part("tools:delegate_to")(named)
    if delegate.spec.name in by_name:
        raise ConfigurationError(f"agents: {delegate.spec.name!r} can't be the name of one of your tools.")
    return Team((*by_name.values(), delegate), True, frozenset(by_name.keys() - of_own))


def _is_same(one: Tool, other: Tool) -> bool:
    if isinstance(one, FunctionTool) and isinstance(other, FunctionTool):
        return one.function == other.function and one.traits == other.traits
    return one is other


def _checked(agents: object) -> list[SubAgent]:
    if not isinstance(agents, Iterable) or isinstance(agents, str | bytes):
        raise TypeError(f"agents is a list of SubAgents, and not {agents!r:.80}.")
    found: list[SubAgent] = []
    for one in agents:  # pyright: ignore[reportUnknownVariableType]  # looked at next
        if not isinstance(one, SubAgent):
            raise TypeError(f"agents is a list of SubAgents, and one of it is {one!r:.80}.")
        if not _NAME.fullmatch(one.name):
            raise ConfigurationError(
                f"agents: {one.name!r} can't be a name: use up to 64 letters, digits, _ and -."
            )
        if not one.description.strip():
            raise ConfigurationError(
                f"agents: give {one.name!r} a description, so that the model can choose."
            )
        found.append(one)
    return found
