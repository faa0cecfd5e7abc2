"""A model request as Anthropic Messages, with prompt-cache breakpoints."""

import re
from collections.abc import Sequence
from typing import cast
from urllib.parse import urlsplit

import msgspec

from holdfast.messages import (
    AskedTool,
    AssistantMessage,
    Message,
    ModelRequest,
    Said,
    SaidText,
    Thought,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from holdfast.models.output_tool import tools_with_output
from holdfast.models.parts import Shown, ShownImage, ShownText, shown_contents
from holdfast.models.wire import (
    NO_TEXT,
    Blobs,
    Json,
    WireRequest,
    array_of,
    effort_of,
    fitting_id,
    is_at,
    is_text,
    messages_of,
    post,
    sampling_of,
    sendable,
)
from holdfast.targets import ANTHROPIC_EFFORTS, Target

API_VERSION = "2023-06-01"
CACHED_MESSAGES = 2  # plus the tools and the instructions: a request can have four breakpoints
MAX_TOKENS_DEFAULT = 32_000
SCHEMA_HOST = "anthropic.com"
TOOL_CALL_IDS = re.compile(r"[a-zA-Z0-9_-]{1,64}")

_EPHEMERAL = {"type": "ephemeral"}
_USER, _ASSISTANT = b'{"role":"user","content":[%b]}', b'{"role":"assistant","content":[%b]}'


def build(request: ModelRequest, target: Target, *, blobs: Blobs) -> WireRequest:
    """The POST for this request."""
    messages = _messages(request, target, blobs)
    max_tokens = request.max_output_tokens or MAX_TOKENS_DEFAULT
    body: Json = {"model": target.model, "stream": True, "max_tokens": max_tokens}
    if request.instructions.strip():
        text: Json = {"type": "text", "text": request.instructions, "cache_control": _EPHEMERAL}
        body["system"] = [text]
    by_tool = outputs_by_tool(request, target)
    if offered := tools_with_output(request, by_tool=by_tool):
        tools = [_tool(tool) for tool in offered]
        tools[-1]["cache_control"] = _EPHEMERAL
        body["tools"] = tools
    body["messages"] = messages
    thinking = _thinking(request, target, max_tokens=max_tokens)
    if choice := _choice(request, by_tool=by_tool, thinks=bool(thinking)):
        body["tool_choice"] = choice
    if request.output is not None and not by_tool:
        format_: Json = {"type": "json_schema", "schema": request.output.schema}
        thinking["output_config"] = {**_mapping(thinking.get("output_config")), "format": format_}
    if request.temperature is not None:
        body["temperature"] = request.temperature
    sampling = sampling_of(request, target)
    if isinstance(stop := sampling.get("stop_sequences"), str):
        sampling["stop_sequences"] = [stop]
    sampling.pop("parallel_tool_calls", None)  # part of the tool choice
    body |= sampling
    headers = {"anthropic-version": API_VERSION}
    if target.api_key:
        headers["x-api-key"] = target.api_key
    versioned = urlsplit(target.base_url).path.rstrip("/").endswith("/v1")
    path = "/messages" if versioned else "/v1/messages"
    return post(target, path, headers=headers, body=body | thinking)


def outputs_by_tool(request: ModelRequest, target: Target) -> bool:
    """Whether structured output must come by a tool.

    Anthropic itself takes a schema whose objects are all closed; what else speaks this wire may take none.
    """
    wanted = request.output
    if wanted is None:
        return False
    return not (is_at(target.base_url, SCHEMA_HOST) and wanted.schema and _is_closed(wanted.schema))


def _choice(request: ModelRequest, *, by_tool: bool, thinks: bool) -> Json:
    """Which tool must be called, which is refused where the model is to think, and whether one alone."""
    wanted = request.tool_choice if request.tools else ""
    choice: Json = {}
    if not thinks and (by_tool or wanted):
        is_named = bool(wanted) and wanted != "required"
        choice = {"type": "tool", "name": wanted} if is_named else {"type": "any"}
    if request.tools and request.sampling.get("parallel_tool_calls") is False:
        choice = {"type": "auto", **choice, "disable_parallel_tool_use": True}
    return choice


def _is_closed(schema: object) -> bool:
    if isinstance(schema, list):
        return all(map(_is_closed, cast("list[object]", schema)))
    given = _mapping(schema)
    is_open = given.get("type") == "object" and given.get("additionalProperties") is not False
    return not is_open and all(map(_is_closed, given.values()))


def _mapping(value: object) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


def _thinking(request: ModelRequest, target: Target, *, max_tokens: int) -> Json:
    """The thinking fields: an effort for current models, a token budget for older ones."""
    effort = effort_of(request)
    if effort in ANTHROPIC_EFFORTS:
        adaptive = {"type": "adaptive", "display": "summarized"}
        return {"thinking": adaptive, "output_config": {"effort": ANTHROPIC_EFFORTS[effort]}}
    if not effort.isdecimal() or not _may_budget(request.messages, target):
        return {}
    budget = int(effort)
    enabled = {"type": "enabled", "budget_tokens": budget}
    return {"thinking": enabled, "max_tokens": max_tokens if budget < max_tokens else budget + max_tokens}


def _may_budget(messages: Sequence[Message], target: Target) -> bool:
    """Whether a budget is allowed: not during tool calls of another target, which sent no signature."""
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            return True
        if isinstance(message, AssistantMessage):
            items = sendable(message, target)
            if items and not (isinstance(items[0], Thought) and _thought(items[0])):
                return False
    return True


def _messages(request: ModelRequest, target: Target, blobs: Blobs) -> msgspec.Raw:
    key = f"anthropic {target.name}"
    turns: list[list[Message]] = []
    for message in messages_of(request):
        is_said = isinstance(message, AssistantMessage)
        if turns and isinstance(turns[-1][0], AssistantMessage) == is_said:
            turns[-1].append(message)
        elif not is_said or _encoded(message, target, blobs=blobs, key=key):
            turns.append([message])
    from_user = [at for at, turn in enumerate(turns) if not isinstance(turn[0], AssistantMessage)]
    marked = frozenset(from_user[-CACHED_MESSAGES:])
    encoded: list[bytes] = []
    if isinstance(turns[0][0], AssistantMessage):  # a conversation begins with the user
        encoded.append(_USER % msgspec.json.encode(_block(ShownText(NO_TEXT))))
    for at, turn in enumerate(turns):
        if len(turn) > 1:
            # Tool results come first in a user's turn.
            turn.sort(key=_is_from_user)
        blocks = [_encoded(message, target, blobs=blobs, key=key) for message in turn]
        if at in marked:
            blocks[-1] = _marked(_blocks(turn[-1], target, blobs))
        encoded.append((_ASSISTANT if isinstance(turn[0], AssistantMessage) else _USER) % b",".join(blocks))
    return array_of(encoded)


def _is_from_user(message: Message) -> bool:
    return isinstance(message, UserMessage)


def _encoded(message: Message, target: Target, *, blobs: Blobs, key: str) -> bytes:
    """The JSON of the message's blocks, without the brackets around them."""
    known = message.encoded.get(key)
    if known is None:
        known = msgspec.json.encode(_blocks(message, target, blobs))[1:-1]
        if is_text(message):
            message.encoded[key] = known
    return known


def _marked(blocks: list[Json]) -> bytes:
    """The same with a cache breakpoint on the last block."""
    blocks[-1]["cache_control"] = _EPHEMERAL
    return msgspec.json.encode(blocks)[1:-1]


def _blocks(message: Message, target: Target, blobs: Blobs) -> list[Json]:
    if isinstance(message, UserMessage):
        content = shown_contents(message.text, message.parts, blobs=blobs) or [ShownText(NO_TEXT)]
        return [_block(part) for part in content]
    if isinstance(message, ToolMessage):
        content = shown_contents(message.text, message.parts, blobs=blobs)
        result: Json = {"type": "tool_result", "tool_use_id": _id(message.tool_call_id)}
        if content:
            result["content"] = [_block(part) for part in content]
        if not message.ok:
            result["is_error"] = True
        return [result]
    return [block for item in sendable(message, target) for block in _said(item)]


def _said(item: Said) -> list[Json]:
    if isinstance(item, SaidText):
        return [{"type": "text", "text": item.text}]
    if isinstance(item, AskedTool):
        return _asked(item)
    return _thought(item)


def _asked(asked: AskedTool) -> list[Json]:
    call: Json = {"type": "tool_use", "id": _id(asked.tool_call_id), "name": asked.name, "input": asked.args}
    if not asked.bad_args:
        return [call]
    said = f"[The arguments of the following call were no JSON object: {asked.bad_args}]"
    return [{"type": "text", "text": said}, call]


def _thought(thought: Thought) -> list[Json]:
    if redacted := thought.opaque.get("redacted"):
        return [{"type": "redacted_thinking", "data": redacted}]
    if signature := thought.opaque.get("signature"):
        return [{"type": "thinking", "thinking": thought.text, "signature": signature}]
    return []


def _block(part: Shown) -> Json:
    if isinstance(part, ShownText):
        return {"type": "text", "text": part.text}
    if isinstance(part, ShownImage):
        source = {"type": "base64", "media_type": part.media_type, "data": part.base64}
        return {"type": "image", "source": source}
    source = {"type": "base64", "media_type": "application/pdf", "data": part.base64}
    return {"type": "document", "title": part.name, "source": source}


def _tool(tool: ToolSpec) -> Json:
    return {"name": tool.name, "description": tool.description, "input_schema": msgspec.Raw(tool.schema_json)}


def _id(tool_call_id: str) -> str:
    return fitting_id(tool_call_id, allowed=TOOL_CALL_IDS)
