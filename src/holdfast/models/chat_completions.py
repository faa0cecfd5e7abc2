"""Turns OpenAI Chat Completions, from OpenAI and the many servers that imitate it, into model events.

This wire doesn't close items. They are closed together, once `finish_reason` was seen and the stream has
ended (with `[DONE]`, or cleanly). An answer that was cut short closes no tool call.

The chunks of the Chat Completions wire, with only the fields that we read.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec
from typing_extensions import override

from holdfast.folds.gathered import Gathered
from holdfast.model_events import (
    ArgsPiece,
    ErrorReported,
    Finished,
    FinishReason,
    ModelEvent,
    ReasoningPiece,
    TextPiece,
    TokensUsed,
)
from holdfast.models.error_bodies import find_error, read_error
from holdfast.models.sse import FrameRun, MalformedFrame, SseFrame
from holdfast.models.wire import (
    ALIVE,
    NOTHING,
    UNREADABLE,
    StreamParser,
    UnclosedItem,
    decoded,
    is_json,
    raw_text,
    token_count,
    tokens_used,
    usage_table,
)


def chat_tokens_used(usage: object) -> TokensUsed:
    """OpenAI's usage object, with the extra fields of DeepSeek (cache hits) and Moonshot (cached)."""
    found = usage_table(usage)
    prompt = usage_table(found.get("prompt_tokens_details"))
    completion = usage_table(found.get("completion_tokens_details"))
    sent = found.get("prompt_tokens")
    # xAI and Gemini leave reasoning out of completion_tokens and count it in the total.
    beyond_prompt = token_count(found.get("total_tokens")) - token_count(sent)
    return tokens_used(
        sent=sent,
        made=max(token_count(found.get("completion_tokens")), beyond_prompt),
        cached=prompt.get("cached_tokens")
        or found.get("prompt_cache_hit_tokens")
        or found.get("cached_tokens"),
        written=prompt.get("cache_write_tokens"),
        reasoning=completion.get("reasoning_tokens") or found.get("reasoning_tokens"),
    )


class Function(msgspec.Struct, gc=False):
    """A function call; `arguments` is a string in the protocol, but some servers send an object."""

    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw()


class ChatToolCall(msgspec.Struct, gc=False):
    """A piece of a tool call."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None
    extra_content: msgspec.Raw = msgspec.Raw()


class ChatPart(msgspec.Struct, gc=False):
    """Mistral sends content as parts, thinking among them."""

    type: str = ""
    text: str | None = None
    thinking: "str | list[ChatPart] | None" = None


class ReasoningDetail(msgspec.Struct, omit_defaults=True):
    """OpenRouter's form of reasoning, which some models need back unchanged."""

    type: str = ""
    id: str | None = None
    format: str | None = None
    index: int | None = None
    text: str | None = None
    summary: str | None = None
    data: str | None = None
    signature: str | None = None


class Details(msgspec.Struct):
    """The pieces of one reasoning detail; a stream brings thousands."""

    last: ReasoningDetail
    texts: Gathered = msgspec.field(default_factory=Gathered)
    summaries: Gathered = msgspec.field(default_factory=Gathered)

    def whole(self) -> ReasoningDetail:
        """The whole detail, to be sent back."""
        text, summary = str(self.texts), str(self.summaries)
        return msgspec.structs.replace(self.last, text=text or None, summary=summary or None)


class Delta(msgspec.Struct, gc=False):
    """The part of the answer in a chunk; all of it if the answer isn't streamed."""

    content: str | list[ChatPart] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[ReasoningDetail] | None = None
    refusal: str | None = None
    tool_calls: list[ChatToolCall] | None = None
    function_call: Function | None = None


class ChunkChoice(msgspec.Struct, gc=False):
    """One alternative; we ask for a single one."""

    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    index: int | None = None
    usage: object = None


class Chunk(msgspec.Struct, gc=False):
    """A chunk of the stream, or a whole answer."""

    choices: list[ChunkChoice] | None = None
    usage: object = None
    error: object = None
    x_groq: object = None


_Blank: TypeAlias = Literal[""] | None


class _TextDelta(msgspec.Struct, gc=False):
    content: str
    reasoning_content: _Blank = None
    reasoning: _Blank = None
    reasoning_details: None = None
    refusal: _Blank = None
    tool_calls: None = None
    function_call: None = None


class _TextChoice(msgspec.Struct, gc=False):
    delta: _TextDelta
    finish_reason: _Blank = None
    index: Literal[0] | None = None
    usage: None = None


class TextChunk(msgspec.Struct, gc=False):
    """A chunk with text and no other field that we read; decoding any other chunk fails."""

    choices: tuple[_TextChoice]
    usage: None = None
    error: None = None
    x_groq: None = None


CHUNK = msgspec.json.Decoder(Chunk)
TEXT = msgspec.json.Decoder(TextChunk)


