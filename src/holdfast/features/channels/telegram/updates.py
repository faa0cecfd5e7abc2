"""Parses Telegram's updates. Unknown updates are ignored, never an error."""

from typing import Any

import msgspec

from holdfast.features.channels.incoming import Arrival, ButtonPress, ChatFile, PlatformMessage

ALLOWED = ("message", "edited_message", "callback_query")
_UNKNOWN_TYPE = "application/octet-stream"


class _User(msgspec.Struct):
    id: int
    is_bot: bool = False
    first_name: str = ""
    last_name: str = ""
    username: str = ""

    @property
    def name(self) -> str:
        return f"{self.first_name} {self.last_name}".strip() or self.username or str(self.id)


class _Chat(msgspec.Struct):
    id: int
    type: str


class _Entity(msgspec.Struct):
    type: str
    offset: int
    length: int
    user: _User | None = None


class _File(msgspec.Struct):
    file_id: str
    file_size: int = 0
    file_name: str = ""
    mime_type: str = ""


class _Message(msgspec.Struct):
    message_id: int
    chat: _Chat
    sender: _User | None = msgspec.field(default=None, name="from")
    date: int = 0
    edit_date: int = 0
    message_thread_id: int = 0
    is_topic_message: bool = False
    text: str = ""
    caption: str = ""
    entities: list[_Entity] = []
    caption_entities: list[_Entity] = []
    reply_to_message: "_Message | None" = None
    document: _File | None = None
    voice: _File | None = None
    audio: _File | None = None
    video: _File | None = None
    photo: list[_File] = []

    @property
    def place(self) -> str:
        return f"{self.chat.id}/{self.message_thread_id}" if self.is_topic_message else str(self.chat.id)


class _Click(msgspec.Struct):
    id: str
    sender: _User = msgspec.field(name="from")
    data: str = ""
    message: _Message | None = None


class _UpdateId(msgspec.Struct):
    update_id: int


class _Update(msgspec.Struct):
    message: _Message | None = None
    edited_message: _Message | None = None
    callback_query: _Click | None = None


def update_id_of(update: Any) -> int:
    """The id of an update, also of one that isn't understood."""
    try:
        return msgspec.convert(update, _UpdateId).update_id
    except msgspec.ValidationError:
        return 0


def read_update(update: Any, *, bot_id: int, bot_name: str) -> Arrival | None:
    """Parse an update; None if it's irrelevant."""
    try:
        read = msgspec.convert(update, _Update)
    except msgspec.ValidationError:
        return None
    if read.callback_query is not None:
        return _press(read.callback_query)
    message = read.message or read.edited_message
    if message is None or message.sender is None or message.sender.is_bot:
        return None
    return _message(message, is_edit=read.message is None, bot=(bot_id, bot_name))


def _press(click: _Click) -> ButtonPress | None:
    if click.message is None:
        return None
    return ButtonPress(
        key=f"c:{click.id}",
        chat=click.message.place,
        user=str(click.sender.id),
        name=click.sender.name,
        data=click.data,
        platform_id=str(click.message.message_id),
        click=click.id,
        is_direct=click.message.chat.type == "private",
    )


def _message(message: _Message, *, is_edit: bool, bot: tuple[int, str]) -> PlatformMessage:
    assert message.sender is not None
    text, entities = message.text or message.caption, message.entities or message.caption_entities
    is_direct = message.chat.type == "private"
    text, is_mentioned = _without_mention(text, entities, bot)
    replied = message.reply_to_message
    answers_us = replied is not None and replied.sender is not None and replied.sender.id == bot[0]
    kind = f"e:{message.place}:{message.message_id}:{message.edit_date}" if is_edit else ""
    return PlatformMessage(
        key=kind or f"m:{message.place}:{message.message_id}",
        chat=message.place,
        user=str(message.sender.id),
        name=message.sender.name,
        text=text.strip(),
        platform_id=str(message.message_id),
        is_direct=is_direct,
        is_for_us=is_direct or is_mentioned or answers_us,
        is_edit=is_edit,
        files=_files(message),
    )


def _without_mention(text: str, entities: list[_Entity], bot: tuple[int, str]) -> tuple[str, bool]:
    """The text without the bot's name, and whether it was there."""
    bot_id, name = bot
    units = text.encode("utf-16-le", "surrogatepass")
    for entity in entities:
        start, end = entity.offset * 2, (entity.offset + entity.length) * 2
        word = units[start:end].decode("utf-16-le", "replace")
        if entity.type == "mention" and word.lower() == f"@{name}".lower():
            return (units[:start] + units[end:]).decode("utf-16-le", "replace"), True
        if entity.type == "text_mention" and entity.user is not None and entity.user.id == bot_id:
            return text, True
        if entity.type == "bot_command" and word.lower().endswith(f"@{name}".lower()):
            command = word[: -len(name) - 1].encode("utf-16-le", "surrogatepass")
            return (units[:start] + command + units[end:]).decode("utf-16-le", "replace"), True
    return text, False


def _files(message: _Message) -> tuple[ChatFile, ...]:
    files: list[ChatFile] = []
    if message.photo:
        best = max(message.photo, key=lambda one: one.file_size)
        files.append(ChatFile(best.file_id, "photo.jpg", "image/jpeg", best.file_size))
    for file, name in (
        (message.document, "file"),
        (message.voice, "voice.ogg"),
        (message.audio, "audio"),
        (message.video, "video.mp4"),
    ):
        if file is not None:
            kind = file.mime_type or _UNKNOWN_TYPE
            files.append(ChatFile(file.file_id, file.file_name or name, kind, file.file_size))
    return tuple(files)
