"""The tools by name: what the model is told, and whether its arguments fit."""

import difflib
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol, runtime_checkable

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

    def put(self, group: str, tools: Iterable[Tool]) -> None:
        """Set the tools of a group; raises NameTaken and changes nothing if a name is in use."""
        offered: dict[str, Tool] = {}
        for tool in tools:
            name = tool.spec.name
            taken = name in offered or any(
                name in others for key, others in self._groups.items() if key != group
            )
            if taken:
                raise NameTaken(f"There are two tools named {name!r}.")
            offered[name] = tool
        self._groups[group] = offered

    def with_group(self, group: str, tools: Iterable[Tool]) -> "Registry":
        """A copy in which these are the tools of the group; raises NameTaken if a name is in use."""
        copy = Registry()
        copy._groups = dict(self._groups)
        copy.put(group, tools)
        return copy

    def without(self, name: str) -> "Registry":
        """A copy that lacks the tool of this name."""
        copy = Registry()
        for group, tools in self._groups.items():
            copy._groups[group] = {key: tool for key, tool in tools.items() if key != name}
        return copy

    def only(self, names: Collection[str]) -> "Registry":
        """A copy with none but the tools of these names."""
        copy = Registry()
        for group, tools in self._groups.items():
            copy._groups[group] = {key: tool for key, tool in tools.items() if key in names}
        return copy

    def all(self) -> list[Tool]:
        """The tools, in their order."""
        return [tool for tools in self._groups.values() for tool in tools.values()]

    def drop(self, group: str) -> None:
        """Forget the group's tools."""
        self._groups.pop(group, None)

    def get(self, name: str) -> Tool | None:
        """The tool of that name."""
        return next((tools[name] for tools in self._groups.values() if name in tools), None)

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools' descriptions for the model, always in the same order, so that prompt caches work."""
        return tuple(tool.spec for tools in self._groups.values() for tool in tools.values())

    def unknown(self, name: str, *, others: Iterable[str] = ()) -> str:
        """What the model is told when it calls an unknown tool; `others` are those of its client."""
        names = [*(spec.name for spec in self.specs()), *others]
        near = difflib.get_close_matches(name[:100], names, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        return f"There is no tool {name[:100]!r}.{hint} The tools are: {', '.join(names)}."


def insist_on_arguments(tool: Tool, args: Mapping[str, object]) -> None:
    """Raise BadArguments, with advice for the model, if the arguments do not fit the tool."""
    if isinstance(tool, HasArgsType):
        parsed(tool.args_type, args)
    else:
        _insist_on_schema(tool.spec.schema, args)


def _insist_on_schema(schema: Mapping[str, object], args: Mapping[str, object]) -> None:
    # Names, plain types and enums at the top only: the schema's owner checks the rest.
    # A property may also be `true`, and whoever is not kept to the standard may put anything anywhere.
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
            raise schema_error(f"{name} has a value that isn't allowed", schema)


def _is(value: object, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _JSON_TYPES.get(kind, (object,)))
