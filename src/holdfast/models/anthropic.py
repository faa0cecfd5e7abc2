"""Turns Anthropic Messages into model events.

`content_block_stop` closes an item and `message_stop` the answer. The newest tool call is held back until
something follows it: the token limit can cut a call off, and its block is stopped like any other.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
from typing_extensions import override

from holdfast.model_events import (
    ArgsPiece,
    Finished,
    FinishReason,
    ItemClosed,
    ItemKind,
    Lifecycle,
    ModelEvent,
    ReasoningPiece,
    TextPiece,
    TokensUsed,
)
from holdfast.models.error_bodies import find_error
from holdfast.models.sse import FrameRun, MalformedFrame
from holdfast.models.wire import (
    NOTHING,
    UNREADABLE,
    NamedEventParser,
    UnclosedItem,
    decoded,
    raw_text,
    token_count,
    tokens_used,
    usage_table,
)

STOPS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tools",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    # The provider paused its own server-side tools; what is missing comes in a further turn.
    "pause_turn": "length",
    "refusal": "refused",
}
# The finish says the same.
KNOWN_STOPS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "tool_use": "tools",
    "max_tokens": "length",
    "refusal": "refused",
}
KINDS: dict[str, ItemKind] = {
    "text": "text",
    "thinking": "reasoning",
    "redacted_thinking": "reasoning",
    "tool_use": "tool",
}
ITEMS_MAX = 1000


class _Block(msgspec.Struct):
    type: str = ""
    id: str | None = None
    name: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    input: msgspec.Raw = msgspec.Raw()


class _StopDetails(msgspec.Struct, gc=False):
    category: str | None = None
    explanation: str | None = None


class _Delta(msgspec.Struct, gc=False):
    """The delta of a block or, with a stop reason, of the message."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: _StopDetails | None = None


class _Message(msgspec.Struct):
    type: str = ""
    content: list[_Block] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: _StopDetails | None = None
    usage: object = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    index: int = 0
    delta: _Delta | None = None
    content_block: _Block | None = None
    message: _Message | None = None
    usage: object = None


class _TextDelta(msgspec.Struct, gc=False):
    text: str
    type: str = ""
    thinking: None = None
    signature: None = None
    partial_json: None = None
    stop_reason: None = None
    stop_details: None = None


class _TextEvent(msgspec.Struct, gc=False):
    """An event with text and nothing else; decoding any other event fails."""

    type: Literal["content_block_delta"]
    delta: _TextDelta
    index: int = 0
    content_block: None = None
    message: None = None
    usage: None = None


_TEXT = msgspec.json.Decoder(_TextEvent)
_MESSAGE = msgspec.json.Decoder(_Message)