FINISHES: dict[str, FinishReason] = {
    "stop": "stop",
    "tool_calls": "tools",
    "function_call": "tools",
    "tool_use": "tools",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "refused",
    "refusal": "refused",
    "sensitive": "refused",
    # Gemini's own values, which some gateways pass on.
    "blocklist": "refused",
    "prohibited_content": "refused",
    "recitation": "refused",
    "safety": "refused",
    "spii": "refused",
}
# With these, a server reports a failure although its stream ends cleanly.
FAILED_FINISHES = frozenset(
    {
        "abort",
        "cancelled",
        "error",
        "function_call_filter",
        "insufficient_system_resource",
        "malformed_function_call",
        "network_error",
        "unexpected_tool_call",
    }
)
ITEMS_MAX = 1000

_DONE = b"[DONE]"


class ChatParser(StreamParser):
    """Parses one Chat Completions answer, streamed or in one piece."""

    def __init__(self) -> None:
        self.finished = False
        self._over = False
        self._finish_reason = ""
        self._refused = False
        self._text: UnclosedItem | None = None
        self._reasoning: UnclosedItem | None = None
        self._details: list[Details] = []
        self._items: list[UnclosedItem] = []
        self._tools: dict[int, UnclosedItem] = {}
        self._last_tool: UnclosedItem | None = None
        self._used: TokensUsed | None = None

    def parse(self, frame: SseFrame) -> Sequence[ModelEvent]:
        """The events of one chunk."""
        data = frame.data
        if self._over or not data:
            return NOTHING
        if data[:6] == _DONE:
            return self.end() or ALIVE
        if frame.event == b"error":
            self._over = True
            return [read_error(0, data)]
        chunk = decoded(CHUNK, data)
        choices = chunk.choices
        if not choices or chunk.error:
            return self._without_choice(chunk, data)
        choice = choices[0]
        if choice.index:
            return ALIVE  # a second alternative: we ask for one
        events: list[ModelEvent] = []
        if choice.delta is not None:
            self._take_delta(choice.delta, events)
        if choice.finish_reason:
            self._finish_reason = choice.finish_reason
        if chunk.usage is not None or choice.usage is not None or chunk.x_groq is not None:
            self._take_usage(chunk)
        return events or ALIVE

    @override
    def text_of(self, run: FrameRun) -> TextPiece | None:
        item, texts = self._text, list[str]()
        if item is None or self._over or run.event == b"error":
            return None
        try:
            for chunk in map(TEXT.decode, run.datas):
                texts.append(chunk.choices[0].delta.content)
        except UNREADABLE:
            return item.more(texts, run)  # the next frame is of another kind
        return item.more(texts, run)

    def end(self) -> Sequence[ModelEvent]:
        """Close the items and finish, if there was a finish reason."""
        if self._over or not self._finish_reason:
            return NOTHING
        self._over = True
        word = self._finish_reason.partition(":")[0].strip().lower()
        events: list[ModelEvent] = [] if self._used is None else [self._used]
        if word in FAILED_FINISHES:
            message = f"the provider ended its answer with finish_reason {self._finish_reason}"
            return [*events, ErrorReported(message=message, code=word)]
        reason = FINISHES.get(word, "stop")
        whole = reason in {"stop", "tools"}
        if self._reasoning is not None and self._details:
            details = msgspec.json.encode([each.whole() for each in self._details])
            self._reasoning.opaque["reasoning_details"] = details.decode()
        events += [item.closed() for item in self._items if whole or item.kind != "tool"]
        if reason == "stop" and self._refused:
            reason, word = "refused", "refused"  # by the model itself, whatever the server calls it
        elif whole:
            # Gemini, Ollama and others say "stop" after a tool call; the calls are what counts.
            reason = "tools" if self._last_tool is not None else "stop"
        self.finished = True
        events.append(Finished(reason, "" if word == reason else self._finish_reason))
        return events

    def answer(self, body: bytes) -> Sequence[ModelEvent]:
        """The events of a whole `chat.completion` document."""
        chunk = decoded(CHUNK, body)
        if not chunk.choices or chunk.error:
            if (error := find_error(body)) is None:
                raise MalformedFrame("an answer without a choice")
            self._over = True
            return [error]
        choice = chunk.choices[0]
        events: list[ModelEvent] = []
        if (message := choice.message or choice.delta) is not None:
            self._take_delta(message, events)
        self._finish_reason = choice.finish_reason or ""
        self._take_usage(chunk)
        return [*events, *self.end()]

    def _without_choice(self, chunk: Chunk, data: bytes) -> Sequence[ModelEvent]:
        if chunk.usage is not None and not chunk.error:
            self._used = None
            return [chat_tokens_used(chunk.usage)]
        # An error of an unknown shape is still an error.
        error = find_error(data) or (read_error(0, data) if chunk.error else None)
        if error is None:
            return ALIVE  # Azure's first chunk, for example, has filter results and no choice
        self._over = True
        return [error]

    def _take_usage(self, chunk: Chunk) -> None:
        """Keep the usage: some servers send it in every chunk, so it's reported once, at the end."""
        of_choice = chunk.choices[0].usage if chunk.choices else None
        usage = chunk.usage or of_choice or usage_table(chunk.x_groq).get("usage")
        if usage is not None:
            self._used = chat_tokens_used(usage)

    def _take_delta(self, delta: Delta, events: list[ModelEvent]) -> None:
        content = delta.content
        if delta.reasoning_content:
            self._think("reasoning_content", delta.reasoning_content, events)
        elif delta.reasoning:
            self._think("reasoning", delta.reasoning, events)
        if delta.reasoning_details:
            self._take_details(delta, events)
        if content:
            if isinstance(content, str):
                self._say(content, events)
            else:
                self._take_parts(content, events)
        if delta.refusal:
            self._refused = True
            self._say(delta.refusal, events)
        if delta.tool_calls:
            for call in delta.tool_calls:
                self._take_call(call, events)
        if delta.function_call is not None:
            self._take_call(ChatToolCall(index=0, function=delta.function_call), events)

    def _say(self, text: str, events: list[ModelEvent]) -> None:
        item = self._text
        if item is None:
            item = self._text = self._open(UnclosedItem(index=len(self._items), kind="text"), events)
        item.add(text)
        events.append(TextPiece(item.index, text))

    def _think(self, field: str, text: str, events: list[ModelEvent]) -> None:
        item = self._reasoning
        if item is None:
            item = self._reasoning = self._open(
                UnclosedItem(index=len(self._items), kind="reasoning"), events
            )
            if field:
                item.opaque["field"] = field
        item.add(text)
        events.append(ReasoningPiece(item.index, text))

    def _take_parts(self, parts: list[ChatPart], events: list[ModelEvent]) -> None:
        for part in parts:
            if part.thinking:
                inner = part.thinking
                text = inner if isinstance(inner, str) else "".join(piece.text or "" for piece in inner)
                if text:
                    self._think("", text, events)
            elif part.text:
                self._say(part.text, events)

    def _take_details(self, delta: Delta, events: list[ModelEvent]) -> None:
        for detail in delta.reasoning_details or ():
            text = detail.text or detail.summary or ""
            if text and not (delta.reasoning or delta.reasoning_content):
                self._think("reasoning", text, events)
            same = self._details[-1] if self._details else None
            if (
                same is None
                or detail.data
                or (same.last.type, same.last.index) != (detail.type, detail.index)
            ):
                same = Details(detail)
                self._details.append(same)
            same.last.signature = detail.signature or same.last.signature
            same.texts.add(detail.text or "")
            same.summaries.add(detail.summary or "")
        if self._reasoning is None:
            self._reasoning = self._open(UnclosedItem(index=len(self._items), kind="reasoning"), events)
        elif self._reasoning.is_long:
            self._details.clear()  # incomplete details aren't sent back

    def _take_call(self, call: ChatToolCall, events: list[ModelEvent]) -> None:
        function = call.function or Function()
        args = raw_text(function.arguments)
        item = self._call_begun(call, name=function.name or "", args=args)
        if item is None:
            item = UnclosedItem(index=len(self._items), kind="tool", tool_call_id=call.id or "")
            item.name = function.name or ""
            self._last_tool = self._open(item, events)
            if call.index is not None:
                self._tools[call.index] = item
        item.tool_call_id = item.tool_call_id or call.id or ""
        item.name = item.name or function.name or ""
        if extra := raw_text(call.extra_content):
            item.opaque["extra_content"] = extra
        if args:
            item.add(args)
            events.append(ArgsPiece(item.index, args))

    def _call_begun(self, call: ChatToolCall, *, name: str, args: str) -> UnclosedItem | None:
        """The open call that this piece belongs to, or None if it starts another.

        Neither index nor id is reliable: some servers send no index, one index for two calls, or a new id
        with every piece. Only the first piece of a call needs a name.
        """
        if call.index is None:
            return self._call_begun_without_index(call.id or "", name)
        item = self._tools.get(call.index)
        if item is None or not name or not item.name:
            return item
        if call.id and item.tool_call_id:
            return item if call.id == item.tool_call_id else None
        if name != item.name or (args[:1] == "{" and is_json(str(item.came))):
            return None
        return item

    def _call_begun_without_index(self, call_id: str, name: str) -> UnclosedItem | None:
        if call_id:
            for item in self._items:
                if item.tool_call_id == call_id:
                    return item
        return None if name else self._last_tool

    def _open(self, item: UnclosedItem, events: list[ModelEvent]) -> UnclosedItem:
        if len(self._items) >= ITEMS_MAX:
            raise MalformedFrame(f"an answer of more than {ITEMS_MAX} items")
        self._items.append(item)
        events.append(item.opened())
        return item
