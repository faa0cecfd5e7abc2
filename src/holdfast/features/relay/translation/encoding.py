"""The interface of answer encoders, and code shared by all three."""

from typing import Any, Protocol

import msgspec

from holdfast.model_events import Finished, ModelEvent, TokensUsed

encode = msgspec.json.Encoder().encode


class AnswerEncoder(Protocol):
    """Turns the model events of one answer into the frames of a client's protocol, or into one document."""

    def opening(self) -> bytes:
        """The frames that begin a stream."""
        ...

    def add(self, event: ModelEvent) -> bytes:
        """The frames of one event; empty if the protocol has none for it."""
        ...

    def ending(self, finish: Finished, used: TokensUsed) -> bytes:
        """The frames that end a stream."""
        ...

    def whole(self, finish: Finished, used: TokensUsed) -> bytes:
        """The whole answer as one document, from the events that were added."""
        ...


def data_frame(data: Any, *, event: str = "") -> bytes:
    """One server-sent event."""
    name = b"event: %b\n" % event.encode() if event else b""
    return b"%bdata: %b\n\n" % (name, encode(data))


def arguments(text: str) -> Any:
    """The arguments of a call as an object, which the model may have got wrong."""
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        return {"_invalid_arguments": text}
