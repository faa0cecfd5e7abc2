"""An answer as Anthropic Messages, whose blocks follow one another."""

from typing import Any

from typing_extensions import override

from holdfast.features.relay.translation.encoding import AnswerEncoder, arguments, data_frame, encode
from holdfast.model_events import (
    ArgsPiece,
    Finished,
    FinishReason,
    ItemClosed,
    ItemKind,
    ItemOpened,
    ModelEvent,
    ReasoningPiece,
    TextPiece,
    TokensUsed,
)
from holdfast.models.sse import MalformedFrame

STOPS: dict[FinishReason, str] = {
    "stop": "end_turn",
    "tools": "tool_use",
    "length": "max_tokens",
    "too_long": "max_tokens",
    "refused": "refusal",
}


class AnthropicEncoder(AnswerEncoder):
    """Events of a message, or the whole of it."""

    def __init__(self, answer_id: str, model: str) -> None:
        self._id = f"msg_{answer_id}"
        self._model = model
        self._block = -1  # the number of the open block, or of the last one
        self._open_item: int | None = None
        self._ended: set[int] = set()  # items whose block is over
        self._calls: dict[int, ItemOpened] = {}
        self._content: list[dict[str, Any]] = []
        self._texts: dict[int, list[str]] = {}  # of text and thinking, by item

    @override
    def opening(self) -> bytes:
        message = self._message([], stop_reason=None, usage=_usage(TokensUsed()))
        return _event("message_start", message=message)

    @override
    def add(self, event: ModelEvent) -> bytes:
        match event:
            case ItemOpened(kind="tool"):
                self._calls[event.index] = event
                return self._begin(event.index, "tool")
            case TextPiece():
                self._texts.setdefault(event.index, []).append(event.text)
                before = self._enter(event.index, "text")
                return before + self._delta("text_delta", text=event.text)
            case ReasoningPiece():
                self._texts.setdefault(event.index, []).append(event.text)
                before = self._enter(event.index, "reasoning")
                return before + self._delta("thinking_delta", thinking=event.text)
            case ArgsPiece():
                before = self._enter(event.index, "tool")
                return before + self._delta("input_json_delta", partial_json=event.text)
            case ItemClosed():
                self._keep(event)
                return self._end() if self._open_item == event.index else b""
            case _:
                return b""

    @override
    def ending(self, finish: Finished, used: TokensUsed) -> bytes:
        changed = _event("message_delta", delta=_stopped(finish), usage=_usage(used))
        return b"".join((self._end(), changed, _event("message_stop")))

    @override
    def whole(self, finish: Finished, used: TokensUsed) -> bytes:
        return encode(self._message(self._content, **_stopped(finish), usage=_usage(used)))

    def _enter(self, index: int, kind: ItemKind) -> bytes:
        """Open a block for the item, unless it is open."""
        if self._open_item == index:
            return b""
        if kind == "tool" and index in self._ended:
            raise MalformedFrame("two tool calls are interleaved, which the client's protocol can't say")
        return self._begin(index, kind)

    def _begin(self, index: int, kind: ItemKind) -> bytes:
        before = self._end()
        self._block += 1
        self._open_item = index
        return before + _event(
            "content_block_start", index=self._block, content_block=self._empty(kind, index)
        )

    def _empty(self, kind: ItemKind, index: int) -> dict[str, Any]:
        if kind == "text":
            return {"type": "text", "text": "", "citations": None}
        if kind == "reasoning":
            return {"type": "thinking", "thinking": "", "signature": ""}
        call = self._calls[index]
        return _tool_use(call, {})

    def _end(self) -> bytes:
        if self._open_item is None:
            return b""
        self._ended.add(self._open_item)
        self._open_item = None
        return _event("content_block_stop", index=self._block)

    def _delta(self, kind: str, **fields: str) -> bytes:
        return _event("content_block_delta", index=self._block, delta={"type": kind, **fields})

    def _keep(self, item: ItemClosed) -> None:
        """Keep a block for the whole message. A client reads the first one, so no block is empty."""
        text = item.text or "".join(self._texts.pop(item.index, ()))  # of a long one, only pieces came
        if item.kind == "tool":
            self._content.append(_tool_use(item, arguments(text)))
        elif text and item.kind == "text":
            self._content.append({"type": "text", "text": text, "citations": None})
        elif text:
            self._content.append({"type": "thinking", "thinking": text, "signature": ""})

    def _message(self, content: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            "stop_sequence": None,
            "stop_details": None,
            "container": None,
            **fields,
        }


def _tool_use(call: ItemOpened | ItemClosed, given: Any) -> dict[str, Any]:
    named = {"id": call.tool_call_id, "name": call.name}
    return {"type": "tool_use", **named, "input": given, "caller": {"type": "direct"}}


def _event(name: str, **fields: Any) -> bytes:
    return data_frame({"type": name, **fields}, event=name)


def _stopped(finish: Finished) -> dict[str, Any]:
    """Why the message ends here."""
    by_sequence = bool(finish.stop_sequence)
    reason = "stop_sequence" if by_sequence else STOPS[finish.reason]
    return {"stop_reason": reason, "stop_sequence": finish.stop_sequence or None}


def _usage(used: TokensUsed) -> dict[str, Any]:
    fresh = used.input_tokens - used.cached_tokens - used.cache_write_tokens
    return {
        "input_tokens": max(0, fresh),
        "cache_read_input_tokens": used.cached_tokens,
        "cache_creation_input_tokens": used.cache_write_tokens,
        "output_tokens": used.output_tokens,
        "output_tokens_details": {"thinking_tokens": used.reasoning_tokens},
        "cache_creation": None,
        "inference_geo": None,
        "server_tool_use": None,
        "service_tier": None,
    }
