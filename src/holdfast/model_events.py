"""Events of a model's answer: one stream of values, the same from every wire.

`index` names an item within one attempt. Items of one answer may be open at the same time.
"""

from typing import Literal, TypeAlias

import msgspec

ItemKind: TypeAlias = Literal["text", "reasoning", "tool"]
FinishReason: TypeAlias = Literal["stop", "tools", "length", "too_long", "refused"]

# Past this a text or a thought is told in several stretches, and nobody keeps the whole of it.
LONG_CHARS = 1024 * 1024


class Lifecycle(msgspec.Struct, frozen=True, gc=False):
    """The provider is alive (created, in progress, ping); it is no progress."""

    name: str


class ItemOpened(msgspec.Struct, frozen=True, gc=False):
    """The model began an item; a tool call names itself here."""

    index: int
    kind: ItemKind
    tool_call_id: str = ""
    name: str = ""


class TextPiece(msgspec.Struct, frozen=True, gc=False):
    """More text of an item."""

    index: int
    text: str


class ReasoningPiece(msgspec.Struct, frozen=True, gc=False):
    """More thinking of an item."""

    index: int
    text: str


class ArgsPiece(msgspec.Struct, frozen=True, gc=False):
    """More of a tool call's arguments."""

    index: int
    text: str


PIECES = (TextPiece, ReasoningPiece, ArgsPiece)


class ItemClosed(msgspec.Struct, frozen=True):
    """The protocol closed the item: its whole text (of a tool: the arguments), and what goes back with it.

    Of a text or a thought longer than LONG_CHARS only its pieces tell what it says.
    """

    index: int
    kind: ItemKind
    text: str = ""
    tool_call_id: str = ""
    name: str = ""
    opaque: dict[str, str] = {}
    phase: str = ""


class TokensUsed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The provider's count for this attempt; `input_tokens` includes the cached ones."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    is_estimate: bool = False  # by us, at least in part: the provider reported nothing, or not all


class ErrorReported(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The provider reported an error inside the stream; `body` is its text as it came."""

    message: str
    code: str = ""
    kind: str = ""
    status: int = 0
    body: str = ""


class Finished(msgspec.Struct, frozen=True, gc=False):
    """The protocol's own terminal marker arrived; with `too_long` we ended the answer ourselves.

    With `is_early`, we ended the answer at `stop_sequence`; the provider would have continued.
    """

    reason: FinishReason
    detail: str = ""
    stop_sequence: str = ""
    is_early: bool = False


ModelEvent: TypeAlias = (
    Lifecycle
    | ItemOpened
    | TextPiece
    | ReasoningPiece
    | ArgsPiece
    | ItemClosed
    | TokensUsed
    | ErrorReported
    | Finished
)
