"""Parses Matrix events. Unknown events are ignored, never an error."""

from typing import Any

import msgspec

from holdfast.features.channels.incoming import Arrival, ChatFile, MessageDeletion, PlatformMessage

FILES = frozenset({"m.image", "m.file", "m.audio", "m.video"})
_UNKNOWN_TYPE = "application/octet-stream"


class _Info(msgspec.Struct):
    size: int = 0
    mimetype: str = ""


class _Mentions(msgspec.Struct):
    user_ids: list[str] = []


class _Relation(msgspec.Struct):
    rel_type: str = ""
    event_id: str = ""


class _Content(msgspec.Struct):
    msgtype: str = ""
    body: str = ""
    filename: str = ""
    url: str = ""
    info: _Info = msgspec.field(default_factory=_Info)
    mentions: _Mentions = msgspec.field(default_factory=_Mentions, name="m.mentions")
    relates_to: _Relation = msgspec.field(default_factory=_Relation, name="m.relates_to")
    new_content: Any = msgspec.field(default=None, name="m.new_content")
    redacts: str = ""


class _Event(msgspec.Struct):
    type: str
    event_id: str
    sender: str
    content: Any = None
    redacts: str = ""


class Room(msgspec.Struct, frozen=True):
    """A room, and who the agent is there."""

    room_id: str
    us: str
    is_direct: bool  # only one other person is in it


def read_event(raw: Any, room: Room) -> Arrival | None:
    """Parse an event of a room; None if it's irrelevant."""
    try:
        event = msgspec.convert(raw, _Event)
        content = msgspec.convert(event.content or {}, _Content)
        edited = msgspec.convert(content.new_content, _Content) if content.new_content else content
    except msgspec.ValidationError:
        return None
    if event.sender == room.us:
        return None
    relation = content.relates_to
    chat = f"{room.room_id}/{relation.event_id}" if relation.rel_type == "m.thread" else room.room_id
    if event.type == "m.room.redaction":
        target = event.redacts or content.redacts
        return MessageDeletion(key=f"e:{event.event_id}", chat=chat, platform_id=target, user=event.sender)
    is_file = content.msgtype in FILES and bool(content.url)
    if event.type != "m.room.message" or not (is_file or content.msgtype in {"m.text", "m.emote"}):
        return None
    is_edit = relation.rel_type == "m.replace"
    text, is_named = _without_name("" if is_file else edited.body, room.us)
    return PlatformMessage(
        key=f"e:{event.event_id}",
        chat=chat,
        user=event.sender,
        name=event.sender,
        text=text.strip(),
        platform_id=relation.event_id if is_edit else event.event_id,
        is_direct=room.is_direct,
        is_for_us=room.is_direct or is_named or room.us in content.mentions.user_ids,
        is_edit=is_edit,
        files=(_file(content),) if is_file else (),
    )


def _without_name(text: str, us: str) -> tuple[str, bool]:
    """Return the text without the agent's name in front, and whether it was there."""
    lines = text.split("\n")
    if lines[0].startswith("> "):  # a quote of the message that this one replies to
        while lines and lines[0].startswith("> "):
            lines.pop(0)
        text = "\n".join(lines).strip()
    for name in (us, us[1:].partition(":")[0]):
        for end in (": ", ", ", " "):
            if text.lower().startswith(f"{name}{end}".lower()):
                return text[len(name) + len(end) :], True
    return text, False


def _file(content: _Content) -> ChatFile:
    name = content.filename or content.body or "file"
    return ChatFile(content.url, name, content.info.mimetype or _UNKNOWN_TYPE, content.info.size)
