"""Watches an answer as it passes: what each piece means for the watchdog, and whether the answer is complete.

What is not understood counts as progress: the guard ends only what it knows to be silent.
"""

import zlib
from collections.abc import Sequence
from typing import Protocol

import httpx2
import msgspec

from holdfast.decisions.deadlines import Sign, sign_of
from holdfast.model_events import ErrorReported, Finished, Lifecycle, ModelEvent
from holdfast.models.adapters import adapter_of
from holdfast.models.sse import MalformedFrame, SseFrame, SseParser
from holdfast.targets import Wire

OK = 200
INFLATED = ("gzip", "deflate")
ANY_ZLIB = 47  # the window of zlib that takes its own format and gzip's
PATHS: dict[str, Wire] = {
    "/chat/completions": "chat",
    "/responses": "responses",
    "/messages": "anthropic",
}

# Of events that Holdfast doesn't use, the wire parsers only tell the name. Other programs use them: hosted
# tools, images, audio.
NAMES: dict[str, Sign] = {
    "": Sign.ALIVE,
    "keepalive": Sign.ALIVE,
    "message_start": Sign.ALIVE,
    "ping": Sign.ALIVE,
    "response.created": Sign.ALIVE,
    "response.in_progress": Sign.ALIVE,
    "response.queued": Sign.ALIVE,
    "response.content_part.added": Sign.ALIVE,
    # A parser tells only the name of these if they are empty.
    "response.function_call_arguments.delta": Sign.ALIVE,
    "response.output_text.delta": Sign.ALIVE,
    "response.reasoning_summary_text.delta": Sign.ALIVE,
    "response.reasoning_text.delta": Sign.ALIVE,
    "response.refusal.delta": Sign.ALIVE,
    # Empty, or of a hosted tool's block: it gets more patience once, and can't renew it.
    "content_block_delta": Sign.OPENING,
}
DONE = ("delta", "done", "completed", "stop", "partial_image")
CHUNK = "chunk"

_NOTHING_SAID = (b"null", b'""', b"[]", b"{}")


class Listener(Protocol):
    """Watches an answer; `complete` once its protocol has said that it is over, well or badly."""

    complete: bool

    @property
    def expects_marker(self) -> bool:
        """Whether the answer would be cut short if it ended now."""
        ...

    def feed(self, piece: bytes) -> Sequence[Sign]:
        """What this piece means."""
        ...

    def end(self) -> Sequence[Sign]:
        """What the end of the body means."""
        ...


class BytesListener:
    """Watches an answer that is not an event stream: bytes are progress, white space is a keep-alive."""

    complete = False
    expects_marker = False

    def feed(self, piece: bytes) -> Sequence[Sign]:
        """What this piece means."""
        return [Sign.PROGRESS] if piece.strip() else []

    def end(self) -> Sequence[Sign]:
        """Nothing: HTTP itself says whether such a body is complete."""
        return []


class EventsListener:
    """Watches an event stream; on an unknown wire, every event with data is progress."""

    def __init__(self, wire: Wire | None, *, compressed: bool = False) -> None:
        self.complete = False
        self._sse: SseParser | None = SseParser()
        self._parser = adapter_of(wire).parser() if wire else None
        self._inflate = zlib.decompressobj(ANY_ZLIB) if compressed else None

    @property
    def expects_marker(self) -> bool:
        """Whether the marker is still missing; False if the stream could not be read."""
        return self._parser is not None and not self.complete

    def feed(self, piece: bytes) -> Sequence[Sign]:
        """What this piece means."""
        if self._sse is None:
            return [Sign.PROGRESS]
        try:
            plain = piece if self._inflate is None else self._inflate.decompress(piece)
            return [sign for frame in self._sse.feed(plain) for sign in self._signs(frame)]
        except (MalformedFrame, zlib.error):
            self._sse = self._parser = None
            return [Sign.PROGRESS]

    def end(self) -> Sequence[Sign]:
        """What the end of the stream means: on some wires an answer is complete only then."""
        signs = [sign for frame in self._sse.end() for sign in self._signs(frame)] if self._sse else []
        if self._parser is not None:
            signs += [self._sign(event, b"") for event in self._parser.end()]
        return signs

    def _signs(self, frame: SseFrame) -> Sequence[Sign]:
        if self._parser is not None:
            try:
                return [self._sign(event, frame.data) for event in self._parser.parse(frame)]
            except MalformedFrame:
                self._parser = None
        return [Sign.ALIVE if frame.event == b"ping" else Sign.PROGRESS]

    def _sign(self, event: ModelEvent, data: bytes) -> Sign:
        if isinstance(event, Lifecycle):
            return _sign_of_name(event.name, data)
        if isinstance(event, Finished | ErrorReported):
            self.complete = True
        return sign_of(event)


class _Choice(msgspec.Struct):
    delta: dict[str, msgspec.Raw] | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None


_CHUNK = msgspec.json.Decoder(_Chunk)


def _sign_of_name(name: str, data: bytes) -> Sign:
    if name == CHUNK:
        return Sign.PROGRESS if _says_something(data) else Sign.ALIVE
    known = NAMES.get(name)
    if known is not None:
        return known
    return Sign.PROGRESS if name.endswith(DONE) else Sign.OPENING


def _says_something(data: bytes) -> bool:
    """Whether a chunk has content that the parser skips: a second choice, or a new kind."""
    try:
        chunk = _CHUNK.decode(data)
    except msgspec.MsgspecError:
        return False
    return any(
        field != "role" and bytes(value) not in _NOTHING_SAID
        for choice in chunk.choices or ()
        for field, value in (choice.delta or {}).items()
    )


def wire_of(request: httpx2.Request) -> Wire | None:
    """The wire that a request speaks, by its path."""
    if request.method != "POST":
        return None
    path = request.url.path.rstrip("/")
    return next((wire for end, wire in PATHS.items() if path.endswith(end)), None)


def listener_for(request: httpx2.Request, response: httpx2.Response) -> Listener:
    """The listener for an answer, by its headers."""
    kind: str = response.headers.get("content-type", "").lower()
    wire = wire_of(request) if response.status_code == OK else None
    encoding: str = response.headers.get("content-encoding", "identity").strip().lower()
    # Some servers omit the content type of a stream, but none omits that of JSON.
    streams = "event-stream" in kind or (wire is not None and not kind)
    if not streams or encoding not in {"identity", "", *INFLATED}:
        return BytesListener()
    return EventsListener(wire, compressed=encoding in INFLATED)
