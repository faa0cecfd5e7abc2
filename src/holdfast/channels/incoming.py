"""What comes in from a platform, in one form for all of them.

Its texts can be written: JSON can escape half of a character, which no file and no hash takes, so each such
half is replaced here, where every platform passes.
"""

from dataclasses import dataclass, fields
from typing import TypeAlias


class _Written:
    """Replaces half characters in all texts of what was made."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for one in fields(self):  # pyright: ignore[reportArgumentType]  # its subclasses are dataclasses
            value = getattr(self, one.name)
            if isinstance(value, str) and not value.isascii():
                # It is frozen for everyone else.
                object.__setattr__(self, one.name, writable(value))


def writable(text: str) -> str:
    """The text with halves of characters that belong together joined, and the others replaced."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


@dataclass(frozen=True, slots=True)
class ChatFile(_Written):
    """A file that someone sent; `handle` is how the platform gives it out."""

    handle: str
    name: str
    media_type: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformMessage(_Written):
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
class ButtonPress(_Written):
    """Someone pressed a button of a card; `click` is what the platform wants back."""

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
    """Someone deleted a message; not every platform says who."""

    key: str
    chat: str
    platform_id: str  # of the message
    user: str = ""
    conversation: str = ""


Arrival: TypeAlias = PlatformMessage | ButtonPress | MessageDeletion