class AnthropicParser(NamedEventParser):
    """Parses one Messages answer, streamed or in one piece."""

    _event = msgspec.json.Decoder(_Event)

    def __init__(self) -> None:
        super().__init__()
        self._opened = 0
        self._blocks: dict[int, UnclosedItem | None] = {}  # None: a block that we skip
        self._text_index = -1  # the block of the last piece of text
        self._inputs: dict[int, str] = {}
        self._held_call: ItemClosed | None = None
        self._calls = 0
        self._stop_reason = ""
        self._stop_detail = ""
        self._stop_sequence = ""
        self._usage: dict[str, object] = {}
        self._steps = {
            "content_block_delta": self._block_delta,
            "content_block_start": self._block_start,
            "content_block_stop": self._block_stop,
            "message_start": self._message_start,
            "message_delta": self._message_delta,
            "message_stop": self._message_stop,
            "error": self._failed,
        }

    @override
    def text_of(self, run: FrameRun) -> TextPiece | None:
        index, texts = self._text_index, list[str]()
        item = self._blocks.get(index)
        if item is None or item.kind != "text" or self._over:
            return None
        try:
            for event in map(_TEXT.decode, run.datas):
                if event.index != index:
                    break
                texts.append(event.delta.text)
        except UNREADABLE:
            return item.more(texts, run)  # the next frame is of another kind
        return item.more(texts, run)

    def answer(self, body: bytes) -> Sequence[ModelEvent]:
        """The events of a whole message document."""
        message = decoded(_MESSAGE, body)
        if message.type != "message" and (message.type == "error" or message.content is None):
            if (error := find_error(body)) is None:
                raise MalformedFrame("an answer without content")
            self._over = True
            return [error]
        events: list[ModelEvent] = []
        for index, block in enumerate(message.content or ()):
            events += self._block_start(_Event(index=index, content_block=block), b"")
            events += self._block_stop(_Event(index=index), b"")
        if message.stop_reason is None:
            return events
        delta = _Delta(
            stop_reason=message.stop_reason,
            stop_sequence=message.stop_sequence,
            stop_details=message.stop_details,
        )
        events += self._message_delta(_Event(delta=delta, usage=message.usage), b"")
        return [*events, *self._message_stop(_Event(), b"")]

    def _block_delta(self, event: _Event, _data: bytes) -> Sequence[ModelEvent]:
        delta = event.delta or _Delta()
        events: list[ModelEvent] = []
        if delta.text:
            if (item := self._item_for(event.index, "text", events)) is not None:
                item.add(delta.text)
                events.append(TextPiece(item.index, delta.text))
                self._text_index = event.index
        elif delta.thinking:
            if (item := self._item_for(event.index, "reasoning", events)) is not None:
                item.add(delta.thinking)
                events.append(ReasoningPiece(item.index, delta.thinking))
        elif delta.partial_json:
            if (item := self._item_for(event.index, "tool", events)) is not None:
                item.add(delta.partial_json)
                events.append(ArgsPiece(item.index, delta.partial_json))
        elif delta.signature and (item := self._item_for(event.index, "reasoning", events)) is not None:
            item.opaque["signature"] = delta.signature
        return events

    def _block_start(self, event: _Event, _data: bytes) -> Sequence[ModelEvent]:
        block = event.content_block or _Block()
        events = self._release()
        kind = KINDS.get(block.type)
        if kind is None:
            self._blocks[event.index] = None
            return events
        item = self._open(event.index, kind)
        if kind == "tool":
            item.tool_call_id = block.id or ""
            item.name = block.name or ""
            self._inputs[event.index] = raw_text(block.input)
        if block.signature:
            item.opaque["signature"] = block.signature
        if block.data:
            item.opaque["redacted"] = block.data
        events.append(item.opened())
        if text := block.text if kind == "text" else block.thinking:
            item.add(text)
            events.append(TextPiece(item.index, text) if kind == "text" else ReasoningPiece(item.index, text))
        return events

    def _block_stop(self, event: _Event, _data: bytes) -> Sequence[ModelEvent]:
        item = self._blocks.pop(event.index, None)
        if item is None:
            return NOTHING
        if item.kind != "tool":
            return [item.closed()]
        # Gateways that don't stream the input send all of it at the start of the block.
        whole = self._inputs.pop(event.index, "")
        events: list[ModelEvent] = []
        if whole and not item.came.total_chars:
            item.add(whole)
            events.append(ArgsPiece(item.index, whole))
        events += self._release()
        self._held_call = item.closed()
        return events

    def _message_start(self, event: _Event, _data: bytes) -> Sequence[ModelEvent]:
        message = event.message or _Message()
        alive: list[ModelEvent] = [Lifecycle("message_start")]
        return [*alive, self._count(message.usage)] if message.usage is not None else alive

    def _message_delta(self, event: _Event, _data: bytes) -> Sequence[ModelEvent]:
        delta = event.delta or _Delta()
        events: list[ModelEvent] = []
        if delta.stop_reason:
            self._stop_reason = delta.stop_reason
            details = delta.stop_details or _StopDetails()
            self._stop_detail = details.explanation or details.category or ""
            self._stop_sequence = delta.stop_sequence or ""
        if event.usage is not None:
            events.append(self._count(event.usage))
        return events

    def _message_stop(self, _event: _Event, _data: bytes) -> Sequence[ModelEvent]:
        word = self._stop_reason or "end_turn"
        reason = STOPS.get(word, "stop")
        events: list[ModelEvent] = []
        if reason != "length":
            events = self._release()
            if any(item.kind == "tool" for item in self._blocks.values() if item is not None):
                raise MalformedFrame("the message ended inside a tool call")
        events += [
            item.closed() for item in self._blocks.values() if item is not None and item.kind != "tool"
        ]
        if reason in {"stop", "tools"}:
            reason = "tools" if self._calls else "stop"
        self._over = self.finished = True
        known = KNOWN_STOPS.get(word) == reason
        detail = self._stop_detail or ("" if known else word)
        events.append(Finished(reason, detail, self._stop_sequence))
        return events

    def _release(self) -> list[ModelEvent]:
        held = self._held_call
        if held is None:
            return []
        self._held_call = None
        self._calls += 1
        return [held]

    def _item_for(self, index: int, kind: ItemKind, events: list[ModelEvent]) -> UnclosedItem | None:
        if index in self._blocks:
            item = self._blocks[index]
            if item is not None and item.kind != kind:
                raise MalformedFrame(f"{kind} for a block of another kind")
            return item
        if kind == "tool":
            raise MalformedFrame("arguments for a tool call that has not started")
        events += self._release()
        item = self._open(index, kind)
        events.append(item.opened())
        return item

    def _open(self, index: int, kind: ItemKind) -> UnclosedItem:
        if self._opened >= ITEMS_MAX:
            raise MalformedFrame(f"an answer of more than {ITEMS_MAX} items")
        item = self._blocks[index] = UnclosedItem(index=self._opened, kind=kind)
        self._opened += 1
        return item

    def _count(self, usage: object) -> TokensUsed:
        """Counts are running totals; a missing count keeps its last value."""
        known = self._usage
        known.update({name: value for name, value in usage_table(usage).items() if value is not None})
        read, written = known.get("cache_read_input_tokens"), known.get("cache_creation_input_tokens")
        return tokens_used(
            sent=sum(map(token_count, (known.get("input_tokens"), read, written))),
            made=known.get("output_tokens"),
            cached=read,
            written=written,
            reasoning=usage_table(known.get("output_tokens_details")).get("thinking_tokens"),
        )
