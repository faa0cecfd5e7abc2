"""Incoming updates, in one form for all platforms.

JSON can escape unpaired surrogates, which can't be encoded as UTF-8, so they're replaced here for every
platform.
"""

from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr


class _Written(Struct, frozen=True):
    """Replaces unpaired surrogates in all text fields."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, str) and not value.isascii():
                force_setattr(self, name, writable(value))  # frozen for all other code


def writable(text: str) -> str:
    """Join surrogate pairs in the text, and replace unpaired surrogates."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class ChatFile(_Written, frozen=True):
    """A file from a person. `handle` is the platform's reference for downloading it."""

    handle: str
    name: str
    media_type: str
    size_bytes: int
    data: bytes = b""  # if it came with the message


class PlatformMessage(_Written, frozen=True, kw_only=True):
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


class ButtonPress(_Written, frozen=True, kw_only=True):
    """A press of a card's button. `click` is the platform's reference for the response."""

    key: str
    chat: str
    user: str
    name: str
    data: str
    platform_id: str  # of the card
    click: str
    is_direct: bool = False


class MessageDeletion(_Written, frozen=True, kw_only=True):
    """A deleted message. Not every platform reports who deleted it."""

    key: str
    chat: str
    platform_id: str  # of the message
    user: str = ""
    conversation: str = ""


Arrival: TypeAlias = PlatformMessage | ButtonPress | MessageDeletion
