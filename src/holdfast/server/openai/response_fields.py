"""Fields that every Responses object must have: what was asked for, or else the protocol's default."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

# As OpenAI's own server sends them. Both the spec and typed clients require numbers here.
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
