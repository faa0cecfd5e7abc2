"""Structured output: a Python type as a schema for the model, and the answer as a value of that type."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar, Union, cast, overload

import msgspec
from msgspec import Struct

from holdfast.embedding.errors import ConfigurationError, OutputInvalid
from holdfast.embedding.results import OutputT
from holdfast.values import OutputFormat

Schema = dict[str, Any]

_A = TypeVar("_A")
_B = TypeVar("_B")
_C = TypeVar("_C")
_D = TypeVar("_D")

WRAPPED = "value"  # providers want an object; any other type is the one field of an object
_REFERENCE = "#/$defs/{name}"


class OutputType(Struct, Generic[OutputT], frozen=True):
    """What a run is to bring: the format to ask for, None for text, and how to read the answer."""

    format: OutputFormat | None
    read: Callable[[str], OutputT]

    def value(self, text: str, *, run_id: str) -> OutputT:
        """The answer as a value of the type; raises OutputInvalid."""
        try:
            return self.read(text)
        except ValueError as error:  # both msgspec and pydantic raise one
            raise OutputInvalid(
                f"The answer doesn't fit the output type: {error}. Make the type or the prompt clearer.",
                run_id=run_id,
                partial=text,
            ) from error


class OneOf(Struct, Generic[OutputT], frozen=True):
    """What `one_of` gives: a union of types."""

    kinds: tuple[type[object], ...]


@overload
def one_of(first: type[_A], second: type[_B], /) -> OneOf[_A | _B]: ...
@overload
def one_of(first: type[_A], second: type[_B], third: type[_C], /) -> OneOf[_A | _B | _C]: ...
@overload
def one_of(
    first: type[_A], second: type[_B], third: type[_C], fourth: type[_D], /
) -> OneOf[_A | _B | _C | _D]: ...
def one_of(*kinds: type[object]) -> OneOf[Any]:
    """A union as an `output_type`: the answer is a value of one of these types, and type checkers know it.

    Example::

        from dataclasses import dataclass

        from holdfast import Agent, one_of
        from holdfast.testing import Say, ScriptedModel

        @dataclass
        class City:
            name: str

        agent = Agent(ScriptedModel([Say('{"value": {"name": "Bern"}}')]))
        result = await agent.run("Where, or how far away?", output_type=one_of(City, int))
        assert result.output == City("Bern")  # Result[City | int]
    """
    return OneOf(kinds)


def output_type_of(given: type[OutputT] | OneOf[OutputT]) -> OutputType[OutputT]:
    """The output type; raises ConfigurationError if nothing can make a JSON schema of it."""
    kind = cast("type[OutputT]", Union[given.kinds]) if isinstance(given, OneOf) else given  # noqa: UP007  # of a tuple
    if isinstance(kind, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # programs without types
        raise ConfigurationError(
            f"output_type is a type, such as a dataclass or a TypedDict, and not {kind!r:.80}."
        )
    if kind is str:
        return OutputType(None, cast("Callable[[str], OutputT]", str))
    try:
        schema, read = _by_msgspec(kind)
    except TypeError as unfit:
        schema, read = _by_pydantic(kind, unfit)
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", getattr(kind, "__name__", "") or "output")[:64]
    schema, is_strict = _closed(schema)
    return OutputType(OutputFormat(name=name, schema=schema, strict=is_strict), read)


def _by_msgspec(kind: type[OutputT]) -> tuple[Schema, Callable[[str], OutputT]]:
    (root,), defs = msgspec.json.schema_components([kind], ref_template=_REFERENCE)
    whole, is_wrapped = _object(root, defs)
    decoder = msgspec.json.Decoder(_wrapper(kind) if is_wrapped else kind)

    def read(text: str) -> OutputT:
        value: Any = decoder.decode(text)
        return value.value if is_wrapped else value

    return whole, read


def _wrapper(kind: object) -> type[msgspec.Struct]:
    return msgspec.defstruct("Wrapper", [(WRAPPED, kind)])


def _by_pydantic(kind: type[OutputT], unfit: TypeError) -> tuple[Schema, Callable[[str], OutputT]]:
    """For pydantic's own models, and for unions that msgspec can't tell apart."""
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        adapter: TypeAdapter[OutputT] = TypeAdapter(cast("Any", kind))
        schema = adapter.json_schema()
    except (PydanticUserError, TypeError) as error:
        raise ConfigurationError(
            f"output_type can't be {kind!r}: {unfit}. Use a msgspec Struct, a dataclass, a TypedDict, "
            "a pydantic model or a union of those; Structs in a union need tags."
        ) from error
    defs = cast("dict[str, Schema]", schema.pop("$defs", {}))
    whole, is_wrapped = _object(schema, defs)

    def read(text: str) -> OutputT:
        if not is_wrapped:
            return adapter.validate_json(text)
        return adapter.validate_python(json.loads(text)[WRAPPED])

    return whole, read


def _object(root: Schema, defs: Mapping[str, Schema]) -> tuple[Schema, bool]:
    """The schema of an object that holds the type, and whether the object had to be added."""
    named = defs.get(str(root.get("$ref", "")).rpartition("/")[2], root)
    is_wrapped = named.get("type") != "object" or "properties" not in named
    whole: Schema = named
    if is_wrapped:
        whole = {"type": "object", "properties": {WRAPPED: root}, "required": [WRAPPED]}
    used = json.dumps([whole, *defs.values()])
    kept = {name: schema for name, schema in defs.items() if f'"{_REFERENCE.format(name=name)}"' in used}
    return ({**whole, "$defs": kept} if kept else dict(whole)), is_wrapped


def _closed(schema: Schema) -> tuple[Schema, bool]:
    """The schema without room for fields that it doesn't name, and whether providers can keep to it strictly.

    Strict providers want every field of every object to be required.
    """
    strict = True

    def close(part: Any) -> Any:
        nonlocal strict
        if isinstance(part, list):
            return [close(item) for item in cast("list[Any]", part)]
        if not isinstance(part, dict):
            return part
        given = {str(key): close(value) for key, value in cast("dict[Any, Any]", part).items()}
        if given.get("type") == "object":
            properties = given.get("properties")
            if not isinstance(properties, dict) or given.get("additionalProperties"):
                strict = False
            else:
                given["additionalProperties"] = False
                strict = strict and set(cast("Schema", properties)) == set(given.get("required", ()))
        return given

    return cast("Schema", close(schema)), strict
