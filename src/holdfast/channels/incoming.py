"""What comes in from a platform, in one form for all of them."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class ChatFile:
    """A file that someone sent; `handle` is how the platform gives it out."""

    handle: str
    name: str
    media_type: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformMessage:
    """Something that a person wrote; `key` is the same each time the platform tells of it."""

    key: str
    chat: str
    user: str
    name: str
    text: str
    platform_id: str
    is_direct: bool
    is_for_us: bool  # it mentions the bot or answers it; always true in a direct chat
    is_edit: bool = False
    conversation: str = ""  # where the platform lists old messages; empty if it doesn't
    files: tuple[ChatFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ButtonPress:
    """Someone pressed a button of a card; `click` is what the platform wants back."""

    key: str
    chat: str
    user: str
    name: str
    data: str
    platform_id: str  # of the card
    click: str
    is_direct: bool = False


Arrival: TypeAlias = PlatformMessage | ButtonPress
