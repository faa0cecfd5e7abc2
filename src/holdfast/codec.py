"""Events to JSON and back; older versions of an event are upcast when they are read.

The stored body starts with the event's type and has no seq. A native frame is the body with the seq spliced
in front, so an event is encoded once for any number of readers.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias, Union, cast, get_args

import msgspec

from holdfast.catalog import FEATURES
from holdfast.events import AnyEvent, Event, ForeignEvent

Upcast: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]

# Old tag -> the function that turns such a record into the next version, including its new tag.
UPCASTS: Mapping[str, Upcast] = MappingProxyType({})

# Core events, then those of each feature.
FEATURE_EVENTS: tuple[type[Event], ...] = tuple(
    event for feature in FEATURES.values() if feature.events for event in feature.part(feature.events)
)
TYPES: Mapping[str, type[Event]] = MappingProxyType(
    {cast("str", event.__struct_config__.tag): event for event in (*get_args(AnyEvent), *FEATURE_EVENTS)}
)
_NAMESPACES = frozenset(tag.partition(".")[0] for tag in TYPES)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Union[tuple(TYPES.values())])  # noqa: UP007  # computed
_BODY_SHOWN_CHARS_MAX = 200
# msgspec reports bad UTF-8 and very deep nesting with Python's own exceptions.
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class UnreadableEvent(Exception):
    """A stored record cannot be read: the text names the record and the reason."""

    def __init__(self, reason: str, *, where: str, body: bytes) -> None:
        shown = body[:_BODY_SHOWN_CHARS_MAX].decode("utf-8", "replace")
        super().__init__(f"{where}: {reason}; the record begins {shown!r}")
        self.reason = reason
        self.where = where


class _Header(msgspec.Struct):
    type: str


class _ForeignHeader(msgspec.Struct):
    at_ms: int
    run_id: str = ""


def encode(event: Event) -> bytes:
    """The body that is stored and sent."""
    return event.body if type(event) is ForeignEvent else _encoder.encode(event)


encode_value = _encoder.encode  # a value inside an event, as in the body


def encodable(event: Event) -> tuple[Event, bytes]:
    """The event with each lone surrogate escaped, because JSON can't hold one, and its body.

    Usually it is the same event. Tools bring such texts, for example the names of files that aren't UTF-8.
    """
    try:
        return event, event.body if type(event) is ForeignEvent else _encoder.encode(event)
    except UnicodeEncodeError:
        escaped = decode(encode_value(_escaped(msgspec.to_builtins(event))))
        return escaped, _encoder.encode(escaped)


class EncodedEvents(list[Event]):
    """Events together with their bodies, so that a store needn't encode them again."""

    __slots__ = ("bodies",)

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[bytes] = []

    def add(self, event: Event, body: bytes) -> None:
        """Add an event with its body."""
        self.append(event)
        self.bodies.append(body)


def bodies_of(events: Sequence[Event]) -> list[bytes]:
    """The bodies of the events, each encoded unless it is already."""
    return events.bodies if isinstance(events, EncodedEvents) else [encode(event) for event in events]


def _escaped(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case list() | tuple():
            return [_escaped(each) for each in cast("list[Any]", value)]
        case dict():
            return {_escaped(name): _escaped(each) for name, each in cast("dict[str, Any]", value).items()}
        case _:
            return value


def decode(body: bytes, *, where: str = "record", upcasts: Mapping[str, Upcast] = UPCASTS) -> Event:
    """The event in `body`; raises UnreadableEvent, which says `where` the record is."""
    try:
        return _decoder.decode(body)
    except _UNDECODABLE as error:
        return _decode_slowly(body, where=where, upcasts=upcasts, error=error)


def _decode_slowly(body: bytes, *, where: str, upcasts: Mapping[str, Upcast], error: Exception) -> Event:
    """Decode a record that is broken or of an older version."""
    try:
        tag = msgspec.json.decode(body, type=_Header).type
        if is_foreign(tag):
            header = msgspec.json.decode(body, type=_ForeignHeader)
            return ForeignEvent(tag=tag, at_ms=header.at_ms, run_id=header.run_id, body=body)
    except _UNDECODABLE as unreadable:
        raise UnreadableEvent(f"not an event ({unreadable})", where=where, body=body) from unreadable
    if tag not in upcasts:
        raise UnreadableEvent(_why_unknown(tag, error), where=where, body=body) from error
    try:
        record: dict[str, Any] = msgspec.json.decode(body)
        while (upcast := upcasts.get(record["type"])) is not None:
            record = upcast(record)
        return _decoder.decode(_encoder.encode(record))
    except (*_UNDECODABLE, KeyError) as invalid:
        reason = f"{tag} could not be brought to the current version ({invalid})"
        raise UnreadableEvent(reason, where=where, body=body) from invalid


def is_foreign(tag: str) -> bool:
    """Whether the tag belongs to a feature that this program doesn't have."""
    return tag not in TYPES and "." in tag and tag.partition(".")[0] not in _NAMESPACES


def _why_unknown(tag: str, error: Exception) -> str:
    if tag in TYPES:
        return f"{tag} has a wrong shape ({error})"
    name, _, version = tag.partition("/")
    if version and any(known.partition("/")[0] == name for known in TYPES):
        return f"this Holdfast can't read version {version} of {name}; a newer one may"
    return f"unknown event type {tag!r}"


def type_of(event: Event) -> str:
    """The event's tag, as in the `type` field."""
    return event.tag if type(event) is ForeignEvent else cast("str", event.__struct_config__.tag)


def native_frame(seq: int, body: bytes) -> bytes:
    """The SSE frame of one stored event: the id line and the body with its seq in front."""
    return b'id: %d\ndata: {"seq":%d,%b\n\n' % (seq, seq, body[1:])


def numbered(seq: int, body: bytes) -> bytes:
    """The JSON of one stored event with its seq in front, made without decoding it."""
    return b'{"seq":%d,%b' % (seq, body[1:])
