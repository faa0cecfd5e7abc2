"""Parses Discord's events. Unknown events are ignored, never an error."""

import re
from typing import Any

import msgspec

from holdfast.features.channels.incoming import (
    Arrival,
    ButtonPress,
    ChatFile,
    MessageDeletion,
    PlatformMessage,
)

_UNKNOWN_TYPE = "application/octet-stream"
WRITTEN = frozenset({0, 19})  # the kinds of messages that people write: their own, and replies
COMMAND, COMPONENT = 2, 3  # the kinds of interactions
ID_CHARS_MAX = 20  # of a number of 64 bits
OVERLAP_MS = 10_000  # how far before the last known message one looks again
_MENTION = re.compile(r"<@!?(\d+)>")


class _User(msgspec.Struct):
    id: str
    username: str = ""
    global_name: str | None = None
    bot: bool = False

    @property
    def name(self) -> str:
        return self.global_name or self.username or self.id


class _Member(msgspec.Struct):
    nick: str | None = None
    user: _User | None = None


class _Attachment(msgspec.Struct):
    url: str
    filename: str = "file"
    size: int = 0
    content_type: str | None = None


class _Sticker(msgspec.Struct):
    name: str = ""


class _Referenced(msgspec.Struct):
    author: _User


class _Message(msgspec.Struct):
    id: str
    channel_id: str
    author: _User
    content: str = ""
    type: int = 0
    guild_id: str = ""
    webhook_id: str = ""
    edited_timestamp: str | None = None
    member: _Member | None = None
    mentions: list[_User] = []
    attachments: list[_Attachment] = []
    sticker_items: list[_Sticker] = []
    referenced_message: _Referenced | None = None


class _Option(msgspec.Struct):
    name: str = ""
    value: str | int | float | bool = ""


class _InteractionData(msgspec.Struct):
    name: str = ""
    custom_id: str = ""
    options: list[_Option] = []


class _MessageId(msgspec.Struct):
    id: str


class _Deleted(msgspec.Struct):
    channel_id: str
    id: str = ""
    ids: list[str] = []  # if several are deleted at once


class _Interaction(msgspec.Struct):
    id: str
    token: str
    type: int
    data: _InteractionData = msgspec.field(default_factory=_InteractionData)
    channel_id: str = ""
    guild_id: str = ""
    member: _Member | None = None
    user: _User | None = None
    message: _MessageId | None = None

    @property
    def person(self) -> _User | None:
        return self.user or (self.member.user if self.member is not None else None)


class Interaction(msgspec.Struct, frozen=True):
    """A click or a command that Discord wants an answer to, within three seconds."""

    click: str
    kind: int
    arrival: Arrival


def click_of(interaction_id: str, token: str) -> str:
    """Encode the reference for responding to the interaction."""
    return f"{interaction_id}/{token}"


def read_message(data: Any, *, bot_id: str, is_edit: bool = False) -> PlatformMessage | None:
    """Parse a message; None if it's irrelevant."""
    try:
        message = msgspec.convert(data, _Message)
    except msgspec.ValidationError:
        return None
    if not _is_id(message.id) or message.type not in WRITTEN or message.author.bot or message.webhook_id:
        return None
    if is_edit and not message.edited_timestamp:
        return None  # Discord has only looked at its links
    return _message(message, bot_id=bot_id, is_edit=is_edit)


def _message(message: _Message, *, bot_id: str, is_edit: bool) -> PlatformMessage | None:
    is_direct = not message.guild_id
    is_mentioned = any(one.id == bot_id for one in message.mentions)
    answers_us = message.referenced_message is not None and message.referenced_message.author.id == bot_id
    text, files = _text(message, bot_id), _files(message)
    if not text and not files and not is_mentioned:
        return None  # without the Message Content intent, the talk of others has no words
    nick = message.member.nick if message.member is not None else None
    edit = f"e:{message.id}:{message.edited_timestamp}" if is_edit else ""
    return PlatformMessage(
        key=edit or f"m:{message.id}",
        chat=message.channel_id,
        user=message.author.id,
        name=nick or message.author.name,
        text=text,
        platform_id=message.id,
        is_direct=is_direct,
        is_for_us=is_direct or is_mentioned or answers_us,
        is_edit=is_edit,
        conversation=message.channel_id,
        files=files,
    )


def read_deletions(data: Any) -> list[MessageDeletion]:
    """The messages that someone deleted; Discord doesn't say who."""
    try:
        read = msgspec.convert(data, _Deleted)
    except msgspec.ValidationError:
        return []
    chat = read.channel_id
    return [
        MessageDeletion(key=f"d:{one}", chat=chat, platform_id=one, conversation=chat)
        for one in (read.id, *read.ids)
        if _is_id(one)
    ]


def read_interaction(data: Any) -> Interaction | None:
    """A click or a command; None if it is another kind of interaction."""
    try:
        read = msgspec.convert(data, _Interaction)
    except msgspec.ValidationError:
        return None
    person = read.person
    if person is None or not read.channel_id:
        return None
    nick = read.member.nick if read.member is not None else None
    chat, name, is_direct = read.channel_id, nick or person.name, not read.guild_id
    click = click_of(read.id, read.token)
    if read.type == COMPONENT and read.message is not None:
        press = ButtonPress(
            key=f"c:{read.id}",
            chat=chat,
            user=person.id,
            name=name,
            data=read.data.custom_id,
            platform_id=read.message.id,
            click=click,
            is_direct=is_direct,
        )
        return Interaction(click, COMPONENT, press)
    if read.type != COMMAND:
        return None
    value = " ".join(str(one.value) for one in read.data.options)
    command = PlatformMessage(
        key=f"i:{read.id}",
        chat=chat,
        user=person.id,
        name=name,
        text=f"/{read.data.name} {value}".strip(),
        platform_id=read.id,
        is_direct=is_direct,
        is_for_us=True,
    )
    return Interaction(click, COMMAND, command)


def message_id_of(data: Any) -> str:
    """The id of a message, also of one that isn't understood."""
    try:
        return msgspec.convert(data, _MessageId).id
    except msgspec.ValidationError:
        return ""


def shortly_before(message_id: str) -> str:
    """The id from which on to look, to find also what came in another order."""
    return str(max(0, int(message_id) - (OVERLAP_MS << 22))) if _is_id(message_id) else message_id


def _is_id(text: str) -> bool:
    return text.isdecimal() and len(text) <= ID_CHARS_MAX


def _text(message: _Message, bot_id: str) -> str:
    """The words, without the bot's name and with the names of others."""
    names = {one.id: one.name for one in message.mentions}

    def named(found: re.Match[str]) -> str:
        user = found[1]
        return "" if user == bot_id else f"@{names.get(user, user)}"

    text = _MENTION.sub(named, message.content).strip()
    stickers = [f"(sticker: {one.name})" for one in message.sticker_items]
    return " ".join([text, *stickers]).strip()


def _files(message: _Message) -> tuple[ChatFile, ...]:
    return tuple(
        ChatFile(one.url, one.filename, (one.content_type or _UNKNOWN_TYPE).partition(";")[0], one.size)
        for one in message.attachments
    )
