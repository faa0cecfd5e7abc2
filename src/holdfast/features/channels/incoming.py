"""Incoming updates, in one form for all platforms.

JSON can escape unpaired surrogates, which can't be encoded as UTF-8, so they're replaced here for every
platform.
"""

from dataclasses import dataclass, fields
from typing import TypeAlias


class _Written:
    """Replaces unpaired surrogates in all text fields."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for one in fields(self):  # pyright: ignore[reportArgumentType]  # its subclasses are dataclasses
            value = getattr(self, one.name)
            if isinstance(value, str) and not value.isascii():
                # frozen for all other code
                object.__setattr__(self, one.name, writable(value))


def writable(text: str) -> str:
    """Join surrogate pairs in the text, and replace unpaired surrogates."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


@dataclass(frozen=True, slots=True)
class ChatFile(_Written):
    """A file from a person. `handle` is the platform's reference for downloading it."""

    handle: str
    name: str
    media_type: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformMessage(_Written):
    """A message from a person. `key` identifies duplicates of the same update."""

    key: str
    chat: str
    user: str
    name: str
    text: str
    platform_id: str
    is_direct: bool
    is_for_us: bool  # it mentions or replies to the bot; always true in a direct chat
    is_edit: bool = False
    conversation: str = ""  # its position in the platform's history; empty if there is none
    files: tuple[ChatFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ButtonPress(_Written):
    """A press of a card's button. `click` is the platform's reference for the response."""

    key: str
    chat: str
    user: str
    name: str
    data: str
    platform_id: str  # of the card
    click: str
    is_direct: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDeletion(_Written):
    """A deleted message. Not every platform reports who deleted it."""

    key: str
    chat: str
    platform_id: str  # of the message
    user: str = ""
    conversation: str = ""


Arrival: TypeAlias = PlatformMessage | ButtonPress | MessageDeletion
