"""Requests for the wires, and the types of the official packages to check them against."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from anthropic.types.message_create_params import MessageCreateParamsStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter

from holdfast.messages import (
    AskedTool,
    AssistantMessage,
    Message,
    ModelRequest,
    SaidText,
    Thought,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from holdfast.models.adapters import adapter_of
from holdfast.models.wire import WireRequest
from holdfast.targets import Target, Wire
from holdfast.values import FilePart, ImagePart, TextPart

PNG = b"\x89PNG"
BLOBS = {"png": PNG, "txt": "Grüße".encode(), "pdf": b"%PDF", "bin": b"\x00\x01"}
READ = ToolSpec("read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
WIRES: tuple[Wire, ...] = ("chat", "responses", "anthropic")
OFFICIAL: dict[Wire, TypeAdapter[Any]] = {
    "chat": TypeAdapter(CompletionCreateParamsStreaming),
    "responses": TypeAdapter(ResponseCreateParamsStreaming),
    "anthropic": TypeAdapter(MessageCreateParamsStreaming),
}
BASE_URLS: dict[Wire, str] = {
    "chat": "https://api.openai.com/v1",
    "responses": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
}
CODEX = "https://chatgpt.com/backend-api/codex"

PARTS = (
    ImagePart(blob="png", media_type="image/png", name="a.png"),
    FilePart(blob="txt", media_type="text/plain; charset=utf-8", name="a.txt"),
    FilePart(blob="pdf", media_type="application/pdf", name="a.pdf"),
    FilePart(blob="bin", media_type="application/octet-stream", name="a.bin"),
    ImagePart(blob="gone", media_type="image/png", name="gone.png"),
    TextPart("more"),
    TextPart("  "),
)
OPAQUE: dict[Wire, dict[str, str]] = {
    "chat": {"field": "reasoning_content"},
    "responses": {"encrypted_content": "gAAA"},
    "anthropic": {"signature": "sig"},
}


def target(wire: Wire, base_url: str = "", **fields: Any) -> Target:
    return Target(
        name="main", wire=wire, base_url=base_url or BASE_URLS[wire], model="m", api_key="sk-1", **fields
    )


def build(request: ModelRequest, to: Target) -> WireRequest:
    return adapter_of(to.wire).build(request, to, blobs=BLOBS)


def body_of(request: ModelRequest, to: Target) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(build(request, to).body)
    return body


def asked(*messages: Message, **fields: Any) -> ModelRequest:
    return ModelRequest(messages=messages, **fields)


def conversation(wire: Wire) -> ModelRequest:
    """A bit of everything."""
    return asked(
        UserMessage("look", PARTS),
        AssistantMessage(
            (
                Thought("hm", OPAQUE[wire], "main"),
                SaidText("I look."),
                AskedTool("call_1", "read", {"path": "a"}),
                AskedTool("call_2", "read", bad_args='{"path":'),
            )
        ),
        ToolMessage("call_1", "read", "text", parts=PARTS[:1]),
        ToolMessage("call_2", "read", "", ok=False),
        UserMessage("and now?"),
        instructions="Be brief.",
        tools=(READ, READ),
        max_output_tokens=1000,
        temperature=0.5,
        cache_key="session-1",
    )


def plain(value: object) -> object:
    """What pydantic validated, with its lazy iterables drawn out, which is when they are checked."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in cast("Mapping[object, object]", value).items()}
    if isinstance(value, str | int | float | None):
        return value
    return [plain(inner) for inner in cast("Iterable[object]", value)]


def check_official(wire: Wire, body: dict[str, Any]) -> None:
    """Valid, and without a field that the official types do not know: pydantic would have dropped it."""
    for item in body.get("input", ()):
        if item.get("type") == "reasoning":
            item["id"] = "rs_1"  # required by the types, refused by the server that stored nothing
    for message in body.get("messages", ()) if wire == "chat" else ():
        message.pop("reasoning_content", None)  # DeepSeek's
    assert plain(OFFICIAL[wire].validate_python(body)) == body
