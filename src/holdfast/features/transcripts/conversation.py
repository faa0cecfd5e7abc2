"""A conversation of another program, in the shape that all imports share."""

import base64
import binascii
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

IMAGE_BYTES_MAX = 20 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ImportedImage:
    """An image that was stored inside a message."""

    media_type: str
    data: bytes = field(repr=False)


def image_of(data_url: str) -> ImportedImage | None:
    """Return the image in a data: URL; None if it isn't one."""
    head, _, body = data_url.partition(",")
    if not head.startswith("data:image/") or not head.endswith(";base64") or len(body) > IMAGE_BYTES_MAX * 2:
        return None
    try:
        return ImportedImage(head[len("data:") : -len(";base64")], base64.b64decode(body, validate=True))
    except (binascii.Error, ValueError):
        return None


class ImportedToolCall(Struct, frozen=True):
    """A tool call; `bad_args` has arguments that aren't a JSON object."""

    call_id: str
    name: str
    args: dict[str, object]
    bad_args: str = ""


class ImportedMessage(Struct, frozen=True, kw_only=True):
    """One message; `lost` counts parts that can't be imported.

    `ending` says that an answer is incomplete, or that it is no answer but the report of an error.
    """

    role: Literal["user", "assistant", "tool", "system"]
    text: str = ""
    images: tuple[ImportedImage, ...] = ()
    reasoning: str = ""
    tool_calls: tuple[ImportedToolCall, ...] = ()
    tool_call_id: str = ""
    ok: bool = True  # whether the tool call succeeded
    at_ms: int = 0
    lost: int = 0
    ending: Literal["", "partial", "failed"] = ""


class ImportedConversation(Struct, frozen=True, kw_only=True):
    """A conversation, and the program that it comes from."""

    session_id: str
    program: str
    source: str  # of the session in Holdfast
    messages: tuple[ImportedMessage, ...]
    title: str = ""
    model: str = ""
    workspace: str = ""
    pinned: bool = False
    archived: bool = False
    created_ms: int = 0
    origin: str = ""
    earlier: frozenset[str] = frozenset()  # ids of its earlier parts
