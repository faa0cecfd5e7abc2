"""Requests that no server should act on: made from its OpenAPI document, and repeatable by a seed."""

import json
import random
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct, field

Schema: TypeAlias = Mapping[str, Any]

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
NO_IDS = ("x", "%00", "%ff", "..%2f..", "a" * 300, "%F0%9F%92%A5", "run_" + "0" * 32, "-1", "null", "%20")
NO_PATHS = (
    "/v1/nowhere",
    "/v1/nowhere",
    "/api/jobs",
    "/p/me/v1/runs",
    "/v1/runs/x/y/z",
    "/api/",
)
NO_JSON = (
    b"{",
    b'{"input": "x',
    b"\xff\xfe{}",
    b'{"a": \x00}',
    b"[1,]",
    b'{"input": "\\ud800"}',
    b"{}{}",
    b"'x'",
)
NO_OBJECTS = (b"[]", b"7", b'"text"', b"true", b"[{}]")
TOO_DEEP = b'{"metadata": ' + b"[" * 100 + b"]" * 100 + b"}"
# Values by their JSON Schema type.
VALUES: Mapping[str, tuple[Any, ...]] = {
    "boolean": (True, False),
    "number": (0.5, -1, 10**30),
    "string": ("", "x", "é\u202e"),
    "array": ([], [[]], [None]),
    "object": ({}, {"x": 1}),
}


class BadRequest(Struct, frozen=True):
    """One request; `target` is percent-encoded already."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None


def bad_requests(document: Mapping[str, Any], *, seed: int) -> Iterator[BadRequest]:
    """An endless series; a server must refuse each of them, or find nothing."""
    return _BadRequests(document, random.Random(seed)).all()  # a seed is what is wanted


class _BadRequests:
    def __init__(self, document: Mapping[str, Any], rng: random.Random) -> None:
        self._rng = rng
        self._schemas: Mapping[str, Schema] = document["components"]["schemas"]
        self._paths: Mapping[str, Mapping[str, Any]] = document["paths"]
        self._with_body = [
            (path, method, operation)
            for path, methods in self._paths.items()
            for method, operation in methods.items()
            if "application/json" in operation.get("requestBody", {}).get("content", {})
        ]
        self._with_id = [(path, methods) for path, methods in self._paths.items() if "{" in path]

    def all(self) -> Iterator[BadRequest]:
        ways = (self._bad_body, self._bad_field, self._no_such_id, self._no_such_path, self._bad_method)
        while True:
            yield self._rng.choices(ways, weights=(3, 4, 3, 1, 1))[0]()

    def _bad_body(self) -> BadRequest:
        """A body that isn't JSON, isn't an object, or is nested too deeply."""
        path, method, _ = self._rng.choice(self._with_body)
        body = self._rng.choice((*NO_JSON, *NO_OBJECTS, TOO_DEEP))
        return BadRequest(method.upper(), self._filled(path), body=body)

    def _bad_field(self) -> BadRequest:
        """A valid body, except for one field of the wrong type."""
        path, method, operation = self._rng.choice(self._with_body)
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        schema = self._resolved(schema.get("anyOf", [schema])[0])
        wrong = [
            (name, kinds)
            for name, one in schema.get("properties", {}).items()  # a relayed body may hold anything
            if (kinds := self._others(one)) and name not in {"input", "message"}
        ]
        if not wrong:
            return self._bad_body()
        name, kinds = self._rng.choice(wrong)
        body = {"input": "hi", "messages": [{"role": "user", "content": "hi"}], "choice": "once", "name": "n"}
        body = {known: value for known, value in body.items() if known in schema["properties"]}
        body[name] = self._rng.choice(VALUES[self._rng.choice(kinds)])
        return BadRequest(method.upper(), self._filled(path), body=json.dumps(body).encode())

    def _no_such_id(self) -> BadRequest:
        path, methods = self._rng.choice(self._with_id)
        method = self._rng.choice(list(methods)).upper()
        body = b"" if method in {"GET", "DELETE"} else self._rng.choice(NO_JSON)
        query = self._rng.choice(("", "?limit=0", "?limit=x", "?cursor=%ff", "?view=x", "?after=-1"))
        return BadRequest(method, self._filled(path) + query, body=body or None)

    def _no_such_path(self) -> BadRequest:
        return BadRequest(self._rng.choice(METHODS), self._rng.choice(NO_PATHS), body=b"{}")

    def _bad_method(self) -> BadRequest:
        path, methods = self._rng.choice(list(self._paths.items()))
        others = [method for method in METHODS if method.lower() not in methods]
        return BadRequest(self._rng.choice(others), self._filled(path), body=b"{}")

    def _filled(self, path: str) -> str:
        while "{" in path:
            before, _, rest = path.partition("{")
            path = before + self._rng.choice(NO_IDS) + rest.partition("}")[2]
        return path

    def _others(self, schema: Schema) -> list[str]:
        """The types that the schema does not take."""
        taken = self._taken(schema)
        return [kind for kind in VALUES if kind not in taken] if taken else []

    def _taken(self, schema: Schema) -> set[str]:
        schema = self._resolved(schema)
        if "anyOf" in schema:
            branches = [self._taken(one) for one in schema["anyOf"]]
            return {kind for branch in branches for kind in branch} if all(branches) else set()
        if "enum" in schema:
            return {"string", "number", "boolean"}
        kind = schema.get("type")
        return {"number" if kind == "integer" else kind} if isinstance(kind, str) else set()

    def _resolved(self, schema: Schema) -> Schema:
        return self._schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
