"""The common part of the three wires: requests as bytes, open items, possibly invalid JSON."""

import hashlib
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Protocol, TypeVar, cast
from urllib.parse import urlsplit, urlunsplit

import msgspec
from typing_extensions import override

from holdfast.folds.gathered import Gathered
from holdfast.messages import (
    AskedTool,
    AssistantMessage,
    Message,
    ModelRequest,
    Said,
    SaidText,
    Thought,
    ToolSpec,
)
from holdfast.model_events import (
    LONG_CHARS,
    ItemClosed,
    ItemKind,
    ItemOpened,
    Lifecycle,
    ModelEvent,
    TextPiece,
    TokensUsed,
)
from holdfast.models.error_bodies import find_error, read_error
from holdfast.models.sse import FrameRun, MalformedFrame, SseFrame
from holdfast.targets import SAMPLING, Target
from holdfast.values import TextPart

Blobs = Mapping[str, bytes]
Json = dict[str, object]
T = TypeVar("T")

ALIVE: tuple[ModelEvent, ...] = (Lifecycle("chunk"),)
NOTHING: tuple[ModelEvent, ...] = ()
NO_OUTPUT = "(no output)"
NO_TEXT = "(no text)"
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
REASONING_OFF = "off"  # our own value: send no reasoning field, for models that refuse it

_ANY = msgspec.json.Decoder(msgspec.Raw)
_EXCERPT_BYTES_MAX = 200
_NO_JSON = (b"", b"null", b"{}", b"[]")
_STRING = msgspec.json.Decoder(str)
# An escape in a JSON string: a character in two halves, half a character (which is kept apart), or another.
_HALF = rb"u[dD][89a-fA-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(" + _HALF + rb")|.)", re.DOTALL
)
_ARGUMENTS = (b"arguments", b"partial_json")
_REPLACEMENT = rb"\ufffd"


class WireRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A POST: where to, with which headers (lower case), which body, and through which proxy."""

    url: str
    headers: dict[str, str]
    body: bytes
    proxy: str = ""

    def __repr__(self) -> str:
        """Without secrets, for logs and tracebacks."""
        return f"WireRequest({self.url!r})"


class StreamParser(Protocol):
    """Turns one answer into model events; a fresh one for each attempt.

    `parse` takes the frames of an event stream in order and `end` its clean end; `answer` takes a whole
    JSON body instead. `finished` says whether `Finished` was among the events: a stream that ended
    without it was dropped, unless an `ErrorReported` came. Nothing comes after a terminal event.
    A `TokensUsed` replaces the one before. All three raise `MalformedFrame`, and only that.

    `text_of` is a fast path for frames that only add text to the latest item: it takes them from the front of
    a run, and returns as one piece what `parse` would return one by one. None means that the first frame may
    be of another kind; then nothing was taken.
    """

    finished: bool

    def text_of(self, run: FrameRun) -> TextPiece | None:
        """The text of the first frames of the run, which are taken out of it."""
        ...

    def parse(self, frame: SseFrame) -> Sequence[ModelEvent]:
        """The events of one frame."""
        ...

    def end(self) -> Sequence[ModelEvent]:
        """The events that the clean end of the stream allows."""
        ...

    def answer(self, body: bytes) -> Sequence[ModelEvent]:
        """The events of an answer that came as one JSON document."""
        ...


class _NamedEvent(msgspec.Struct, gc=False):
    type: str = ""


_NAMED = msgspec.json.Decoder(_NamedEvent)


class NamedEventParser(StreamParser):
    """Parses a stream whose events have names; each name has a step that reads the event."""

    _event: ClassVar[msgspec.json.Decoder[Any]]
    _steps: Mapping[str, Callable[[Any, bytes], Sequence[ModelEvent]]]

    def __init__(self) -> None:
        self.finished = False
        self._over = False

    @override
    def parse(self, frame: SseFrame) -> Sequence[ModelEvent]:
        data = frame.data
        if self._over or not data or data[:6] == b"[DONE]":
            return NOTHING
        try:
            event = decoded(self._event, data)
        except MalformedFrame:
            if frame.event == b"error":
                return self._failed(None, data)
            name = decoded(_NAMED, data).type
            if not name or name in self._steps:
                raise
            return [Lifecycle(name)]  # an unknown event may have any fields
        name = event.type
        if not name:
            # Some gateways name an event only outside its data, or send an error with no name at all.
            name = event.type = frame.event.decode(errors="replace") or ("error" if find_error(data) else "")
        step = self._steps.get(name)
        return (step(event, data) if step else NOTHING) or [Lifecycle(name)]

    @override
    def end(self) -> Sequence[ModelEvent]:
        return NOTHING  # an event says that the answer is complete

    def _failed(self, _event: object, data: bytes) -> Sequence[ModelEvent]:
        self._over = True
        return [read_error(0, data)]


class MappingParser(StreamParser):
    """Another parser, whose events are told as `mapped` says; text passes as it is."""

    def __init__(self, parser: StreamParser) -> None:
        self._parser = parser
        self.text_of = parser.text_of  # every token comes there, so there is no step in between

    @property
    def finished(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # it is only read
        """Whether the answer is complete."""
        return self._parser.finished

    @abstractmethod
    def mapped(self, event: ModelEvent) -> ModelEvent:
        """The event that is told instead of this one."""

    @override
    def parse(self, frame: SseFrame) -> Sequence[ModelEvent]:
        return list(map(self.mapped, self._parser.parse(frame)))

    @override
    def end(self) -> Sequence[ModelEvent]:
        return list(map(self.mapped, self._parser.end()))

    @override
    def answer(self, body: bytes) -> Sequence[ModelEvent]:
        return list(map(self.mapped, self._parser.answer(body)))


class UnclosedItem(msgspec.Struct, kw_only=True):
    """An item of the answer that the protocol has not closed."""

    index: int
    kind: ItemKind
    tool_call_id: str = ""
    name: str = ""
    came: Gathered = msgspec.field(default_factory=Gathered)
    is_long: bool = False
    is_kept_whole: bool = False
    opaque: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    phase: str = ""

    def opened(self) -> ItemOpened:
        """The event that opens it."""
        return ItemOpened(self.index, self.kind, self.tool_call_id, self.name)

    def more(self, texts: list[str], run: FrameRun) -> TextPiece | None:
        """One piece with the texts of the run's first frames, which are removed from it."""
        text = "".join(texts)
        if not text:
            return None
        del run.datas[: len(texts)]
        self.add(text)
        return TextPiece(self.index, text)

    def add(self, text: str) -> None:
        """Add text; long text isn't kept here, because its pieces have been passed on."""
        if not self.is_long:
            self.came.add(text)
            is_spoken = self.kind != "tool" and not self.is_kept_whole
            if is_spoken and self.came.total_chars > LONG_CHARS:
                self.is_long = True
                self.came = Gathered()

    def closed(self, text: str | None = None) -> ItemClosed:
        """The event that closes it, with the protocol's final text, or else with what was streamed."""
        whole = str(self.came) if text is None else text
        if self.kind == "tool" and not whole.strip():
            whole = "{}"
        return ItemClosed(self.index, self.kind, whole, self.tool_call_id, self.name, self.opaque, self.phase)


