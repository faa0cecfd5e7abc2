"""The tools by name: their specs for the model, and argument checks."""

import difflib
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import msgspec

from holdfast.interfaces.tool import Tool
from holdfast.messages import ToolSpec
from holdfast.tools.arguments import items, mapping, parsed, schema_error

_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
    "null": (type(None),),
}
T = TypeVar("T")
NAMED_MAX = 100
NARROWED_MAX = 64  # the sets of names that clients choose have no limit


@runtime_checkable
class HasArgsType(Protocol):
    """A tool whose arguments are a msgspec Struct."""

    args_type: type[msgspec.Struct]


class NameTaken(ValueError):
    """Two tools have the same name."""


class Registry:
    """Tools by name, in groups that are added and removed together, such as those of an MCP server."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, Tool]] = {}
        self._tools: dict[str, Tool] = {}  # of all groups
        self._narrowed: dict[frozenset[str], Registry] = {}  # by the names that each lacks
        self._prefixes: dict[str, bool] = {}  # whether names begin so
        self._made: dict[Hashable, Any] = {}

    def put(self, group: str, tools: Iterable[Tool]) -> None:
        """Set the tools of a group; raises NameTaken and changes nothing if a name is in use."""
        offered: dict[str, Tool] = {}
        earlier = self._groups.get(group, {})
        for tool in tools:
            name = tool.spec.name
            if name in offered or (name in self._tools and name not in earlier):
                raise NameTaken(f"Two tools are named {name!r}.")
            offered[name] = tool
        self._set(self._groups | {group: offered})

    def _set(self, groups: dict[str, dict[str, Tool]]) -> None:
        self._groups = groups
        self._tools = {name: tool for tools in groups.values() for name, tool in tools.items()}
        self._narrowed, self._prefixes, self._made = {}, {}, {}

    def with_group(self, group: str, tools: Sequence[Tool]) -> "Registry":
        """The registry with these as the tools of the group; raises NameTaken if a name is in use."""
        if not tools and group not in self._groups:
            return self
        copy = Registry()
        copy._set(self._groups)
        copy.put(group, tools)
        return copy

    def without(self, names: Iterable[str]) -> "Registry":
        """The registry without the tools of these names; each set of names makes one registry."""
        left_out = self._tools.keys() & names
        if not left_out:
            return self
        key = frozenset(left_out)
        known = self._narrowed.get(key)
        if known is None:
            known = Registry()
            known._set({group: _lacking(tools, key) for group, tools in self._groups.items()})
            if len(self._narrowed) >= NARROWED_MAX:
                self._narrowed.clear()
            self._narrowed[key] = known
        return known

    def only(self, names: Collection[str]) -> "Registry":
        """The registry with none but the tools of these names."""
        return self.without(self._tools.keys() - names)

    def has_any_of(self, prefix: str) -> bool:
        """Whether the name of a tool begins like this."""
        if prefix not in self._prefixes:
            self._prefixes[prefix] = any(name.startswith(prefix) for name in self._tools)
        return self._prefixes[prefix]

    def groups(self) -> dict[str, list[str]]:
        """The names of the tools by group."""
        return {group: list(tools) for group, tools in self._groups.items() if tools}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` returns for these tools, made once for each key."""
        if key not in self._made:
            if len(self._made) >= NARROWED_MAX:
                self._made.clear()
            self._made[key] = make()
        return self._made[key]

    def all(self) -> list[Tool]:
        """The tools, in their order."""
        return list(self._tools.values())

    def drop(self, group: str) -> None:
        """Forget the group's tools."""
        self._set({key: tools for key, tools in self._groups.items() if key != group})

    def get(self, name: str) -> Tool | None:
        """The tool of that name."""
        return self._tools.get(name)

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools' descriptions for the model, always in the same order, so that prompt caches work."""
        return tuple([tool.spec for tool in self._tools.values()])

    def unknown(self, name: str, *, others: Iterable[str] = ()) -> str:
        """Return the error for a call to an unknown tool. `others` are the client's tools."""
        names = [*(spec.name for spec in self.specs()), *others]
        near = difflib.get_close_matches(name[:100], names, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
        return f"Unknown tool {name[:100]!r}.{hint} Available tools: {', '.join(names[:NAMED_MAX])}{more}."


def _lacking(tools: Mapping[str, Tool], names: Collection[str]) -> dict[str, Tool]:
    return {name: tool for name, tool in tools.items() if name not in names}


def insist_on_arguments(tool: Tool, args: Mapping[str, object]) -> None:
    """Raise BadArguments, with advice for the model, if the arguments do not fit the tool."""
    if isinstance(tool, HasArgsType):
        parsed(tool.args_type, args)
    else:
        _insist_on_schema(tool.spec.schema, args)


def _insist_on_schema(schema: Mapping[str, object], args: Mapping[str, object]) -> None:
    # Names, plain types and enums at the top only: the schema's owner checks the rest.
    # A property can also be `true`, and schemas that violate the standard can contain anything.
    properties = mapping(schema.get("properties"))
    missing = [name for name in items(schema.get("required")) if isinstance(name, str) and name not in args]
    if missing:
        raise schema_error(f"missing {', '.join(missing)}", schema)
    unknown = [name for name in args if name not in properties]
    if unknown and schema.get("additionalProperties") is False:
        raise schema_error(f"unknown argument {', '.join(unknown)}", schema)
    for name, value in args.items():
        wanted = mapping(properties.get(name))
        kinds = items(wanted.get("type")) or (wanted.get("type"),)
        if all(isinstance(kind, str) for kind in kinds) and not any(_is(value, str(kind)) for kind in kinds):
            raise schema_error(f"{name} must be of type {' or '.join(map(str, kinds))}", schema)
        if (values := items(wanted.get("enum"))) and value not in values:
            raise schema_error(f"{name} is {value!r:.100}, which isn't allowed", schema)


def _is(value: object, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _JSON_TYPES.get(kind, (object,)))
