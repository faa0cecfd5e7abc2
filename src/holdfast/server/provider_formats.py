"""Formats of OpenAI and Anthropic that several parts of the server send: errors, and parts of a response."""

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, cast

import msgspec

from holdfast.server.problems import Problem
from holdfast.targets import Wire

OVERLOADED = 529
_ANTHROPIC_TYPES: Mapping[int, str] = {
    HTTPStatus.BAD_REQUEST: "invalid_request_error",
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.PAYMENT_REQUIRED: "billing_error",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.NOT_FOUND: "not_found_error",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "request_too_large",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
    HTTPStatus.SERVICE_UNAVAILABLE: "overloaded_error",
    HTTPStatus.GATEWAY_TIMEOUT: "timeout_error",
    OVERLOADED: "overloaded_error",
}
_ANTHROPIC_CODES = frozenset({"thread_unsupported_request"})  # codes that Anthropic's packages act on
# The fields of every Responses object, as OpenAI's own server sends them. Typed clients need numbers here.
DEFAULTS: Mapping[str, object] = MappingProxyType(
    {
        "background": False,
        "completed_at": None,
        "error": None,
        "frequency_penalty": 0.0,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "presence_penalty": 0.0,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "safety_identifier": None,
        "service_tier": "default",
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
    }
)


def error_body(problem: Problem, *, wire: Wire) -> bytes:
    """An error in the shape of a wire."""
    if wire != "anthropic":
        return problem.encoded()
    kind = _ANTHROPIC_TYPES.get(problem.status)
    if kind is None:
        is_ours = problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        kind = "api_error" if is_ours else "invalid_request_error"
    error: dict[str, Any] = {"type": kind, "message": problem.message}
    error |= {"param": problem.param, "code": problem.code}
    if problem.code in _ANTHROPIC_CODES:
        error["details"] = {"error_code": problem.code}
    return msgspec.json.encode({"type": "error", "error": error})


def response_fields(asked: Mapping[str, object]) -> dict[str, Any]:
    """All required fields but id, object, created_at, model, status and output, from those of a request."""
    fields = {
        name: default if (value := asked.get(name)) is None else value for name, default in DEFAULTS.items()
    }
    reasoning, tools = asked.get("reasoning"), asked.get("tools")
    given = cast("dict[str, Any]", reasoning) if isinstance(reasoning, dict) else {}
    return {
        **fields,
        "reasoning": {"effort": given.get("effort"), "summary": given.get("summary")},
        "tool_choice": asked.get("tool_choice") or "auto",
        "tools": [_tool(tool) for tool in cast("list[Any]", tools)] if isinstance(tools, list) else [],
    }


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    """A tool as it was declared; a function has all of its fields."""
    if tool.get("type") != "function":
        return tool
    return {"description": None, "parameters": None, "strict": True, **tool}


def text_part(text: str) -> dict[str, Any]:
    """The one part of a message."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
