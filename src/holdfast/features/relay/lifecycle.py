"""Tells a provider's lifecycle events from those that are part of the answer.

A relay passes on events that Holdfast doesn't know, such as those of tools that a provider runs. They are the
model's progress as much as text is.
"""

from collections.abc import Sequence

import msgspec
from typing_extensions import override

from holdfast.model_events import (
    Finished,
    ItemClosed,
    ItemOpened,
    Lifecycle,
    ModelEvent,
    TextPiece,
    TokensUsed,
)
from holdfast.models.sse import FrameRun, MalformedFrame, SseFrame
from holdfast.models.wire import (
    MappingParser,
    StreamParser,
    tokens_used,
    usage_table,
    with_whole_characters,
)

# The openings and keep-alives of the three wires; any other name is an event that says more.
OPENINGS = frozenset(
    {
        "",
        "chunk",
        "keepalive",
        "message_start",
        "ping",
        "response.created",
        "response.in_progress",
        "response.keepalive",
        "response.queued",
    }
)
# Opening events; a model may think silently after them.
STARTS = frozenset(
    {
        "content_block_start",
        "response.content_part.added",
        "response.output_item.added",
        "response.reasoning_summary_part.added",
    }
)
# Placeholders for unknown events: something was opened or created.
OPENED, MADE = ItemOpened(-1, "tool"), ItemClosed(-1, "reasoning")


def is_lifecycle(event: ModelEvent) -> bool:
    """Whether the event only says that the answer has begun."""
    return isinstance(event, TokensUsed) or (isinstance(event, Lifecycle) and event.name in OPENINGS)


class RelayParser(MappingParser):
    """Parses an answer for the watchdog: an unknown event is progress, and nothing is changed.

    Half a character in a tool's arguments is the client's business, which gets it as it came.
    """

    @override
    def parse(self, frame: SseFrame) -> Sequence[ModelEvent]:
        try:
            return super().parse(frame)
        except MalformedFrame:
            whole = with_whole_characters(frame.data)
            if whole == frame.data:
                raise
            return super().parse(SseFrame(frame.event, whole))

    @override
    def answer(self, body: bytes) -> Sequence[ModelEvent]:
        try:
            return super().answer(body)
        except MalformedFrame:
            whole = with_whole_characters(body)
            if whole == body:
                raise
            return super().answer(whole)

    @override
    def mapped(self, event: ModelEvent) -> ModelEvent:
        if not isinstance(event, Lifecycle) or event.name in OPENINGS:
            return event
        return OPENED if event.name in STARTS else MADE


class _Choice(msgspec.Struct):
    text: str = ""
    index: int = 0


class _Document(msgspec.Struct):
    usage: object = None  # in the words of any of OpenAI's routes
    choices: list[_Choice] = []


class DocumentParser(StreamParser):
    """Parses what is no answer of a chat model: a number of tokens, vectors, or a plain completion.

    Any document is whole, and in a stream any data is progress.
    """

    def __init__(self) -> None:
        self.finished = False

    @override
    def text_of(self, run: FrameRun) -> None:
        return None

    @override
    def parse(self, frame: SseFrame) -> Sequence[ModelEvent]:
        if not frame.data or self.finished:
            return ()
        if frame.data.strip() == b"[DONE]":
            return self.answer(b"")
        return _events_in(frame.data) or [MADE]

    @override
    def end(self) -> Sequence[ModelEvent]:
        return ()

    @override
    def answer(self, body: bytes) -> Sequence[ModelEvent]:
        self.finished = True
        return [*_events_in(body), Finished("stop")]


def _events_in(document: bytes) -> Sequence[ModelEvent]:
    """The text of a plain completion, and what it cost."""
    try:
        found = msgspec.json.decode(document, type=_Document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ()  # whatever it is, it is passed on
    events: list[ModelEvent] = [
        TextPiece(choice.index, choice.text) for choice in found.choices if choice.text
    ]
    if found.usage is not None:
        used = usage_table(found.usage)
        sent, made = (used.get(one) for one in ("input_tokens", "output_tokens"))
        events.append(
            tokens_used(
                sent=used.get("prompt_tokens") if sent is None else sent,
                made=used.get("completion_tokens") if made is None else made,
            )
        )
    return events
