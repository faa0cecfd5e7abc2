"""Turns OpenAI Responses, and the Codex backend's dialect, into model events.

`response.output_item.done` closes an item and `response.completed` the answer. The Codex backend may omit
the opening of an item and the `output` of the final response.

The events of the Responses wire, with only the fields that we read.
"""

import re
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
from typing_extensions import override

from holdfast.model_events import (
    ArgsPiece,
    Finished,
    FinishReason,
    ItemKind,
    ModelEvent,
    ReasoningPiece,
    TextPiece,
    TokensUsed,
)
from holdfast.models.error_bodies import find_error, read_error
from holdfast.models.sse import FrameRun, MalformedFrame
from holdfast.models.wire import (
    UNREADABLE,
    NamedEventParser,
    UnclosedItem,
    decoded,
    raw_text,
    tokens_used,
    usage_table,
)


class ResponsesPart(msgspec.Struct):
    """A part of a message or of reasoning."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None


class ResponsesItem(msgspec.Struct):
    """An item of the answer."""

    type: str = ""
    id: str | None = None
    status: str | None = None
    content: list[ResponsesPart] | None = None
    summary: list[ResponsesPart] | None = None
    encrypted_content: str | None = None
    phase: msgspec.Raw = msgspec.Raw()
    call_id: str | None = None
    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw()


def responses_tokens_used(usage: object) -> TokensUsed:
    """The token counts of a response."""
    found = usage_table(usage)
    sent = usage_table(found.get("input_tokens_details"))
    made = usage_table(found.get("output_tokens_details"))
    return tokens_used(
        sent=found.get("input_tokens"),
        made=found.get("output_tokens"),
        cached=sent.get("cached_tokens"),
        written=sent.get("cache_write_tokens"),
        reasoning=made.get("reasoning_tokens"),
    )


class Incomplete(msgspec.Struct, gc=False):
    """Why a response stopped short."""

    reason: str | None = None


class ResponsesResult(msgspec.Struct):
    """The response object; only its final state matters."""

    status: str | None = None
    output: list[ResponsesItem] | None = None
    usage: object = None
    incomplete_details: Incomplete | None = None
    error: msgspec.Raw = msgspec.Raw()


class ResponsesEvent(msgspec.Struct, gc=False):
    """Any event of the stream."""

    type: str = ""
    delta: str | None = None
    output_index: int | None = None
    item_id: str | None = None
    content_index: int | None = None
    summary_index: int | None = None
    arguments: str | None = None
    item: ResponsesItem | None = None
    response: ResponsesResult | None = None


class ResponsesTextDelta(msgspec.Struct, gc=False):
    """An event with text, its position and nothing else; decoding any other event fails."""

    type: Literal["response.output_text.delta"]
    delta: str
    output_index: int
    item_id: str | None = None
    content_index: int | None = None
    summary_index: int | None = None
    arguments: str | None = None
    item: None = None
    response: None = None


TEXT = msgspec.json.Decoder(ResponsesTextDelta)
RESPONSE = msgspec.json.Decoder(ResponsesResult)


INCOMPLETE: dict[str, FinishReason] = {"max_output_tokens": "length", "content_filter": "refused"}
KINDS: dict[str, ItemKind] = {"message": "text", "reasoning": "reasoning", "function_call": "tool"}
STATUSES = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
ITEMS_MAX = 1000
PARTS_APART = "\n\n"
PHASE = re.compile(rb'"([a-z][a-z_]{0,39})"')


class _Live(msgspec.Struct):
    """An open item; `part` is its current content or summary part.

    `before` is text that came at the same index before reasoning interrupted it.
    """

    item: UnclosedItem
    before: str = ""
    part: str = ""
    arguments: str | None = None
    over: bool = False

    @property
    def text(self) -> str:
        """All text at its index so far."""
        return self.before + (str(self.item.came) if self.item.kind == "text" else "")


class ResponsesParser(NamedEventParser):
    """Parses one Responses answer, streamed or in one piece."""

    _event = msgspec.json.Decoder(ResponsesEvent)

    def __init__(self) -> None:
        super().__init__()
        self._refused = False
        self._opened = 0
        self._tool_ids: set[str] = set()
        self._live: dict[int, _Live] = {}
        self._text_place = -1  # the index of the last piece of text
        self._places: dict[str, int] = {}
        self._steps = {
            "response.output_text.delta": self._text_delta,
            "response.refusal.delta": self._refusal_delta,
            "response.reasoning_summary_text.delta": self._summary_delta,
            "response.reasoning_text.delta": self._thought_delta,
            "response.function_call_arguments.delta": self._args_delta,
            "response.function_call_arguments.done": self._args_done,
            "response.output_item.added": self._item_added,
            "response.output_item.done": self._item_done,
            "response.completed": self._done,
            "response.done": self._done,
            "response.incomplete": self._done,
            "response.failed": self._done,
            "response.cancelled": self._done,
            "error": self._failed,
            "response.error": self._failed,
        }

    @override
    def text_of(self, run: FrameRun) -> TextPiece | None:
        place, texts = self._text_place, list[str]()
        live = self._live.get(place)
        if live is None or live.over or live.item.kind != "text" or self._over:
            return None
        try:
            for event in map(TEXT.decode, run.datas):
                if event.output_index != place:
                    break
                texts.append(event.delta)
        except UNREADABLE:
            return live.item.more(texts, run)  # the next frame is of another kind
        return live.item.more(texts, run)

    def answer(self, body: bytes) -> Sequence[ModelEvent]:
        """The events of a whole response document."""
        response = decoded(RESPONSE, body)
        if response.status is None:
            if (error := find_error(body)) is None:
                raise MalformedFrame("an answer without a status")
            self._over = True
            return [error]
        return self._done(ResponsesEvent(response=response), body)

    def _text_delta(self, event: ResponsesEvent, _data: bytes) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        if text := event.delta:
            live = self._item_for(event, "text", events)
            live.item.add(text)
            events.append(TextPiece(live.item.index, text))
            self._text_place = -1 if event.output_index is None else event.output_index
        return events

    def _refusal_delta(self, event: ResponsesEvent, data: bytes) -> list[ModelEvent]:
        self._refused = True
        return self._text_delta(event, data)

    def _summary_delta(self, event: ResponsesEvent, _data: bytes) -> list[ModelEvent]:
        return self._reasoning_delta(event, f"summary {event.summary_index}")

    def _thought_delta(self, event: ResponsesEvent, _data: bytes) -> list[ModelEvent]:
        return self._reasoning_delta(event, f"content {event.content_index}")

    def _reasoning_delta(self, event: ResponsesEvent, part: str) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        if text := event.delta:
            live = self._item_for(event, "reasoning", events)
            if live.part not in {"", part}:
                text = PARTS_APART + text
            live.part = part
            live.item.add(text)
            events.append(ReasoningPiece(live.item.index, text))
        return events

    def _args_delta(self, event: ResponsesEvent, _data: bytes) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        if event.delta:
            live = self._item_for(event, "tool", events)
            live.item.add(event.delta)
            events.append(ArgsPiece(live.item.index, event.delta))
        return events

    def _args_done(self, event: ResponsesEvent, _data: bytes) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        self._item_for(event, "tool", events).arguments = event.arguments
        return events

    def _item_added(self, event: ResponsesEvent, _data: bytes) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        item = event.item or ResponsesItem()
        kind = KINDS.get(item.type)
        if kind is not None:
            place = self._place(event.output_index, item.id or "")
            live = self._live.get(place)
            if live is None or live.over or live.item.kind != kind:
                live = self._open(place, kind, events)
            live.item.tool_call_id = item.call_id or ""
            live.item.name = item.name or ""
            live.item.phase = _phase_of(item, kind)
            if events:
                events[-1] = live.item.opened()
        return events

    def _item_done(self, event: ResponsesEvent, _data: bytes) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        item = event.item or ResponsesItem()
        self._close(self._place(event.output_index, item.id or ""), item, events)
        return events

    def _done(self, event: ResponsesEvent, _data: bytes) -> list[ModelEvent]:
        response = event.response or ResponsesResult()
        status = STATUSES.get(event.type) or response.status or "completed"
        if status == "completed" and response.status in STATUSES.values():
            status = (
                response.status
            )  # gateways end every stream the same way, but the response has the real status
        events: list[ModelEvent] = []
        if status in {"completed", "incomplete"}:
            self._close_rest(response, events)
        if response.usage is not None:
            events.append(responses_tokens_used(response.usage))
        self._over = True
        if status == "completed":
            by_tools = "tools" if self._tool_ids else "stop"
            events.append(Finished("refused" if self._refused and not self._tool_ids else by_tools))
        elif status == "incomplete":
            why = (response.incomplete_details or Incomplete()).reason or ""
            events.append(Finished(INCOMPLETE.get(why, "length"), why))
        elif status in {"failed", "cancelled"}:
            given = raw_text(response.error) and bytes(response.error)
            events.append(read_error(0, b'{"error":%b}' % (given or b'"no reason given"')))
            return events
        else:
            raise MalformedFrame(f"a response that is {status}")
        self.finished = True
        return events

    def _place(self, output_index: int | None, item_id: str) -> int:
        """The position of an item in the answer: by its index, else by its id, else the latest."""
        if output_index is None:
            latest = max(self._live, default=-1)
            beyond = latest + 1 if latest < 0 or self._live[latest].over else latest
            output_index = self._places.get(item_id, beyond)
        if item_id:
            self._places[item_id] = output_index
        return output_index

    def _item_for(self, event: ResponsesEvent, kind: ItemKind, events: list[ModelEvent]) -> _Live:
        place = self._place(event.output_index, event.item_id or "")
        live = self._live.get(place)
        if live is None or (live.item.kind != kind and "tool" not in {kind, live.item.kind}):
            live = self._open(place, kind, events)
        if live.over or live.item.kind != kind:
            raise MalformedFrame(f"{kind} for an item that is not open, or not of that kind")
        return live

    def _open(self, place: int, kind: ItemKind, events: list[ModelEvent]) -> _Live:
        """Open an item; some gateways use one index for reasoning and text, where each ends the other."""
        if self._opened >= ITEMS_MAX:
            raise MalformedFrame(f"an answer of more than {ITEMS_MAX} items")
        last = self._live.get(place)
        if last is not None and last.item.kind != "tool" and not last.over:
            self._settle(last, "", events, cut=False)
        before = "" if last is None else last.text
        live = self._live[place] = _Live(
            # The final text, which repeats the item, is compared with what was streamed.
            UnclosedItem(index=self._opened, kind=kind, is_kept_whole=True),
            before,
        )
        self._opened += 1
        events.append(live.item.opened())
        return live

    def _close(self, place: int, final: ResponsesItem, events: list[ModelEvent]) -> None:
        kind = KINDS.get(final.type)
        live = self._live.get(place)
        if kind is None or (live is not None and live.over and live.item.kind == kind):
            return
        if live is None or live.item.kind != kind:
            live = self._open(place, kind, events)
        item = live.item
        item.tool_call_id = final.call_id or item.tool_call_id or (final.id or "" if kind == "tool" else "")
        item.name = final.name or item.name
        item.phase = _phase_of(final, kind) or item.phase
        if kind == "reasoning" and final.encrypted_content:
            item.opaque["encrypted_content"] = final.encrypted_content
        self._refused = self._refused or any(part.refusal for part in final.content or ())
        self._settle(live, _text_of(final, kind), events, cut=final.status == "incomplete")

    def _settle(self, live: _Live, final: str, events: list[ModelEvent], *, cut: bool) -> None:
        """End an item with its final text; a tool call that was cut short is never closed."""
        item = live.item
        live.over = True
        came = str(item.came)
        whole = final or (live.arguments or came)
        if item.kind == "reasoning" and came:
            whole = came  # the parts were joined as they arrived
        if item.kind == "text" and whole.startswith(live.before + came):
            whole = whole[len(live.before) :]
        if len(whole) > len(came) and whole.startswith(came):
            rest = whole[len(came) :]
            item.add(rest)
            events.append(_PIECES[item.kind](item.index, rest))
        if item.kind == "tool":
            if cut:
                return
            self._tool_ids.add(item.tool_call_id)
        events.append(item.closed(whole))

    def _close_rest(self, response: ResponsesResult, events: list[ModelEvent]) -> None:
        """Close what the stream left open, from the final response, which repeats all items."""
        said = {live.text for live in self._live.values()} - {""}
        for at, item in enumerate(response.output or ()):
            kind = KINDS.get(item.type)
            # Some gateways use other indexes in the stream; then the id or the text identifies the item.
            place = self._places.get(item.id or "", at)
            live = self._live.get(place)
            if kind == "tool" or live is None or live.item.kind != kind:
                place, live = at, self._live.get(at)
            known = live.over or live.item.kind != kind if live else _text_of(item, "text") in said
            if not known and not (item.call_id and item.call_id in self._tool_ids):
                self._close(place, item, events)
        for live in self._live.values():
            if not live.over:
                if live.item.kind == "tool" and live.arguments is None and response.status != "incomplete":
                    raise MalformedFrame("the response ended inside a tool call")
                self._settle(live, "", events, cut=live.arguments is None)


def _phase_of(item: ResponsesItem, kind: ItemKind) -> str:
    """The phase of a message; kept only if it's a single word, because it is sent back."""
    word = PHASE.fullmatch(bytes(item.phase)) if kind == "text" else None
    return word[1].decode() if word else ""


def _text_of(item: ResponsesItem, kind: ItemKind) -> str:
    if kind == "tool":
        return raw_text(item.arguments)
    if kind == "reasoning":
        return PARTS_APART.join(part.text or "" for part in item.summary or item.content or ())
    return "".join(part.text or part.refusal or "" for part in item.content or ())


_PIECES: dict[ItemKind, Callable[[int, str], ModelEvent]] = {
    "text": TextPiece,
    "reasoning": ReasoningPiece,
    "tool": ArgsPiece,
}
