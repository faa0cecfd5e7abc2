"""An answer as OpenAI Responses: numbered events, and items that are opened, filled and done."""

import time
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, field
from typing_extensions import override

from holdfast.features.relay.translation.encoding import AnswerEncoder, data_frame, encode
from holdfast.model_events import (
    ArgsPiece,
    Finished,
    ItemClosed,
    ItemKind,
    ItemOpened,
    ModelEvent,
    ReasoningPiece,
    TextPiece,
    TokensUsed,
)
from holdfast.server.provider_formats import DEFAULTS, response_fields, text_part

INCOMPLETE = {"length": "max_output_tokens", "too_long": "max_output_tokens", "refused": "content_filter"}


_REPEATED = (*DEFAULTS, "reasoning", "tool_choice", "tools")
_Repeated = msgspec.defstruct("_Repeated", [(name, Any, None) for name in _REPEATED])


def repeated_fields(body: bytes) -> dict[str, object]:
    """The fields of a request that its response repeats."""
    given = msgspec.json.decode(body, type=_Repeated)
    return {name: getattr(given, name) for name in _REPEATED}


class _Item(Struct):
    """An item of the output while it is filled."""

    place: int
    kind: ItemKind
    item_id: str
    call_id: str = ""
    name: str = ""
    texts: list[str] = field(default_factory=list[str])

    def shown(self, status: str, text: str) -> dict[str, Any]:
        """The item as the protocol has it."""
        if self.kind == "tool":
            call = {"type": "function_call", "call_id": self.call_id, "name": self.name}
            return {"id": self.item_id, **call, "arguments": text, "status": status}
        if self.kind == "reasoning":
            summary = [{"type": "summary_text", "text": text}] if text else []
            return {"id": self.item_id, "type": "reasoning", "summary": summary}
        content = [text_part(text)] if status == "completed" else []
        message = {"type": "message", "role": "assistant", "status": status}
        return {"id": self.item_id, **message, "content": content}


class ResponsesEncoder(AnswerEncoder):
    """Events of a response, or the whole of it."""

    def __init__(self, answer_id: str, model: str, *, created_s: int, asked: Mapping[str, object]) -> None:
        self._answer_id = answer_id
        self._response: dict[str, Any] = {
            "id": f"resp_{answer_id}",
            "object": "response",
            "created_at": created_s,
            "model": model,
            **response_fields(asked),
            "store": False,  # a translated answer can't be continued by its id
        }
        self._number = -1
        self._items: dict[int, _Item] = {}
        self._done: dict[int, dict[str, Any]] = {}  # finished items by their place

    @override
    def opening(self) -> bytes:
        begun: dict[str, Any] = {**self._response, "status": "in_progress", "output": [], "usage": None}
        return self._event("response.created", response=begun) + self._event(
            "response.in_progress", response=begun
        )

    @override
    def add(self, event: ModelEvent) -> bytes:
        match event:
            case ItemOpened():
                return self._open(event)
            case TextPiece() | ReasoningPiece() | ArgsPiece():
                return self._fill(event)
            case ItemClosed():
                return self._close(event)
            case _:
                return b""

    @override
    def ending(self, finish: Finished, used: TokensUsed) -> bytes:
        response = self._finished(finish, used)
        return self._event(f"response.{response['status']}", response=response)

    @override
    def whole(self, finish: Finished, used: TokensUsed) -> bytes:
        return encode(self._finished(finish, used))

    def _open(self, opened: ItemOpened) -> bytes:
        place = len(self._items)
        prefix = {"tool": "fc", "reasoning": "rs", "text": "msg"}[opened.kind]
        item = _Item(
            place, opened.kind, f"{prefix}_{self._answer_id}_{place}", opened.tool_call_id, opened.name
        )
        self._items[opened.index] = item
        frames = self._event(
            "response.output_item.added", output_index=place, item=item.shown("in_progress", "")
        )
        if opened.kind == "text":
            return frames + self._of(item, "response.content_part.added", content_index=0, part=text_part(""))
        if opened.kind == "reasoning":
            part = {"type": "summary_text", "text": ""}
            return frames + self._of(
                item, "response.reasoning_summary_part.added", summary_index=0, part=part
            )
        return frames

    def _fill(self, piece: TextPiece | ReasoningPiece | ArgsPiece) -> bytes:
        item = self._items[piece.index]
        item.texts.append(piece.text)
        if item.kind == "text":
            return self._of(
                item, "response.output_text.delta", content_index=0, delta=piece.text, logprobs=[]
            )
        if item.kind == "reasoning":
            return self._of(item, "response.reasoning_summary_text.delta", summary_index=0, delta=piece.text)
        return self._of(item, "response.function_call_arguments.delta", delta=piece.text)

    def _close(self, closed: ItemClosed) -> bytes:
        item = self._items.get(closed.index)
        before = b""
        if item is None:
            before = self._open(ItemOpened(closed.index, closed.kind, closed.tool_call_id, closed.name))
            item = self._items[closed.index]
        text = closed.text or "".join(item.texts)
        item.call_id = closed.tool_call_id or item.call_id
        item.name = closed.name or item.name
        self._done[item.place] = shown = item.shown("completed", text)
        return b"".join(
            (
                before,
                self._last_of(item, text),
                self._event("response.output_item.done", output_index=item.place, item=shown),
            )
        )

    def _last_of(self, item: _Item, text: str) -> bytes:
        if item.kind == "tool":
            return self._of(item, "response.function_call_arguments.done", arguments=text)
        if item.kind == "reasoning":
            part = {"type": "summary_text", "text": text}
            return self._of(
                item, "response.reasoning_summary_text.done", summary_index=0, text=text
            ) + self._of(item, "response.reasoning_summary_part.done", summary_index=0, part=part)
        return self._of(
            item, "response.output_text.done", content_index=0, text=text, logprobs=[]
        ) + self._of(item, "response.content_part.done", content_index=0, part=text_part(text))

    def _finished(self, finish: Finished, used: TokensUsed) -> dict[str, Any]:
        why = INCOMPLETE.get(finish.reason)
        ended: dict[str, Any] = {
            "status": "incomplete" if why else "completed",
            "incomplete_details": {"reason": why} if why else None,
            "output": [self._done[place] for place in sorted(self._done)],
            "usage": _usage(used),
            "completed_at": None if why else int(time.time()),
        }
        return {**self._response, **ended}

    def _of(self, item: _Item, name: str, **fields: Any) -> bytes:
        return self._event(name, item_id=item.item_id, output_index=item.place, **fields)

    def _event(self, name: str, **fields: Any) -> bytes:
        self._number += 1
        return data_frame({"type": name, "sequence_number": self._number, **fields}, event=name)


def _usage(used: TokensUsed) -> dict[str, Any]:
    return {
        "input_tokens": used.input_tokens,
        "input_tokens_details": {
            "cached_tokens": used.cached_tokens,
            "cache_write_tokens": used.cache_write_tokens,
        },
        "output_tokens": used.output_tokens,
        "output_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
        "total_tokens": used.input_tokens + used.output_tokens,
    }
