"""Server-sent event frames, and how they become bytes."""

from typing import Literal

import msgspec
from msgspec import Struct

JsonObject = dict[str, object]


class ChaosFrame(Struct, frozen=True):
    """One server-sent event: its data line, and its event line where the wire has one."""

    data: bytes = b""
    event: str | None = None
    comment: str | None = None


class SseStyle(Struct, frozen=True):
    """Spelling of the event stream that a correct parser must not care about."""

    line_end: Literal["\n", "\r\n", "\r"] = "\n"
    comment_before_each: str | None = None
    space_after_colon: Literal[" ", ""] = " "


def json_frame(body: JsonObject, event: str | None = None) -> ChaosFrame:
    """A frame whose data is one JSON object."""
    return ChaosFrame(msgspec.json.encode(body), event)


def encode_frame(frame: ChaosFrame, style: SseStyle) -> bytes:
    """The bytes of a frame, with the blank line that ends it."""
    end, space = style.line_end.encode(), style.space_after_colon.encode()
    lines: list[bytes] = []
    if style.comment_before_each is not None:
        lines.append(b":" + space + style.comment_before_each.encode())
    if frame.comment is not None:
        lines.append(b":" + space + frame.comment.encode())
    if frame.event is not None:
        lines.append(b"event:" + space + frame.event.encode())
    if frame.data:
        lines.append(b"data:" + space + frame.data)
    return end.join([*lines, b"", b""])


def http_chunk(payload: bytes) -> bytes:
    """One chunk of a chunked HTTP body."""
    return b"%x\r\n%b\r\n" % (len(payload), payload)


LAST_CHUNK = b"0\r\n\r\n"
