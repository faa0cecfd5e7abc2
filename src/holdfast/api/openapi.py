"""Generates the OpenAPI document from the table of operations and its structs."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import msgspec

from holdfast import __version__
from holdfast.api.errors import ErrorEnvelope
from holdfast.api.operation import EVENTS, Operation, media_of
from holdfast.api.runs import ROLES, STATUS_FILTERS
from holdfast.api.sessions import OFFSET_MAX

_PLACEHOLDER = re.compile(r"{(\w+)}")
_ANYWHERE = {
    401: "invalid_api_key",
    403: "foreign_origin, missing_scope, no_ticket_taken",
    421: "unknown_host",
    500: "internal_error, store_damaged",
    503: "store_unavailable, store_overloaded, shutting_down",
}
_UNKNOWN_OUTCOME = "outcome_unknown"  # it's unknown whether a write was stored
_WITH_BODY = {408: "body_too_slow", 413: "body_too_large", 415: "unsupported_encoding"}
_JSON_CODES = ("invalid_json", "json_too_deep", "json_too_large", "body_cut_off")
_YES_OR_NO = {"type": "boolean"}
_DAY = {"anyOf": [{"type": "string", "format": "date"}, {"enum": [""]}]}
_BYTES = {"type": "string", "format": "binary", "minLength": 1}
_PARAMETERS: Mapping[str, Any] = {
    "limit": {"type": "integer", "minimum": 1},
    "offset": {"type": "integer", "minimum": 0, "maximum": OFFSET_MAX},
    "before": {"type": "integer", "minimum": 1},
    "pace_ms": {"type": "integer", "minimum": 1},
    "view": {"enum": ["hermes", "native"]},
    "choice": {"enum": ["session", "always"]},
    "X-Holdfast-Prompt": {"enum": ["default", "none"]},
    "width": {"enum": ["exact", "similar"]},
    "format": {"enum": ["json", "md", "html"]},
    "archived": _YES_OR_NO,
    "children": _YES_OR_NO,
    "all": _YES_OR_NO,
    "now": _YES_OR_NO,
    "download": _YES_OR_NO,
    "overwrite": _YES_OR_NO,
    "total": _YES_OR_NO,
    "stream": _YES_OR_NO,
    "starting_after": {"type": "integer", "minimum": 0},
    "one_shots": _YES_OR_NO,
    "sessions": {"enum": ["all"]},
    "order": {"enum": ["asc", "desc"]},
    "by": {"enum": ["day", "target", "session", "key"]},
    "scope": {"enum": ["user", "workspace", "skills"]},
    "status": {"enum": list(STATUS_FILTERS)},
    "workspace": {"type": "string", "pattern": r"^(/[^\u0000]*)?$"},
    "from": _DAY,
    "to": _DAY,
    "X-Hermes-Session-Id": {"type": "string", "pattern": r"^[!-.0-\[\]-~]{1,256}$"},
    "Idempotency-Key": {"type": "string", "pattern": "^[!-~]{1,255}$"},
}
# Constraints between the fields of a body, or beyond their types.
_TEXT = {"type": "string", "pattern": r"^[^\s]"}
_COMMAND = {"type": "string", "pattern": r"^[^\s\u0000][^\u0000]*$"}
_IDS = {"client_id": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{2,64}$"}}
_NAME = {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$"}


def _one_text(*names: str) -> dict[str, Any]:
    """Exactly one of the fields has text; the others are missing or null."""
    nothing = {"type": "null"}
    return {
        "anyOf": [
            {"required": [name], "properties": {one: _TEXT if one == name else nothing for one in names}}
            for name in names
        ]
    }


def _at_most_one(*names: str) -> dict[str, Any]:
    """All of the fields but one are missing or null."""
    nothing = {"type": "null"}
    return {
        "anyOf": [{"properties": {one: nothing for one in names if one != name}} for name in names],
    }


def _some(name: str) -> dict[str, Any]:
    """The list isn't empty."""
    return {"required": [name], "properties": {name: {"type": "array", "minItems": 1}}}


