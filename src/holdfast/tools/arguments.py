"""Tool arguments: one msgspec Struct is the schema, the validation and the type; and a canonical form."""

import hashlib
from collections.abc import Mapping
from typing import TypeVar, cast

import msgspec

from holdfast.messages import ToolSpec

S = TypeVar("S", bound=msgspec.Struct)
_EXACT_FLOAT_MAX = 2**53


class BadArguments(Exception):
    """The arguments do not fit the schema; the text tells the model how to fix them."""


def spec_of(name: str, description: str, *, args: type[msgspec.Struct]) -> ToolSpec:
    """The tool's description for the model."""
    return ToolSpec(name=name, description=description, schema=schema_of(args))


def schema_of(args: type[msgspec.Struct]) -> dict[str, object]:
    """JSON Schema of a Struct, with nested types under $defs."""
    (whole,), defs = msgspec.json.schema_components([args], ref_template="#/$defs/{name}")
    own = cast("str", whole["$ref"]).rpartition("/")[2]
    # The Struct's name and docstring are for people who read this code.
    schema = {key: value for key, value in defs.pop(own).items() if key not in {"title", "description"}}
    return {**schema, "$defs": defs} if defs else schema


def parsed(args_type: type[S], args: Mapping[str, object]) -> S:
    """The arguments as their Struct; raises BadArguments."""
    optional = {field.encode_name for field in msgspec.structs.fields(args_type) if not field.required}
    # Models say null for "not given" and "5" for 5; both are clear enough.
    given = {name: value for name, value in args.items() if value is not None or name not in optional}
    try:
        return msgspec.convert(given, args_type, strict=False)
    except msgspec.ValidationError as error:
        fields = ", ".join(_described(field) for field in msgspec.structs.fields(args_type))
        raise BadArguments(f"The arguments do not fit: {error}. Expected: {fields}.") from error


def canonical(value: object) -> bytes:
    """JSON with sorted keys and one spelling for each number: equal arguments give equal bytes."""
    return msgspec.json.encode(_plain(value), order="sorted")


def arguments_hash(tool: str, args: Mapping[str, object]) -> str:
    """Identifies an action: the tool and its canonical arguments."""
    return hashlib.sha256(canonical([tool, args])).hexdigest()


def effect_key(run_id: str, step: int, *, ordinal: int, tool: str, args: Mapping[str, object]) -> str:
    """Identifies one effect: the same after a crash, different for every other call."""
    return f"{run_id}:{step}:{ordinal}:{arguments_hash(tool, args)}"


def _described(field: msgspec.structs.FieldInfo) -> str:
    return field.encode_name if field.required else f"{field.encode_name} (optional)"


def _plain(value: object) -> object:
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_FLOAT_MAX:
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("list[object]", value)]
    return value
