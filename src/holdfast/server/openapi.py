"""The description of the API: generated from the route table and the bodies that it decodes."""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from holdfast import __version__
from holdfast.server import run_inputs, session_log, session_queue, sessions
from holdfast.server.bodies import raw_answer
from holdfast.server.openai_chat import ChatRequest
from holdfast.server.openai_responses import ResponsesRequest
from holdfast.server.run_requests import RunRequest
from holdfast.server.signing_in import SignInRequest

_PARAMETER = re.compile(r"{(\w+)}")
_NO_KEY = frozenset({"/health", "/v1/health", "/api/sign-in"})
_SESSION = "/api/sessions/{session_id}"

BODIES: Mapping[tuple[str, str], type[msgspec.Struct]] = MappingProxyType(
    {
        ("POST", "/v1/runs"): RunRequest,
        ("POST", "/v1/runs/{run_id}/stop"): run_inputs.StopRequest,
        ("POST", "/v1/runs/{run_id}/cancel"): run_inputs.StopRequest,
        ("POST", "/v1/runs/{run_id}/approval"): run_inputs.ApprovalRequest,
        ("POST", "/v1/runs/{run_id}/question/{question_id}"): run_inputs.AnswerRequest,
        ("POST", "/v1/runs/{run_id}/steer"): run_inputs.SayRequest,
        ("POST", "/v1/runs/{run_id}/messages"): run_inputs.SayRequest,
        ("POST", "/v1/runs/{run_id}/gate"): run_inputs.GateRequest,
        ("POST", "/api/sessions"): sessions.NewSession,
        ("PATCH", _SESSION): sessions.SessionChange,
        ("PUT", _SESSION + "/draft"): sessions.Draft,
        ("POST", _SESSION + "/fork"): session_log.ForkRequest,
        ("POST", _SESSION + "/rewind"): session_log.RewindRequest,
        ("POST", _SESSION + "/chat"): RunRequest,
        ("POST", _SESSION + "/chat/stream"): RunRequest,
        ("PATCH", _SESSION + "/queue/{message_id}"): session_queue.MessageChange,
        ("POST", "/api/sign-in"): SignInRequest,
        ("POST", "/v1/chat/completions"): ChatRequest,
        ("POST", "/v1/responses"): ResponsesRequest,
    }
)
_QUERIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "/v1/runs": ("status", "session_id", "limit", "cursor"),
        "/v1/runs/{run_id}/events": ("after", "cursor", "view"),
        "/v1/runs/{run_id}/approval/{approval_id}/rule": ("choice",),
        "/api/sessions": ("limit", "cursor", "q", "archived", "all"),
        _SESSION + "/messages": ("limit", "before"),
        _SESSION + "/events": ("after",),
        _SESSION + "/export": ("format",),
        "/api/blobs/{blob}": ("media_type",),
    }
)
_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}


def described(routes: Iterable[Route]) -> dict[str, Any]:
    """The OpenAPI document of these routes."""
    kinds = list(dict.fromkeys(BODIES.values()))
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    bodies = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        for method in sorted((route.methods or set()) - {"HEAD"}):
            schema = bodies.get(BODIES.get((method, route.path), msgspec.Struct))
            paths.setdefault(route.path, {})[method.lower()] = _operation(route, method, schema)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {**components, "Error": _ERROR},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route, method: str, schema: dict[str, Any] | None) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(route.path)
    ]
    queries = _QUERIES.get(route.path, ()) if method == "GET" else ()
    parameters += [{"name": name, "in": "query", "schema": {"type": "string"}} for name in queries]
    operation: dict[str, Any] = {
        "operationId": f"{method.lower()}_{re.sub(r'[^a-z0-9]+', '_', route.path.lower()).strip('_')}",
        "parameters": parameters,
        "security": [] if route.path in _NO_KEY else [{"key": []}],
        "responses": {
            "default": _answer("An error, in one envelope", {"$ref": "#/components/schemas/Error"})
        },
    }
    for status in ("200", "201", "202", "204"):
        operation["responses"][status] = {"description": "As the documentation says"}
    if schema is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    elif route.path == "/api/blobs":
        operation["requestBody"] = {"content": {"application/octet-stream": {}}}
    return operation


def _answer(words: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": words, "content": {"application/json": {"schema": schema}}}


class DescriptionRoutes:
    """What the routes that describe the API do; the document is made once."""

    def __init__(self, routes: Iterable[Route]) -> None:
        document = described(routes)
        self._document = msgspec.json.encode(document)
        self._page = _page(document)

    async def document(self, request: Request) -> Response:
        """GET /openapi.json."""
        del request
        return raw_answer(self._document)

    async def page(self, request: Request) -> Response:
        """GET /docs."""
        del request
        return HTMLResponse(self._page)


def _page(document: Mapping[str, Any]) -> str:
    """A plain list of the routes: it needs no script and nothing from elsewhere."""
    rows = [
        f"<tr><td>{method.upper()}</td><td><code>{path}</code></td></tr>"
        for path, methods in document["paths"].items()
        for method in methods
    ]
    return (
        "<!doctype html><meta charset=utf-8><title>Holdfast API</title><h1>Holdfast API</h1>"
        f'<p>Described whole in <a href="/openapi.json">openapi.json</a>.</p><table>{"".join(rows)}</table>'
    )