_HISTORY = {
    "properties": {"conversation_history": {"items": {"properties": {"role": {"enum": sorted(ROLES)}}}}}
}
_ONE_LIMIT = _at_most_one("max_tokens", "max_completion_tokens", "max_output_tokens")
_ONE_CONTEXT = _at_most_one("previous_response_id", "conversation")
_INPUT = {"anyOf": [_TEXT, {"type": "array", "minItems": 1}]}
_OF_CHAT = {"properties": {"scope": {"enum": ["chat"]}, "chat": _TEXT}, "required": ["chat"]}
_MEMORY = {"anyOf": [{"properties": {"scope": {"enum": ["user", "workspace", "skills"]}}}, _OF_CHAT]}
_NO_COMMAND = {"command": {"type": "null"}}
_APPROVAL_CHOICES = ["once", "session", "always", "deny", "approve", "allow"]
_RULES: Mapping[str, Mapping[str, Any]] = {
    "AllowRequest": {"allOf": [{"properties": {"user": _NAME}}]},
    "AnswerRequest": _one_text("answer", "response"),
    "ApprovalRequest": {
        "allOf": [{"properties": {"choice": {"enum": _APPROVAL_CHOICES}}}],
        **_at_most_one("approval_id", "request_id"),
    },
    "ChangeMessageRequest": {"allOf": [{"properties": {"text": {"anyOf": [_TEXT, {"type": "null"}]}}}]},
    "CreateConversationRequest": {"allOf": [{"properties": {"items": {"maxItems": 0}}}]},
    "CreateKeyRequest": {"allOf": [{"properties": {"name": _NAME, "scopes": {"minItems": 1}}}]},
    "GoalRequest": {
        "anyOf": [
            {"required": ["goal"], "properties": {"goal": _TEXT}},
            {"properties": {"action": {"enum": ["pause", "resume", "clear"]}}},
        ]
    },
    "MemoryDecisionRequest": _MEMORY,
    "MemoryEditRequest": _MEMORY,
    "MemoryForgetRequest": _MEMORY,
    "MemoryProposalRequest": {
        "anyOf": [{"properties": {"scope": {"enum": ["user", "workspace"]}}}, _OF_CHAT]
    },
    "MemoryRollbackRequest": _MEMORY,
    "RpcMessage": {
        "oneOf": [
            {"required": ["method"], "not": {"anyOf": [{"required": ["result"]}, {"required": ["error"]}]}},
            *({"required": ["id", one], "not": {"required": ["method"]}} for one in ("result", "error")),
        ],
        "allOf": [{"properties": {"id": {"type": ["integer", "string"]}}}],
    },
    "ChatRequest": {"allOf": [_ONE_LIMIT, {"properties": {"messages": {"minItems": 1}}}]},
    "CompactResponseRequest": {
        "anyOf": [
            {"required": ["input"], "properties": {"input": _INPUT}},
            {"required": ["previous_response_id"], "properties": {"previous_response_id": _TEXT}},
        ]
    },
    "ResponsesRequest": {
        "allOf": [_ONE_LIMIT, _ONE_CONTEXT, _HISTORY, {"properties": {"input": _INPUT}}],
        "anyOf": [  # a background response must be stored
            {"properties": {"background": {"enum": [False, None]}}},
            {"properties": {"store": {"enum": [True, None]}}},
        ],
    },
    "RunAgentInput": {"anyOf": [_some("messages"), _some("resume")]},
    "RunRequest": {
        "allOf": [_ONE_LIMIT, _HISTORY],
        "anyOf": [
            {"required": ["input"], "properties": {"input": _INPUT, **_NO_COMMAND}},
            {
                "required": ["message"],
                "properties": {"message": _INPUT, "input": {"type": "null"}, **_NO_COMMAND},
            },
            {
                **_some("parts"),
                "properties": {
                    "parts": {"type": "array", "minItems": 1},
                    "input": {"type": "null"},
                    **_NO_COMMAND,
                },
            },
            {
                "required": ["command"],
                "properties": {
                    "command": _COMMAND,
                    "input": {"type": "null"},
                    "message": {"type": "null"},
                    "parts": {"maxItems": 0},
                },
            },
        ],
    },
    "SayRequest": {
        "anyOf": [
            *_one_text("message", "text", "input")["anyOf"],
            {**_some("message")},
        ]
    },
    "SignInRequest": _one_text("token", "key"),
    "UndoRequest": {"anyOf": [{"properties": {name: {"enum": [False]}}} for name in ("force", "keep_both")]},
}
_FRAME = {
    "type": "object",
    "description": "A frame. Frames with an id are log events; others are heartbeats and live status.",
    "properties": {"id": {"type": "string"}, "event": {"type": "string"}, "data": {"type": "string"}},
}
_ERROR = {"$ref": "#/components/schemas/ErrorEnvelope"}


def openapi_document(operations: Iterable[Operation], *, mount_path: str = "") -> dict[str, Any]:
    """Return the OpenAPI document of these operations."""
    table = _by_path(operations)
    kinds = list(dict.fromkeys([ErrorEnvelope, *(kind for _, one in table for kind in _kinds(one))]))
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    known = dict(zip(kinds, schemas, strict=True))
    # Its fields have defaults so that a client can decode a proxy's error; the server sends all of them.
    components["ErrorDetail"]["required"] = list(components["ErrorDetail"]["properties"])
    for name, rule in _RULES.items():
        if name in components:
            components[name] |= rule
    if "HealthShown" in components:
        components["HealthShown"]["required"] = ["status", "version", "platform"]
    paths: dict[str, dict[str, Any]] = {}
    for path, one in table:
        paths.setdefault(path, {})[one.method.lower()] = _described(path, one, known)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": __version__,
            "description": (
                "Durable agent runs over HTTP. All errors use the same envelope. Times are in seconds of "
                "Unix time. Unknown fields in request bodies are ignored."
            ),
        },
        **({"servers": [{"url": mount_path}]} if mount_path else {}),
        "security": [{"key": []}, {"cookie": [], "page": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "An API key."},
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "holdfast_sign_in_PORT",
                    "description": "Set by POST /api/sign-in. Requests also need `X-Holdfast-Page`.",
                },
                "page": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "X-Holdfast-Page",
                    "description": "`page` from the same response, which only pages of this origin can read.",
                },
            },
        },
    }


