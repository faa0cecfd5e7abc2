"""One message as hermes-agent or its web UI keeps it, read from whatever shape its fields have."""

import re
from collections.abc import Mapping
from typing import Literal, cast

import msgspec

from holdfast.features.transcripts.conversation import (
    ImportedImage,
    ImportedMessage,
    ImportedToolCall,
    image_of,
)

# In front of content that is a list of parts; earlier and later versions use another first byte.
JSON_PREFIXES = ("\x00json:", "\x01json:")
MS_FROM = 100_000_000_000  # a time in seconds does not come this far, one in milliseconds is past it
PROGRAM, SOURCE = "hermes-agent", "hermes"
UNTITLED = frozenset({"untitled", "new chat", ""})
SUMMARIES = ("[CONTEXT COMPACTION", "[CONTEXT SUMMARY]")  # of versions that do not mark them
# Prefixes that the web UI adds to messages for the model; they aren't part of the message.
_WORKSPACE = re.compile(r"\s*\[Workspace(?:::v1:(?:\\.|[^\]\\])+|:[^\]\n]+)\][ \t]*\n")


def message_of(fields: Mapping[str, object]) -> ImportedMessage | None:
    """The message in a row or a JSON object; None if it has no role that we know."""
    role = fields.get("role")
    if role not in {"user", "assistant", "tool", "system"}:
        return None
    text, images, lost = _content(fields.get("content"))
    if role == "user":
        text = _WORKSPACE.sub("", text, count=1) if _WORKSPACE.match(text) else text
        attached = fields.get("attachments")
        lost += max(0, len(cast("list[object]", attached)) - len(images)) if isinstance(attached, list) else 0
    return ImportedMessage(
        role=cast("Literal['user', 'assistant', 'tool', 'system']", role),
        text=text,
        images=images,
        reasoning=_text(fields.get("reasoning")) or _text(fields.get("reasoning_content")),
        tool_calls=_tool_calls(fields.get("tool_calls")),
        tool_call_id=_text(fields.get("tool_call_id")),
        at_ms=ms_of(fields.get("timestamp") or fields.get("_ts")),
        lost=lost,
        ending="failed"
        if fields.get("_error") is True
        else "partial"
        if fields.get("_partial") is True
        else "",
    )


def title_of(value: object) -> str:
    """A title that somebody gave."""
    title = value.strip() if isinstance(value, str) else ""
    return "" if title.lower() in UNTITLED else title


def is_summary(text: str) -> bool:
    """Whether this is the summary that a compaction left."""
    return text.lstrip().startswith(SUMMARIES)


def ms_of(value: object) -> int:
    """Milliseconds of Unix time of a time in seconds or milliseconds; 0 if it is neither."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < MS_FROM * 1000:
        return 0
    return round(value) if value >= MS_FROM else round(value * 1000)


def table_of(value: object) -> Mapping[str, object]:
    """The value, if it is a table; else an empty one."""
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _content(value: object) -> tuple[str, tuple[ImportedImage, ...], int]:
    """The text, the images, and how many parts are neither."""
    if isinstance(value, str) and value.startswith(JSON_PREFIXES):
        value = json_of(value.partition(":")[2]) or value
    if not isinstance(value, list):
        return _text(value), (), 0
    texts: list[str] = []
    images: list[ImportedImage] = []
    lost = 0
    for part in cast("list[object]", value):
        fields = table_of(part)
        if isinstance(part, str):
            texts.append(part)
        elif fields.get("type") in ("text", "input_text", "output_text"):
            texts.append(_text(fields.get("text")))
        elif (image := _image(fields)) is not None:
            images.append(image)
        else:
            lost += 1
    return "\n".join(text for text in texts if text), tuple(images), lost


def _image(part: Mapping[str, object]) -> ImportedImage | None:
    """The image in a part, which has its bytes as a data: URL."""
    url = part.get("image_url")
    if isinstance(url, dict):
        url = table_of(cast("object", url)).get("url")
    return image_of(_text(url))


def _tool_calls(value: object) -> tuple[ImportedToolCall, ...]:
    found = json_of(value) if isinstance(value, str) and value else value
    calls = cast("list[object]", found) if isinstance(found, list) else []
    return tuple(call for one in calls if (call := _tool_call(one)) is not None)


def _tool_call(value: object) -> ImportedToolCall | None:
    fields = table_of(value)
    function = table_of(fields.get("function")) or fields
    name = _text(function.get("name"))
    if not name:
        return None
    call_id = _text(fields.get("id")) or _text(fields.get("call_id"))
    given = function.get("arguments", {})
    args = json_of(given) if isinstance(given, str) else given
    if isinstance(args, dict):
        return ImportedToolCall(call_id, name, cast("dict[str, object]", args))
    return ImportedToolCall(call_id, name, {}, bad_args=_text(given))


def json_of(text: str) -> object:
    """The text decoded as JSON; None if it isn't JSON."""
    try:
        return msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
