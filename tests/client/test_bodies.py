"""The bodies that server and client share, as a client of an earlier version meets them."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from holdfast.api.body import ResponseBody
from holdfast.api.operations import OPERATIONS
from holdfast.api.runs import RunShown
from holdfast.client.errors import refusal


def responses() -> list[type[ResponseBody]]:
    """Every struct that an operation returns as JSON."""
    kinds: list[Any] = [kind for one in OPERATIONS for kind in one.response_types()]
    found = {kind.__name__: kind for kind in kinds if hasattr(kind, "__struct_fields__")}
    return [found[name] for name in sorted(found)]


def required(kind: type[ResponseBody]) -> dict[str, Any]:
    """The least that a server sends of it."""
    (schema,), components = msgspec.json.schema_components([kind], ref_template="{name}")
    return least(components, schema)


def least(components: Mapping[str, Any], schema: Mapping[str, Any]) -> Any:
    if "$ref" in schema:
        schema = components[schema["$ref"]]
    if "anyOf" in schema:
        return least(components, schema["anyOf"][0])
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("type") == "object":
        fields = schema.get("properties", {})
        return {name: least(components, fields[name]) for name in schema.get("required", ())}
    values: dict[str, Any] = {"string": "x", "integer": 1, "number": 1.5, "boolean": True, "array": ()}
    return values.get(schema["type"])


@pytest.mark.parametrize("kind", responses())
def test_fields_of_a_later_server_are_passed_over(kind: type[ResponseBody]) -> None:
    body = required(kind)
    later = msgspec.json.decode(msgspec.json.encode(body | {"later": {"a": [1]}}), type=kind)
    assert later == msgspec.convert(body, kind)
    assert msgspec.to_builtins(later).keys() == body.keys(), "what is left out on the wire stays left out"


def test_a_status_of_a_later_server_is_passed_on() -> None:
    body = required(RunShown) | {"status": "hibernating"}
    assert msgspec.convert(body, RunShown).status == "hibernating"


def test_an_error_of_something_in_between_still_says_what_is_wrong() -> None:
    error = refusal(502, b'{"error": {"message": "no upstream", "kind": "proxy"}}', retry_after="")
    assert (error.message, error.code, error.param) == ("no upstream", "", None)