def _by_path(operations: Iterable[Operation]) -> list[tuple[str, Operation]]:
    """Return each path with its operations, sorted by method."""
    paths: dict[str, list[Operation]] = {}
    for one in operations:
        for path in one.templates:
            paths.setdefault(path, []).append(one)
    return [(path, one) for path, some in paths.items() for one in sorted(some, key=lambda one: one.method)]


def _kinds(operation: Operation) -> Iterator[Any]:
    """Yield the JSON types of an operation."""
    if operation.request is not None:
        yield operation.request
    yield from operation.response_types()


def _described(path: str, operation: Operation, known: Mapping[Any, Any]) -> dict[str, Any]:
    method = operation.method
    takes_body = operation.request is not None or bool(operation.raw_request)
    made: dict[str, Any] = {
        "operationId": f"{method.lower()}_{re.sub(r'[^a-z0-9]+', '_', path.lower()).strip('_')}",
        "tags": [operation.tag],
        "summary": operation.summary,
        "parameters": list(_parameters(path, operation)),
        "responses": {},
    }
    if operation.scopes:
        made["x-scopes"] = list(operation.scopes)
    else:
        made["security"] = []
    if takes_body:
        kind = operation.raw_request or "application/json"
        schema: dict[str, Any] = _BYTES if operation.raw_request else known[operation.request]
        if not operation.needs_request:
            schema = {"anyOf": [schema, {"type": "null"}]}  # an empty body counts as an empty object
        made["requestBody"] = {"content": {kind: {"schema": schema}}, "required": operation.needs_request}
    for status, answer in operation.responses.items():
        content = {
            media: {"schema": _FRAME if media == EVENTS else _schema(kind, known)}
            for media, kind in media_of(answer).items()
        }
        made["responses"][str(status)] = _answer(_words(answer), content)
    errors = {**_ANYWHERE, **(_WITH_BODY if takes_body or method in {"POST", "PATCH", "PUT"} else {})}
    errors |= operation.errors
    if method != "GET":
        errors[504] = ", ".join(filter(None, [errors.get(504, ""), _UNKNOWN_OUTCOME]))
    if operation.request is not None:
        codes = [*errors.get(400, "invalid_request").split(", "), *_JSON_CODES]
        errors[400] = ", ".join(dict.fromkeys(codes))
    for status, codes in sorted(errors.items()):
        kinds = [_schema(one, known) for one in media_of(operation.responses.get(status)).values()]
        schema = {"anyOf": [*kinds, _ERROR]} if kinds else _ERROR  # other protocols have their own errors
        made["responses"][str(status)] = _answer(codes, {"application/json": {"schema": schema}})
    return made


def _schema(kind: Any, known: Mapping[Any, Any]) -> dict[str, Any]:
    if kind is None:
        return {"type": "string"}
    if isinstance(kind, tuple):
        return {"anyOf": [known[one] for one in cast("tuple[Any, ...]", kind)]}
    return known[kind]


def _words(answer: Any) -> str:
    """Describe a response with the docstrings of its types."""
    if answer is None:
        return "No content."
    media = media_of(answer)
    docs = [
        kind.__doc__ for kind in media.values() if isinstance(kind, type) and kind.__module__ != "builtins"
    ]
    if EVENTS in media:
        docs.append("Server-sent events.")
    return " ".join(doc for doc in docs if doc) or "The requested content."


def _answer(words: str, content: dict[str, Any]) -> dict[str, Any]:
    return {"description": words, **({"content": content} if content else {})}


def _parameters(path: str, operation: Operation) -> Iterator[dict[str, Any]]:
    for name in _PLACEHOLDER.findall(path):
        schema = _IDS.get(name, {"type": "string", "minLength": 1})
        yield {"name": name, "in": "path", "required": True, "schema": schema}
    for place, named in (("query", operation.query), ("header", operation.headers)):
        for name, words in named.items():
            schema = _PARAMETERS.get(name, {"type": "string"})
            described = {"name": name, "in": place, "description": words, "schema": schema}
            if name in operation.required:
                described |= {"required": True, "schema": {**schema, "minLength": 1}}
            yield described
