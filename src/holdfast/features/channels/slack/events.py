"""Parses Slack's events. Unknown events are ignored, never an error."""

import logging
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from holdfast.features.channels.incoming import (
    Arrival,
    ButtonPress,
    ChatFile,
    MessageDeletion,
    PlatformMessage,
)
from holdfast.features.channels.texts import COMMANDS

_log = logging.getLogger(__name__)

_UNKNOWN_TYPE = "application/octet-stream"
# Messages that people write; all other subtypes are what Slack itself says, or what other apps do.
_WRITTEN = frozenset({"", "file_share", "thread_broadcast", "me_message"})
_CONTROL = re.compile(r"<([^<>]*)>")
DIRECT = "D"  # what the id of a direct conversation begins with


class _File(msgspec.Struct):
    id: str = ""
    name: str | None = None
    mimetype: str | None = None
    size: int = 0
    url_private: str = ""
    mode: str = ""
    file_access: str = ""


class _Edited(msgspec.Struct):
    ts: str = ""


class _Message(msgspec.Struct):
    ts: str = ""
    user: str = ""
    text: str = ""
    subtype: str = ""
    bot_id: str = ""
    thread_ts: str = ""
    channel: str = ""
    edited: _Edited | None = None
    files: list[_File] = []
    message: "_Message | None" = None
    previous_message: "_Message | None" = None
    deleted_ts: str = ""


class _Authorization(msgspec.Struct):
    enterprise_id: str | None = None


class _Event(msgspec.Struct):
    event: _Message
    team_id: str | None = None
    enterprise_id: str | None = None
    authorizations: list[_Authorization] = []
    api_app_id: str = ""
    type: str = ""

    @property
    def origin(self) -> "_Origin":
        known = (self.enterprise_id, *(one.enterprise_id for one in self.authorizations))
        return _Origin(self.team_id, next(filter(None, known), None), self.api_app_id)


class _Named(msgspec.Struct):
    id: str = ""


class _Origin(NamedTuple):
    """Where an envelope comes from. For an app of a whole organization, the team can be missing."""

    team: str | None
    enterprise: str | None
    app: str


class SlackInstallation(Struct, frozen=True):
    """Our installed app; events for any other are ignored. `app` is empty if it's unknown.

    `enterprise` is set if the app is installed in a whole organization, so events of any team of it are ours.
    """

    bot: str
    team: str
    app: str = ""
    enterprise: str = ""

    def has(self, origin: _Origin) -> bool:
        """Whether an envelope from there is for us."""
        is_ours = origin.enterprise == self.enterprise if self.enterprise else origin.team == self.team
        if is_ours and (not self.app or origin.app == self.app):
            return True
        _log.info("ignored a Slack event of another installation: %s; ours is %s", origin, self)
        return False


class _Action(msgspec.Struct):
    value: str = ""
    action_ts: str = ""
    type: str = ""


class _Press(msgspec.Struct):
    user: _Named
    channel: _Named
    message: _Message
    actions: list[_Action]
    team: _Named | None = None
    enterprise: _Named | None = None
    api_app_id: str = ""
    type: str = ""

    @property
    def origin(self) -> _Origin:
        team, enterprise = (one.id if one else None for one in (self.team, self.enterprise))
        return _Origin(team, enterprise, self.api_app_id)


class _Command(msgspec.Struct):
    user_id: str
    channel_id: str
    trigger_id: str
    team_id: str | None = None
    enterprise_id: str | None = None
    api_app_id: str = ""
    text: str = ""

    @property
    def origin(self) -> _Origin:
        return _Origin(self.team_id, self.enterprise_id, self.api_app_id)


def read_envelope(kind: str, payload: Any, *, us: SlackInstallation) -> Arrival | None:
    """Parse an envelope; None if it's irrelevant. People are identified by id."""
    try:
        match kind:
            case "events_api":
                told = msgspec.convert(payload, _Event)
                return _event(told.event, us.bot) if us.has(told.origin) else None
            case "interactive":
                press = msgspec.convert(payload, _Press)
                return _press(press) if us.has(press.origin) else None
            case "slash_commands":
                command = msgspec.convert(payload, _Command)
                return _command(command) if us.has(command.origin) else None
            case _:
                return None
    except msgspec.ValidationError:
        return None


def read_listed(message: Mapping[str, Any], *, channel: str, bot: str) -> PlatformMessage | None:
    """A message as Slack lists it afterwards; None if it is of no concern."""
    try:
        found = msgspec.convert({**message, "channel": channel}, _Message)
    except msgspec.ValidationError:
        return None
    arrival = _event(found, bot)
    return arrival if isinstance(arrival, PlatformMessage) and not arrival.is_edit else None


