"""Translates a client's request for a target on another wire. Unsupported fields are refused."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from holdfast.features.relay.raw_request import RawRequest
from holdfast.features.relay.translation.choices import NO_TOOLS, sampling_in, tool_choice_in
from holdfast.features.relay.translation.conversations import (
    ClientConversation,
    Fields,
    from_anthropic,
    from_chat,
    from_responses,
    not_translatable,
    table_in,
    thread_unsupported,
)
from holdfast.messages import AssistantMessage, Message, ModelRequest, ToolSpec
from holdfast.server.message_content import Attached
from holdfast.server.options import ServerOptions
from holdfast.server.problems import Problem, bad_request
from holdfast.server.transport.bodies import json_value
from holdfast.targets import SAMPLING, Wire
from holdfast.values import OutputFormat

Read: TypeAlias = Callable[[Fields, Attached], ClientConversation]

# Fields without an effect on the answer, or only on caching, billing or storage.
DROPPED: Mapping[Wire, frozenset[str]] = {
    "chat": frozenset(
        {
            "metadata",
            "prompt_cache_retention",
            "safety_identifier",
            "service_tier",
            "store",
            "stream_options",
            "user",
        }
    ),
    "responses": frozenset(
        {
            "client_metadata",
            "include",
            "metadata",
            "prompt_cache_retention",
            "safety_identifier",
            "service_tier",
            "store",
            "stream_options",
            "truncation",
            "user",
        }
    ),
    "anthropic": frozenset({"cache_control", "context_management", "metadata", "service_tier"}),
}
TRANSLATED: Mapping[Wire, frozenset[str]] = {
    "chat": frozenset(
        {
            "max_completion_tokens",
            "max_tokens",
            "messages",
            "model",
            "n",
            "parallel_tool_calls",
            "prompt_cache_key",
            "reasoning_effort",
            "response_format",
            "stream",
            "temperature",
            "tool_choice",
            "tools",
        }
    ),
    "responses": frozenset(
        {
            "input",
            "instructions",
            "max_output_tokens",
            "model",
            "parallel_tool_calls",
            "prompt_cache_key",
            "reasoning",
            "stream",
            "temperature",
            "text",
            "tool_choice",
            "tools",
        }
    ),
    "anthropic": frozenset(
        {
            "max_tokens",
            "messages",
            "model",
            "output_config",
            "stream",
            "system",
            "temperature",
            "thinking",
            "tool_choice",
            "tools",
        }
    ),
}
_READ: Mapping[Wire, Read] = {"chat": from_chat, "responses": from_responses, "anthropic": from_anthropic}


def translated(body: bytes, wire: Wire, attached: Attached) -> ModelRequest:
    """The request; files go into `attached`. Raises a Problem that names what can't be translated."""
    fields: Fields = json_value(body, dict[str, Any])
    if wire == "anthropic" and fields.get("thread"):
        raise thread_unsupported()
    for name, value in fields.items():
        is_known = name in TRANSLATED[wire] or name in DROPPED[wire] or name in SAMPLING[wire].values()
        if not is_known and _says_something(value):
            raise not_translatable(name)
    if wire == "chat" and fields.get("n") not in (None, 1):
        raise not_translatable("n")
    said = _READ[wire](fields, attached)
    choice = tool_choice_in(fields, wire)
    tools = _tools(fields, wire)
    if choice not in {"", NO_TOOLS, "required", *(tool.name for tool in tools)}:
        raise bad_request(
            f"'tool_choice' names {choice[:64]!r}, which isn't among 'tools'", param="tool_choice"
        )
    return ModelRequest(
        messages=_checked(said.messages, wire),
        instructions="\n\n".join(said.instructions),
        tools=() if choice == NO_TOOLS else tools,
        tool_choice="" if choice == NO_TOOLS else choice,
        sampling=sampling_in(fields, wire),
        max_output_tokens=_tokens_max(fields),
        temperature=fields.get("temperature"),
        reasoning_effort=_effort(fields, wire),
        output=_output(fields, wire),
        cache_key=str(fields.get("prompt_cache_key") or ""),
    )


async def translated_with_images(raw: RawRequest, options: ServerOptions, attached: Attached) -> ModelRequest:
    """The same with the images that the request names by their addresses."""
    body = raw.body
    if options.images is not None:
        param = "input" if raw.wire == "responses" else "messages"
        body = await options.images.put_inline_in_body(
            body, param=param, bytes_max=options.limits.relayed_bytes_max
        )
    return await asyncio.to_thread(translated, body, raw.wire, attached)


def _says_something(value: object) -> bool:
    return value is not None and value is not False and value not in ("", [], {})


def _checked(messages: list[Message], wire: Wire) -> tuple[Message, ...]:
    param = "input" if wire == "responses" else "messages"
    if not messages or isinstance(messages[-1], AssistantMessage):
        raise bad_request(f"'{param}' must end with a user message or a tool result", param=param)
    return tuple(messages)


def _tokens_max(fields: Fields) -> int | None:
    for name in ("max_output_tokens", "max_completion_tokens", "max_tokens"):
        given = fields.get(name)
        if given is not None and given < 1:
            raise not_translatable(name)
        if given is not None:
            return int(given)
    return None


def _effort(fields: Fields, wire: Wire) -> str:
    inside: Mapping[Wire, str] = {"responses": "reasoning", "anthropic": "output_config"}
    place = table_in(fields, inside[wire]) if wire in inside else fields
    given = place.get("effort" if wire in inside else "reasoning_effort")
    return given if isinstance(given, str) and given != "none" else ""


def _tools(fields: Fields, wire: Wire) -> tuple[ToolSpec, ...]:
    given: object = fields.get("tools") or []
    if not isinstance(given, list):
        raise bad_request("'tools' must be a list", param="tools")
    return tuple(_tool(one, wire, f"tools[{at}]") for at, one in enumerate(cast("list[object]", given)))


def _tool(given: object, wire: Wire, where: str) -> ToolSpec:
    tool = cast("Fields", given) if isinstance(given, dict) else {}
    kind = tool.get("type") or "custom"
    if kind != ("custom" if wire == "anthropic" else "function"):
        raise not_translatable(f"{where}.type")
    inner = table_in(tool, "function") if wire == "chat" else tool
    schema = inner.get("input_schema" if wire == "anthropic" else "parameters") or {"type": "object"}
    name = inner.get("name")
    if not isinstance(name, str) or not isinstance(schema, dict):
        raise bad_request(f"'{where}' needs a name and a schema", param=where)
    return ToolSpec(name, str(inner.get("description") or ""), cast("Fields", schema))


def _output(fields: Fields, wire: Wire) -> OutputFormat | None:
    if wire == "chat":
        where, asked = "response_format", table_in(fields, "response_format")
        inner = table_in(asked, "json_schema")
    else:
        where = "text" if wire == "responses" else "output_config"
        inner = asked = table_in(table_in(fields, where), "format")
    match asked.get("type"):
        case None | "text":
            return None
        case "json_object":
            return OutputFormat()
        case "json_schema":
            schema = inner.get("schema")
            if not isinstance(schema, dict):
                raise _missing_schema(where)
            return OutputFormat(
                name=str(inner.get("name") or "output"),
                description=str(inner.get("description") or ""),
                schema=cast("Fields", schema),
                strict=bool(inner.get("strict")),
            )
        case _:
            raise not_translatable(where)


def _missing_schema(where: str) -> Problem:
    return bad_request(f"'{where}' needs a JSON schema", param=where)
