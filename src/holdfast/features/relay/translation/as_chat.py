"""An answer as Chat Completions."""

from typing import Any

from typing_extensions import override

from holdfast.features.relay.translation.encoding import AnswerEncoder, data_frame, encode
from holdfast.model_events import (
    ArgsPiece,
    Finished,
    FinishReason,
    ItemClosed,
    ItemOpened,
    ModelEvent,
    ReasoningPiece,
    TextPiece,
    TokensUsed,
)

FINISHES: dict[FinishReason, str] = {
    "stop": "stop",
    "tools": "tool_calls",
    "length": "length",
    "too_long": "length",
    "refused": "content_filter",
}


class ChatEncoder(AnswerEncoder):
    """Chunks of a chat completion, or the whole of it."""

    def __init__(self, answer_id: str, model: str, *, created_s: int, include_usage: bool) -> None:
        self._head: dict[str, Any] = {"id": f"chatcmpl-{answer_id}", "created": created_s, "model": model}
        self._include_usage = include_usage
        self._calls: dict[int, int] = {}  # the number of each tool call, by the index of its item
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._made: list[dict[str, Any]] = []

    @override
    def opening(self) -> bytes:
        return self._chunk({"role": "assistant", "content": "", "refusal": None})

    @override
    def add(self, event: ModelEvent) -> bytes:
        match event:
            case TextPiece():
                self._texts.append(event.text)
                return self._chunk({"content": event.text})
            case ReasoningPiece():
                self._thoughts.append(event.text)
                return self._chunk({"reasoning_content": event.text})
            case ItemOpened(kind="tool"):
                nth = self._calls[event.index] = len(self._calls)
                function = {"name": event.name, "arguments": ""}
                call = {"index": nth, "id": event.tool_call_id, "type": "function", "function": function}
                return self._chunk({"tool_calls": [call]})
            case ArgsPiece():
                call = {"index": self._calls[event.index], "function": {"arguments": event.text}}
                return self._chunk({"tool_calls": [call]})
            case ItemClosed(kind="tool"):
                function = {"name": event.name, "arguments": event.text}
                self._made.append({"id": event.tool_call_id, "type": "function", "function": function})
                return b""
            case _:
                return b""

    @override
    def ending(self, finish: Finished, used: TokensUsed) -> bytes:
        last = self._chunk({}, finish=FINISHES[finish.reason])
        if self._include_usage:
            last += data_frame(self._named("chunk") | {"choices": [], "usage": _usage(used)})
        return last + b"data: [DONE]\n\n"

    @override
    def whole(self, finish: Finished, used: TokensUsed) -> bytes:
        text = "".join(self._texts) or None
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None, "annotations": []}
        if self._thoughts:
            message["reasoning_content"] = "".join(self._thoughts)
        if self._made:
            message["tool_calls"] = self._made
        choice = {"index": 0, "message": message, "finish_reason": FINISHES[finish.reason], "logprobs": None}
        return encode(self._named("") | {"choices": [choice], "usage": _usage(used)})

    def _named(self, kind: str) -> dict[str, Any]:
        return {"object": f"chat.completion.{kind}".rstrip("."), **self._head}

    def _chunk(self, delta: dict[str, Any], *, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return data_frame(self._named("chunk") | {"choices": [choice]})


def _usage(used: TokensUsed) -> dict[str, Any]:
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.input_tokens + used.output_tokens,
        "prompt_tokens_details": {
            "cached_tokens": used.cached_tokens,
            "cache_write_tokens": used.cache_write_tokens,
        },
        "completion_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
    }
