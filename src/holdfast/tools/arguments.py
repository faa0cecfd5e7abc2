"""Tool arguments: one msgspec Struct is the schema, the validation and the type; and a canonical form."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

import msgspec

from holdfast.messages import ToolSpec

S = TypeVar("S", bound=msgspec.Struct)
EXPECTED_CHARS_MAX = 4_000
NESTED_MAX = 3
_EXACT_FLOAT_MAX = 2**53
_UNDECLARED = {
    *("title", "additionalProperties", "pattern", "minimum", "maximum", "exclusiveMinimum"),
    *("exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems"),
}
_UNDECLARED_IF_EMPTY = {"default", "required", "description"}
_LIMITS = {
    "minimum": ">= {}",
    "exclusiveMinimum": "> {}",
    "maximum": "<= {}",
    "exclusiveMaximum": "< {}",
    "minLength": "of at least {} characters",
    "maxLength": "of at most {} characters",
    "minItems": "of at least {}",
    "maxItems": "of at most {}",
    "pattern": "matching {}",
}


class BadArguments(Exception):
    """The arguments do not fit the schema; the text tells the model how to fix them."""


def spec_of(name: str, description: str, *, args: type[msgspec.Struct], on_demand: bool = False) -> ToolSpec:
    """The tool as it is declared to the model."""
    return ToolSpec(name, description, declared_schema(args), on_demand)


def declared_schema(args: type[msgspec.Struct]) -> dict[str, object]:
    """The schema without anything that a model doesn't need: every run pays for each byte.

    Limits and unknown names are checked when a tool is called, and the error names them. References are
    replaced by what they refer to.
    """
    whole = schema_of(args)
    shown = _declared(whole, mapping(whole.pop("$defs", None)))
    return {"type": "object", "properties": {}, **cast("dict[str, object]", shown)}


def schema_of(args: type[msgspec.Struct]) -> dict[str, object]:
    """JSON Schema of a Struct, with nested types under $defs."""
    (whole,), defs = msgspec.json.schema_components([args], ref_template="#/$defs/{name}")
    own = cast("str", whole["$ref"]).rpartition("/")[2]
    # The Struct's name and docstring are for people who read this code.
    schema = {key: value for key, value in defs.pop(own).items() if key not in {"title", "description"}}
    return {**schema, "$defs": defs} if defs else schema


def parsed(args_type: type[S], args: Mapping[str, object]) -> S:
    """The arguments as their Struct; raises BadArguments."""
    # Models say null for "not given" and "5" for 5; both are clear enough.
    given = args
    if None in args.values():
        optional = {field.encode_name for field in msgspec.structs.fields(args_type) if not field.required}
        given = {name: value for name, value in args.items() if value is not None or name not in optional}
    try:
        return msgspec.convert(given, args_type, strict=False)
    except msgspec.ValidationError as error:
        raise schema_error(str(error), schema_of(args_type)) from error


def canonical(value: object) -> bytes:
    """JSON with sorted keys and one spelling for each number: equal arguments give equal bytes."""
    return msgspec.json.encode(_plain(value), order="sorted")


def arguments_hash(tool: str, args: Mapping[str, object]) -> str:
    """Identifies an action: the tool and its canonical arguments."""
    return hashlib.sha256(canonical([tool, args])).hexdigest()


def effect_key(run_id: str, step: int, *, ordinal: int, tool: str, args: Mapping[str, object]) -> str:
    """Identifies one effect: the same after a crash, different for every other call."""
    return f"{run_id}:{step}:{ordinal}:{arguments_hash(tool, args)}"


def schema_error(why: str, schema: Mapping[str, object]) -> BadArguments:
    """The error for arguments that do not fit a schema, with everything that it allows."""
    fields = _fields(schema, mapping(schema.get("$defs")), depth=0)
    text = fields if len(fields) <= EXPECTED_CHARS_MAX else f"{fields[:EXPECTED_CHARS_MAX]}…"
    return BadArguments(f"Invalid arguments: {why}. Expected: {text or 'no arguments'}.")


def mapping(value: object) -> Mapping[str, object]:
    """An object of a schema; empty if it's something else, since a schema can come from anywhere."""
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def items(value: object) -> Sequence[object]:
    """A list of a schema; empty if it's something else."""
    return cast("list[object]", value) if isinstance(value, list) else ()


def _fields(schema: Mapping[str, object], defs: Mapping[str, object], *, depth: int) -> str:
    required = items(schema.get("required"))
    told: list[str] = []
    for name, each in mapping(schema.get("properties")).items():
        kind = _kind(mapping(each), defs, depth=depth)
        about = [*([kind] if kind else []), *([] if name in required else ["optional"])]
        told.append(f"{name} ({', '.join(about)})" if about else name)
    return "; ".join(told) if depth == 0 else ", ".join(told)


def _kind(schema: Mapping[str, object], defs: Mapping[str, object], *, depth: int) -> str:
    """A value's type and limits, in words."""
    if depth > NESTED_MAX:
        return ""
    if isinstance(ref := schema.get("$ref"), str):
        schema = mapping(defs.get(ref.rpartition("/")[2]))
    if values := items(schema.get("enum")):
        return f"one of {', '.join(msgspec.json.encode(value).decode() for value in values)}"
    if variants := items(schema.get("anyOf")):
        kinds = (_kind(mapping(variant), defs, depth=depth + 1) for variant in variants)
        return " or ".join(kind for kind in kinds if kind and kind != "null")
    if schema.get("properties"):
        return f"object with {_fields(schema, defs, depth=depth + 1)}"
    if inner := _kind(mapping(schema.get("items")), defs, depth=depth + 1):
        return f"array of {inner}"
    kind = schema.get("type")
    kinds = [kind] if isinstance(kind, str) else [each for each in items(kind) if isinstance(each, str)]
    limits = [words.format(schema[key]) for key, words in _LIMITS.items() if key in schema]
    return " ".join([" or ".join(kinds), *limits]).strip()


def _declared(value: object, defs: Mapping[str, object]) -> object:
    if isinstance(value, list):
        return [_declared(item, defs) for item in cast("list[object]", value)]
    if not isinstance(value, Mapping):
        return value
    schema = dict(cast("Mapping[str, object]", value))
    variants = [one for one in items(schema.get("anyOf")) if one != {"type": "null"}]
    if len(variants) == 1:
        del schema["anyOf"]
        schema |= mapping(variants[0])
    if isinstance(ref := schema.pop("$ref", None), str):
        # The docstring of a Struct is for people who read this code.
        schema = {**mapping(defs[ref.rpartition("/")[2]]), "description": "", **schema}
    shown: dict[str, object] = {}
    for key, item in schema.items():
        if key == "properties":
            shown[key] = {name: _declared(one, defs) for name, one in mapping(item).items()}
        elif key not in _UNDECLARED and not (key in _UNDECLARED_IF_EMPTY and _is_empty(item)):
            shown[key] = _declared(item, defs)
    return shown


def _is_empty(value: object) -> bool:
    return not value or (
        isinstance(value, Mapping) and all(map(_is_empty, mapping(cast("object", value)).values()))
    )


def _plain(value: object) -> object:
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_FLOAT_MAX:
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("list[object]", value)]
    return value