def _event(event: _Message, bot: str) -> PlatformMessage | MessageDeletion | None:
    if event.subtype == "message_deleted":
        return _deletion(event)
    if event.subtype == "message_changed":
        return _edit(event, bot)
    if event.subtype not in _WRITTEN or event.bot_id or event.user in {"", bot} or not event.channel:
        return None
    return _message(event, event.channel, bot)


def _deletion(event: _Message) -> MessageDeletion | None:
    gone, channel = event.previous_message or _Message(), event.channel
    ts = event.deleted_ts or gone.ts
    if not ts or not channel:
        return None
    return MessageDeletion(
        key=f"d:{channel}:{ts}",
        chat=_chat_of(channel, ts, gone.thread_ts),
        platform_id=ts,
        user=gone.user,
        conversation=f"{channel}/{gone.thread_ts}" if gone.thread_ts else channel,
    )


def _chat_of(channel: str, ts: str, thread: str) -> str:
    """A message in a channel begins a thread, and what is in a thread stays there."""
    if thread:
        return f"{channel}/{thread}"
    return channel if channel.startswith(DIRECT) else f"{channel}/{ts}"


def _edit(event: _Message, bot: str) -> PlatformMessage | None:
    """An edit by a person; Slack also tells of links that it has looked up."""
    after, before = event.message, event.previous_message
    if after is None or after.edited is None or after.bot_id or not after.user:
        return None
    if before is not None and before.text == after.text:
        return None
    return _message(after, event.channel, bot, edited=after.edited.ts)


def _message(message: _Message, channel: str, bot: str, *, edited: str = "") -> PlatformMessage:
    is_direct = channel.startswith(DIRECT)
    thread = message.thread_ts
    text, is_mentioned = readable(message.text, bot)
    return PlatformMessage(
        key=f"e:{channel}:{message.ts}:{edited}" if edited else f"m:{channel}:{message.ts}",
        chat=_chat_of(channel, message.ts, thread),
        user=message.user,
        name=message.user,
        text=text,
        platform_id=message.ts,
        is_direct=is_direct,
        is_for_us=is_direct or is_mentioned,
        is_edit=bool(edited),
        conversation="" if edited else f"{channel}/{thread}" if thread else channel,
        files=_files(message),
    )


def _press(press: _Press) -> ButtonPress | None:
    if press.type != "block_actions" or not press.actions:
        return None
    channel, thread, action = press.channel.id, press.message.thread_ts, press.actions[0]
    chat = f"{channel}/{thread}" if thread else channel
    return ButtonPress(
        key=f"c:{channel}:{press.user.id}:{action.action_ts}",
        chat=chat,
        user=press.user.id,
        name=press.user.id,
        data=action.value,
        platform_id=press.message.ts,
        click=f"{chat} {press.user.id}",
        is_direct=channel.startswith(DIRECT),
    )


def _command(command: _Command) -> PlatformMessage:
    """`/holdfast stop` is the command `/stop`; anything else after `/holdfast` is a message."""
    text = readable(command.text, "")[0]
    word = text.split(maxsplit=1)[0].lower() if text else "help"
    is_command = word in COMMANDS
    return PlatformMessage(
        key=f"s:{command.trigger_id}",
        chat=command.channel_id,
        user=command.user_id,
        name=command.user_id,
        text=f"/{text or 'help'}" if is_command else text,
        platform_id="",
        is_direct=command.channel_id.startswith(DIRECT),
        is_for_us=True,
    )


def readable(source: str, bot: str) -> tuple[str, bool]:
    """Slack's text as people read it, without the bot's name, and whether that was there."""
    is_mentioned = bool(bot) and f"<@{bot}" in source

    def replaced(match: re.Match[str]) -> str:
        target, _, label = match[1].partition("|")
        if bot and target == f"@{bot}":
            return ""
        match target[:1]:
            case "@" | "#":
                return f"{target[0]}{label or target[1:]}"
            case "!":
                return label or f"@{target[1:].partition('^')[0]}"
            case _:
                return f"{label} ({target})" if label and label not in target else target

    text = _CONTROL.sub(replaced, source)
    for escape, char in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        text = text.replace(escape, char)
    return text.strip(), is_mentioned


def _files(message: _Message) -> tuple[ChatFile, ...]:
    """The files; one that Slack only names is looked up by its id when it is fetched."""
    return tuple(
        ChatFile(
            file.url_private if file.url_private and file.file_access != "check_file_info" else file.id,
            file.name or "file",
            file.mimetype or _UNKNOWN_TYPE,
            file.size,
        )
        for file in message.files
        if file.mode not in {"tombstone", "hidden_by_limit"}
    )
