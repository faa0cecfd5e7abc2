"""A Python function's signature as the Struct of its arguments."""

import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from holdfast.tools.context import ToolContext

_ARGUMENT = re.compile(r"\s+(\w+)(?:\s*\([^)]*\))?:\s+(.+)")


class CannotBeTool(TypeError):
    """The function cannot be a tool; the text says what to change."""


def arguments_struct(function: Callable[..., object]) -> type[msgspec.Struct]:
    """The Struct of a function's arguments; raises CannotBeTool."""
    hints = _hints(function)
    described = _described(function)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for parameter in list(inspect.signature(function).parameters.values())[takes_context(function) :]:
        name = parameter.name
        if parameter.kind not in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
            raise CannotBeTool(
                f"{function.__qualname__}: models pass arguments by name, so {name!r} isn't allowed."
            )
        if name not in hints:
            raise CannotBeTool(f"{function.__qualname__}: add a type to {name!r} for the model.")
        kind = hints[name]
        if name in described:
            kind = Annotated[kind, Meta(description=described[name])]
        fields.append(
            (name, kind) if parameter.default is parameter.empty else (name, kind, parameter.default)
        )
    try:
        struct = msgspec.defstruct(
            _struct_name(function), fields, kw_only=True, frozen=True, forbid_unknown_fields=True
        )
        msgspec.json.schema(struct)
    except TypeError as error:
        raise CannotBeTool(f"{function.__qualname__}: {error}") from error
    return struct


def takes_context(function: Callable[..., object]) -> bool:
    """Whether the function's first parameter is its ToolContext."""
    first = next(iter(inspect.signature(function).parameters), "")
    kind = _hints(function).get(first)
    return kind is ToolContext or get_origin(kind) is ToolContext


def _hints(function: Callable[..., object]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise CannotBeTool(
            f"{function.__qualname__}: {error}. Define the types of a tool at the top level of its module."
        ) from error


def description_of(function: Callable[..., object]) -> str:
    """The description for the model: the docstring up to its list of arguments; raises CannotBeTool."""
    text = inspect.getdoc(function) or ""
    told = re.split(r"\n\s*(?:Args|Arguments|Parameters):\s*\n", text)[0].strip()
    if not told:
        raise CannotBeTool(f"{function.__qualname__}: add a docstring that tells the model what it does.")
    return told


def _described(function: Callable[..., object]) -> dict[str, str]:
    parts = re.split(r"\n\s*(?:Args|Arguments|Parameters):\s*\n", inspect.getdoc(function) or "")
    if len(parts) == 1:
        return {}
    found = (_ARGUMENT.match(line) for line in parts[1].splitlines())
    return {match[1]: match[2].strip() for match in found if match}


def _struct_name(function: Callable[..., object]) -> str:
    return re.sub(r"\W", "_", function.__name__).title().replace("_", "") + "Args"
