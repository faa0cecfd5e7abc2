"""Translates msgspec's errors, which name Python types, to errors about JSON fields."""

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec
import msgspec.inspect

from holdfast.server.problems import Problem, bad_request

_FIELD = re.compile(r"`\$(?:\.(?P<field>[^`\s]*))?`")
_MISSING = re.compile(r"missing required field `(?P<field>[^`]+)`")
_UNKNOWN = re.compile(r"contains unknown field `(?P<field>[^`]+)`")
_ENUM = re.compile(r"Invalid enum value (?P<value>.+)")
_EXPECTED = re.compile(
    r"Expected `(?P<kinds>[^`]+)`(?P<length> of length)?(?: (?P<bound><=|>=|<|>|==) (?P<limit>\S+?))?"
    r"(?:, got `(?P<got>[^`]+)`)?"
)
_KINDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than", "==": "exactly"}
_NO_CHOICE: Mapping[str, Sequence[str]] = MappingProxyType({})


def choices_of(kind: type) -> Mapping[str, Sequence[str]]:
    """The allowed words of each field that takes only certain words."""
    found = msgspec.inspect.type_info(kind)
    fields = found.fields if isinstance(found, msgspec.inspect.StructType) else ()
    return {field.encode_name: [*_choices(field.type)] for field in fields}


def _choices(kind: msgspec.inspect.Type) -> Iterator[str]:
    match kind:
        case msgspec.inspect.Metadata():
            yield from _choices(kind.type)
        case msgspec.inspect.UnionType():
            for one in kind.types:
                yield from _choices(one)
        case msgspec.inspect.LiteralType():
            yield from (str(value) for value in kind.values if value != "")
        case _:
            pass


def field_problem(
    error: msgspec.ValidationError, *, inside: str = "", choices: Mapping[str, Sequence[str]] = _NO_CHOICE
) -> Problem:
    """The problem that names the field and what it must be; `inside` is the part of the body it's in."""
    said = str(error)
    reason, _, _ = said.partition(" - at `")
    place = _FIELD.search(said)
    field = (place["field"] or "") if place else ""
    if missing := _MISSING.search(said):
        field = f"{field}.{missing['field']}" if field else missing["field"]
    param = f"{inside}.{field}" if inside and field else inside or field
    param = param.replace(".[", "[").replace("[...]", "[]")
    if missing:
        return bad_request(f"'{param}' is missing", param=param)
    if not param and (unknown := _UNKNOWN.search(reason)):
        text = f"Unknown field '{unknown['field']}'. The fields are {', '.join(choices)}"
        return bad_request(text, param=unknown["field"], code="unknown_field")
    if not param:
        return bad_request(f"The body must be a JSON object{_instead(reason)}")
    return bad_request(f"Invalid '{param}': {_sentence(reason, choices.get(param, ()))}", param=param)


def _instead(reason: str) -> str:
    expected = _EXPECTED.fullmatch(reason)
    return f", not {_KINDS.get(expected['got'], expected['got'])}" if expected and expected["got"] else ""


def _sentence(reason: str, choices: Sequence[str]) -> str:
    if enum := _ENUM.fullmatch(reason):
        return f"it must be one of {', '.join(choices)}, not {enum['value']}" if choices else reason
    if unknown := _UNKNOWN.search(reason):
        return f"unknown field {unknown['field']!r}"
    expected = _EXPECTED.fullmatch(reason)
    if expected is None:
        return reason
    kinds = [_KINDS.get(one, one) for one in expected["kinds"].split(" | ")]
    return f"it must be {' or '.join(kinds)}{_bounds(expected, kinds[0])}{_instead(reason)}"


def _bounds(expected: re.Match[str], kind: str) -> str:
    if not expected["bound"]:
        return ""
    limit = f"{_BOUNDS[expected['bound']]} {expected['limit']}"
    if not expected["length"]:
        return f", {limit}"
    one, many = ("character", "characters") if kind == "text" else ("entry", "entries")
    return f" with {limit} {one if expected['limit'] == '1' else many}"