def decoded(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """The typed value in `data`."""
    try:
        return decoder.decode(data)
    except UNREADABLE as error:
        whole = _repaired(data)
        if whole != data:
            return decoded(decoder, whole)
        excerpt = data[:_EXCERPT_BYTES_MAX].decode(errors="replace")
        raise MalformedFrame(f"{error}: {excerpt!r}") from error


def _repaired(data: bytes) -> bytes:
    """Replace half characters, which gateways send that split text by UTF-16.

    Tool arguments are never repaired.
    """
    return data if any(name in data for name in _ARGUMENTS) else with_whole_characters(data)


def with_whole_characters(data: bytes) -> bytes:
    """JSON of the same length, in which no escape is half of a character."""
    if rb"\u" not in data:
        return data
    return _ESCAPE.sub(lambda found: _REPLACEMENT if found[1] else found[0], data)


def raw_text(raw: msgspec.Raw) -> str:
    """The text of a JSON string, other JSON unchanged; empty for null and for no data."""
    data = bytes(raw)
    try:
        if data[:1] == b'"':
            return _STRING.decode(data)
        return "" if data in _NO_JSON else data.decode()
    except UNREADABLE as error:
        raise MalformedFrame(str(error)) from error


def is_json(text: str) -> bool:
    """Whether the text is one whole JSON value."""
    try:
        _ANY.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def post(target: Target, path: str, *, headers: Mapping[str, str], body: Json) -> WireRequest:
    """The request; the target's own headers win."""
    base = urlsplit(target.base_url)
    url = urlunsplit((base.scheme, base.netloc, base.path.rstrip("/") + path, base.query, ""))
    own = {name.lower(): value for name, value in target.headers.items()}
    common = {"content-type": "application/json", "accept": "text/event-stream"}
    sent = msgspec.json.encode(body)
    return WireRequest(url=url, headers=common | dict(headers) | own, body=sent, proxy=target.proxy)


def is_at(base_url: str, host: str) -> bool:
    """Whether the URL names this host, or one under it."""
    named = urlsplit(base_url).hostname or ""
    return named == host or named.endswith(f".{host}")


def bearer(target: Target) -> dict[str, str]:
    """The header of an OpenAI-like credential; a local server may want none."""
    return {"authorization": f"Bearer {target.api_key}"} if target.api_key else {}


def messages_of(request: ModelRequest) -> Sequence[Message]:
    """The messages to send, adjacent answers as one; the last is never the assistant's.

    Current models answer a trailing assistant message with an error.
    """
    assert request.messages, "a request has a message"
    assert not isinstance(request.messages[-1], AssistantMessage), "a request never ends with the assistant"
    if (AssistantMessage, AssistantMessage) not in pairwise(map(type, request.messages)):
        return request.messages
    messages: list[Message] = []
    for message in request.messages:
        last = messages[-1] if messages else None
        if isinstance(last, AssistantMessage) and isinstance(message, AssistantMessage):
            messages[-1] = AssistantMessage(last.items + message.items)
        else:
            messages.append(message)
    return messages


def is_text(message: Message) -> bool:
    """Whether the message has no attachments, so that its JSON depends on nothing else."""
    return isinstance(message, AssistantMessage) or all(isinstance(part, TextPart) for part in message.parts)


def array_of(encoded: Iterable[bytes]) -> msgspec.Raw:
    """A JSON array of values that are encoded already."""
    values = list(encoded) or [b""]
    values[0] = b"[" + values[0]
    values[-1] += b"]"
    return msgspec.Raw(b",".join(values))  # so that all of a long conversation is copied once


def declarations(tools: Iterable[ToolSpec], wire: str, declare: Callable[[ToolSpec], Json]) -> msgspec.Raw:
    """The tools as the wire declares them, each encoded once for all requests."""
    encoded: list[bytes] = []
    for tool in tools:
        known = tool.encoded.get(wire)
        if known is None:
            known = tool.encoded[wire] = msgspec.json.encode(declare(tool))
        encoded.append(known)
    return array_of(encoded)


def sendable(message: AssistantMessage, target: Target) -> list[Said]:
    """The items that can be sent to this target: no foreign or trailing reasoning, no blank text."""
    items = [
        item
        for item in message.items
        if (not isinstance(item, Thought) or item.target == target.name)
        and (not isinstance(item, SaidText) or item.text.strip())
    ]
    while items and isinstance(items[-1], Thought):
        items.pop()
    return items


def sampling_of(request: ModelRequest, target: Target) -> Json:
    """The sampling options of the request that the target's wire knows, under its names."""
    names = SAMPLING[target.wire]
    options = {names[name]: value for name, value in request.sampling.items() if name in names}
    if not request.tools:
        options.pop("parallel_tool_calls", None)  # OpenAI refuses it then
    return options


def fitting_id(tool_call_id: str, *, allowed: re.Pattern[str]) -> str:
    """The id of a tool call, or a short one derived from it if the endpoint would refuse it."""
    if allowed.fullmatch(tool_call_id):
        return tool_call_id
    return hashlib.sha256(tool_call_id.encode()).hexdigest()[:9]


def args_text(asked: AskedTool) -> str:
    """The arguments as a string; unchanged if the model did not write an object."""
    return asked.bad_args or msgspec.json.encode(asked.args).decode()


def effort_of(request: ModelRequest) -> str:
    """The reasoning effort to ask for; empty for the model's default."""
    return "" if request.reasoning_effort == REASONING_OFF else request.reasoning_effort


COUNT_MAX = 10**9  # tokens of one call: more than any window


def tokens_used(
    *, sent: object, made: object, cached: object = None, written: object = None, reasoning: object = None
) -> TokensUsed:
    """The counts in our terms: input tokens include those read from or written to the cache.

    A count that can't be true is left out, because an answer mustn't fail over its usage.
    """
    cached_tokens, written_tokens = token_count(cached), token_count(written)
    input_tokens = token_count(sent)
    if cached_tokens > input_tokens:
        input_tokens += cached_tokens  # a server that counts cached tokens separately
    return TokensUsed(
        input_tokens=max(input_tokens, cached_tokens + written_tokens),
        output_tokens=token_count(made),
        cached_tokens=cached_tokens,
        cache_write_tokens=written_tokens,
        reasoning_tokens=token_count(reasoning),
    )


def token_count(given: object) -> int:
    """A count that a server reported; 0 if it can't be one."""
    if given is None:
        return 0
    if isinstance(given, str) and given.isascii() and given.isdigit():
        given = int(given[:18])
    if isinstance(given, bool) or not isinstance(given, int | float):
        return 0
    return int(given) if 0 <= given <= COUNT_MAX else 0


def usage_table(value: object) -> dict[str, object]:
    """A usage object or its details; empty if the server sent anything else."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
