"""Tools on demand: the model isn't sent their declarations, but finds and calls them with two tools."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from typing_extensions import override

from holdfast.interfaces.tool import Tool, ToolCall, ToolResult, ToolTraits
from holdfast.messages import ToolSpec
from holdfast.policy.tool_names import CALL_TOOL, FIND_TOOLS, MCP_PREFIX
from holdfast.tools.arguments import BadArguments, arguments_hash, mapping, spec_of
from holdfast.tools.registry import Registry
from holdfast.values import Action

GROUP = "on_demand"
FOUND_MAX = 5
FOUND_CHARS_MAX = 16_000
NAMED_MAX = 100
CALL_ONE = f'[Call one with {CALL_TOOL}: {{"name": "…", "arguments": {{…}}}}.]'
_WORD = re.compile(r"[^\W_]{2,}")
_STEM_CHARS = 4
_NAME_ONE = f"{CALL_TOOL} only calls tools that {FIND_TOOLS} returns. Call other tools directly."
_WAYS = frozenset({FIND_TOOLS, CALL_TOOL})
_FIRST_SENTENCE = re.compile(r".*?(?:\.(?=\s|$)|$)", re.DOTALL)


class FindToolsArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which tools."""

    query: Annotated[str, Meta(max_length=500, description="Names or words. Default: list all.")] = ""


class CallToolArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call of another tool."""

    name: Annotated[str, Meta(min_length=1)]
    arguments: dict[str, Any] = {}  # msgspec makes a new one each time


class FindTools(Tool):
    """Describes tools that aren't declared; the agent loop knows which ones the run has."""

    args_type = FindToolsArgs
    spec = spec_of(
        FIND_TOOLS, f"Find more tools. Returns their arguments, for {CALL_TOOL}.", args=FindToolsArgs
    )
    traits = ToolTraits(read_only=True, parallel_safe=True, place="anywhere")

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        return Action(tool=FIND_TOOLS, summary="find tools", digest=arguments_hash(FIND_TOOLS, args))

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        return ToolResult("This only works inside an agent run.", ok=False)


class CallFoundTool(Tool):
    """Calls another tool. A valid call is recorded as one of that tool, so only invalid ones get here."""

    args_type = CallToolArgs
    spec = spec_of(CALL_TOOL, f"Call a tool that {FIND_TOOLS} returned.", args=CallToolArgs)
    traits = ToolTraits(read_only=True, place="anywhere")

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        raise BadArguments(f"Not run: {_NAME_ONE}")

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        return ToolResult(_NAME_ONE, ok=False)


class DeclaredTools(Struct, frozen=True, dict=True):
    """The tools of a run: those that are declared to the model, and those that it can find."""

    specs: tuple[ToolSpec, ...]
    hidden: tuple[ToolSpec, ...] = ()

    @property
    def call_tool(self) -> str:
        """The name of the tool that calls hidden ones; empty if there are none."""
        return CALL_TOOL if self.hidden else ""

    @cached_property
    def hidden_names(self) -> str:
        """The names of the tools that it can find, for the system text."""
        return listed(self.hidden)


def with_finder(tools: Registry) -> Registry:
    """The registry with the two tools, if one of its tools is rarely used."""
    if tools.get(FIND_TOOLS) is not None or not any(tool.spec.on_demand for tool in tools.all()):
        return tools
    return (
        tools if tools.get(CALL_TOOL) is not None else tools.with_group(GROUP, [FindTools(), CallFoundTool()])
    )


def declared(
    tools: Registry,
    *,
    named: Collection[str] = (),
    left_out: Collection[str] = (),
    others: Iterable[str] = (),
) -> DeclaredTools:
    """Choose what to declare: all but the rarely used tools that aren't `named`.

    All of them are, if the two tools are missing or a client's tool (`others`) has the name of one.
    """
    key = frozenset(named), frozenset(left_out), _WAYS.intersection(others)
    return tools.once(key, partial(_declared, tools, *key))


def _declared(
    tools: Registry, named: frozenset[str], left_out: frozenset[str], taken: frozenset[str]
) -> DeclaredTools:
    specs = [tool.spec for tool in tools.all() if tool.spec.name not in left_out]
    can_hide = isinstance(tools.get(CALL_TOOL), CallFoundTool) and isinstance(
        tools.get(FIND_TOOLS), FindTools
    )
    hidden = tuple([spec for spec in specs if spec.on_demand and spec.name not in named])
    if not hidden or not can_hide or taken:
        return DeclaredTools(tuple([spec for spec in specs if spec.name not in _WAYS or not can_hide]))
    return DeclaredTools(tuple([spec for spec in specs if not spec.on_demand or spec.name in named]), hidden)


def listed(specs: Sequence[ToolSpec]) -> str:
    """The names of hidden tools for the system text; those of an MCP server as one."""
    names: dict[str, int] = {}
    for spec in specs:
        server, _, tool = spec.name.removeprefix(MCP_PREFIX).partition("__")
        is_mcp = spec.name.startswith(MCP_PREFIX) and bool(tool)
        name = f"{MCP_PREFIX}{server}__*" if is_mcp else spec.name
        names[name] = names.get(name, 0) + 1
    shown = [f"{name} ({count})" if name.endswith("*") else name for name, count in sorted(names.items())]
    return ", ".join(shown[:NAMED_MAX])


def matching_tools(specs: Sequence[ToolSpec], query: str) -> ToolResult:
    """The tools that fit the query best, with their arguments; or else the names of all."""
    words = _words(query)
    scored = [(_score(spec, words), spec) for spec in specs]
    fitting = [spec for score, spec in sorted(scored, key=lambda one: -one[0]) if score]
    lines: list[str] = []
    chars = 0
    for spec in fitting[:FOUND_MAX]:
        line = msgspec.json.encode(
            {"name": spec.name, "description": spec.description, "arguments": spec.schema}
        ).decode()
        chars += len(line)
        if lines and chars > FOUND_CHARS_MAX:
            break
        lines.append(line)
    if lines:
        more = [spec.name for spec in fitting[len(lines) :]][:NAMED_MAX]
        return ToolResult(
            "\n".join([*lines, *([f"Also: {', '.join(more)}."] if more else [])]), advice=CALL_ONE
        )
    names = [f"{spec.name}: {_first_sentence(spec)}" for spec in specs[:NAMED_MAX]]
    left = [f"[{len(specs) - NAMED_MAX} more]"] if len(specs) > NAMED_MAX else []
    head = ["No tool fits these words. All of them:"] if words else []
    return ToolResult("\n".join([*head, *names, *left]) or "There are no more tools.", ok=not head)


def _first_sentence(spec: ToolSpec) -> str:
    match = _FIRST_SENTENCE.match(spec.description)
    return match[0] if match is not None else ""


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


def _score(spec: ToolSpec, words: set[str]) -> int:
    arguments = " ".join(mapping(spec.schema.get("properties")))
    in_name, in_text = _words(spec.name), _words(f"{spec.description} {arguments}")
    return sum(3 if _fits(word, in_name) else 1 if _fits(word, in_text) else 0 for word in words)


def _fits(word: str, others: set[str]) -> bool:
    """Whether the word, or one that begins like it, is among these: `schedules` fits `schedule`."""
    return word in others or any(
        len(one) >= _STEM_CHARS
        and len(word) >= _STEM_CHARS
        and (one.startswith(word) or word.startswith(one))
        for one in others
    )
