"""Streams for the wire parsers, written briefly, and what came of them."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from holdfast.model_events import (
    ArgsPiece,
    ErrorReported,
    Finished,
    ItemClosed,
    ModelEvent,
    ReasoningPiece,
    TextPiece,
    TokensUsed,
)
from holdfast.models.sse import SseParser
from holdfast.models.wire import StreamParser

FRAMES = Path(__file__).parent / "frames"


def recorded(name: str) -> bytes:
    """A stream as a server of that kind sends it."""
    return (FRAMES / f"{name}.sse").read_bytes()


def stream(*frames: object) -> bytes:
    """An event stream of these frames: bytes as they are, anything else as JSON."""
    return b"".join(
        b"data: " + (frame if isinstance(frame, bytes) else json.dumps(frame).encode()) + b"\n\n"
        for frame in frames
    )


def read(parser: StreamParser, pieces: bytes | Iterable[bytes]) -> list[ModelEvent]:
    """The events of a whole stream, to its clean end."""
    events = read_open(parser, pieces)
    events += parser.end()
    return events


def read_open(parser: StreamParser, pieces: bytes | Iterable[bytes]) -> list[ModelEvent]:
    """The events of a stream that has not ended."""
    sse = SseParser()
    events: list[ModelEvent] = []
    for piece in [pieces] if isinstance(pieces, bytes) else pieces:
        for frame in sse.feed(piece):
            events += parser.parse(frame)
    for frame in sse.end():
        events += parser.parse(frame)
    return events


def text_of(events: Sequence[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextPiece))


def thinking_of(events: Sequence[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, ReasoningPiece))


def args_of(events: Sequence[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, ArgsPiece))


def closed(events: Sequence[ModelEvent]) -> list[ItemClosed]:
    return [event for event in events if isinstance(event, ItemClosed)]


def calls(events: Sequence[ModelEvent]) -> list[tuple[str, str, str]]:
    """Id, name and arguments of each tool call that was closed."""
    return [(item.tool_call_id, item.name, item.text) for item in closed(events) if item.kind == "tool"]


def finishes(events: Sequence[ModelEvent]) -> list[Finished]:
    return [event for event in events if isinstance(event, Finished)]


def errors(events: Sequence[ModelEvent]) -> list[ErrorReported]:
    return [event for event in events if isinstance(event, ErrorReported)]


def usage(events: Sequence[ModelEvent]) -> list[TokensUsed]:
    return [event for event in events if isinstance(event, TokensUsed)]
