"""Building blocks of settings: formats, numbers, secrets, and the sentence about each key."""

from typing import Annotated, Literal, TypeAlias

import msgspec

# The format of a text, where the type alone doesn't say it.
TextFormat: TypeAlias = Literal[
    "",
    "database",
    "host",
    "host name",
    "name",
    "origin",
    "path",
    "proxy",
    "url",
    "url with query",
    "url or empty",
    "text or file",
    "key",
    "header",
    "variable",
    "mount path",
    "address or network",
]

AtLeast0: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
AtLeast1: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Amount: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
Port: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=65_535)]


class Secret(str):
    """A text that no repr, log line or traceback shows; `str(secret)` is the text."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Hide the text."""
        return "Secret('…')" if self else "Secret('')"


def doc(sentence: str, meaning: TextFormat = "") -> msgspec.Meta:
    """The sentence about a key for the reference, and the format of its text."""
    return msgspec.Meta(description=sentence, extra={"meaning": meaning})
