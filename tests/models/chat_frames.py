"""Chunks of the Chat Completions wire, written briefly."""

from holdfast.model_events import ModelEvent
from holdfast.models.chat_completions import ChatParser

from .reading import read, stream

DONE = b"[DONE]"
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def delta(**fields: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


def finish(reason: str, **beside: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], **beside}


def called(name: str = "", args: object = None, **fields: object) -> dict[str, object]:
    """A piece of a tool call; without a name or arguments it has no such field."""
    function = {"name": name} if name else {}
    return {
        "type": "function",
        "function": function | ({} if args is None else {"arguments": args}),
        **fields,
    }


def heard(*frames: object) -> list[ModelEvent]:
    return read(ChatParser(), stream(*frames))
