"""The requests of Discord's API that the fake knows, with the checks that Discord makes."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from fakes.discord import shapes
from fakes.discord.faults import DiscordAnswer, answered
from fakes.discord.interactions import answer_interaction, follow_up, original
from fakes.discord.refusals import DiscordRefusal, invalid_form, too_long
from fakes.discord.sessions import without_content
from fakes.discord.shapes import BOT_ID, BUTTON, ROW
from fakes.discord.world import NONCE_S, Channel, DiscordWorld, newest_first

CONTENT_CHARS_MAX = 2_000
NONCE_CHARS_MAX = 25
CUSTOM_ID_CHARS_MAX, LABEL_CHARS_MAX, ROWS_MAX, BUTTONS_MAX = 100, 80, 5, 5
LISTED_MAX = 100
NAME_CHARS_MAX, DESCRIPTION_CHARS_MAX = 32, 100  # of a command
FILE_BYTES_MAX = 10 * 1024 * 1024


class Asked(Struct, frozen=True):
    """A request: what its path names, its query, its body and its files."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    files: Sequence[tuple[str, str, bytes]] = ()  # name, media type and data

    @property
    def fields(self) -> dict[str, Any]:
        """The body, if it is an object."""
        return cast("dict[str, Any]", self.body) if isinstance(self.body, dict) else {}


Handler = Callable[[DiscordWorld, Asked], Awaitable[DiscordAnswer]]


async def _get_me(world: DiscordWorld, asked: Asked) -> DiscordAnswer:
    del asked
    return answered(world.bot)


async def _get_gateway(world: DiscordWorld, asked: Asked) -> DiscordAnswer:
    del asked
    limit = {"total": 1000, "remaining": 999, "reset_after": 14_400_000, "max_concurrency": 1}
    url = world.base_url.replace("http", "ws", 1) + "/gateway"
    return answered({"url": url, "shards": 1, "session_start_limit": limit})


async def _get_application(world: DiscordWorld, asked: Asked) -> DiscordAnswer:
    del asked
    return answered(shapes.application(message_content=world.message_content))


async def _get_commands(world: DiscordWorld, asked: Asked) -> DiscordAnswer:
    del asked
    return answered(world.commands)


async def _set_commands(world: DiscordWorld, asked: Asked) -> DiscordAnswer:
    given = cast("list[dict[str, Any]]", asked.body) if isinstance(asked.body, list) else []
    for one in given:
        lengths = len(str(one.get("name", ""))), len(str(one.get("description", "")))
        if not 1 <= lengths[0] <= NAME_CHARS_MAX or not 1 <= lengths[1] <= DESCRIPTION_CHARS_MAX:
            raise invalid_form("name", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
    world.commands = [
        {
            "id": str(700_000_000_000_000_000 + at),
            "application_id": BOT_ID,
            "version": "1",
            "type": 1,
            "default_member_permissions": None,
            "dm_permission": True,
            "nsfw": False,
            **one,
        }
        for at, one in enumerate(given)
    ]
    world.changed.notify()
    return answered(world.commands)


async def _open_direct(world: DiscordWorld, asked: Asked) -> DiscordAnswer:
    recipient = str(asked.fields.get("recipient_id", ""))
    if not recipient.isdigit():
        raise invalid_form("recipient_id", "NUMBER_TYPE_COERCE", f'Value "{recipient}" is not snowflake.')
    return answered(world.direct(recipient).shown())


async def _get_channel(world: DiscordWorld, asked: Asked) -> DiscordAnswer:
    return answered(_channel(world, asked).shown())


async def _list_messages(world: DiscordWorld, asked: Asked) -> DiscordAnswer:
    channel = _channel(world, asked)
    limit = int(asked.query.get("limit", 50))
    if not 1 <= limit <= LISTED_MAX:
        raise invalid_form(
            "limit", "NUMBER_TYPE_MAX", f"int value should be less than or equal to {LISTED_MAX}."
        )
    found = list(channel.messages.values())
    if after := asked.query.get("after"):
        found = [one for one in found if int(one["id"]) > int(after)]
        found = sorted(found, key=lambda one: int(one["id"]))[:limit]
    elif before := asked.query.get("before"):
        found = [one for one in found if int(one["id"]) < int(before)]
    return answered([_listed(world, one) for one in newest_first(found)[:limit]])


async def _get_message(world: DiscordWorld, asked: Asked) -> DiscordAnswer:
    return answered(_listed(world, _message(_channel(world, asked), asked)))


async def _create_message(world: DiscordWorld, asked: Asked) -> DiscordAnswer:
    channel = _channel(world, asked)
    fields = asked.fields
    nonce = str(fields.get("nonce") or "")
    if len(nonce) > NONCE_CHARS_MAX:
        raise too_long("nonce", NONCE_CHARS_MAX)
    checked = _checked(fields, has_files=bool(asked.files))
    if nonce and fields.get("enforce_nonce"):
        at_s, known = channel.nonces.get(nonce, (0.0, ""))
        if known in channel.messages and time.monotonic() < at_s + NONCE_S:
            return answered(channel.messages[known] | {"nonce": nonce})
    message = world.new_message(channel, world.bot, "") | checked
    message["attachments"] = [world.keep(channel, *one) for one in _files(asked)]
    if replied := fields.get("message_reference"):
        message |= _reference(channel, replied)
    channel.messages[message["id"]] = message
    if nonce:
        channel.nonces[nonce] = (time.monotonic(), message["id"])
    shown = message | ({"nonce": nonce} if nonce else {})
    world.tell(channel, "MESSAGE_CREATE", shown)
    return answered(shown)


async def _edit_message(world: DiscordWorld, asked: Asked) -> DiscordAnswer:
    channel = _channel(world, asked)
    message = _message(channel, asked)
    if message["author"]["id"] != BOT_ID:
        raise DiscordRefusal(403, 50005, "Cannot edit a message authored by another user")
    kept = {key: message[key] for key in ("content", "components", "flags", "embeds")}
    message |= _checked(kept | asked.fields, has_files=bool(message["attachments"]))
    message["edited_timestamp"] = shapes.timestamp()
    world.tell(channel, "MESSAGE_UPDATE", message)
    return answered(message)


async def _delete_message(world: DiscordWorld, asked: Asked) -> DiscordAnswer:
    channel = _channel(world, asked)
    world.delete(channel, _message(channel, asked)["id"])
    world.changed.notify()
    return answered(status=204)


async def _start_typing(world: DiscordWorld, asked: Asked) -> DiscordAnswer:
    _channel(world, asked).typing += 1
    world.changed.notify()
    return answered(status=204)


async def _answer_interaction(world: DiscordWorld, asked: Asked) -> DiscordAnswer:
    data: dict[str, Any] = asked.fields.get("data") or {}
    if asked.fields.get("type") in {4, 7}:
        data = {**data, **_checked(data, has_files=False)}
    kind = int(asked.fields.get("type") or 0)
    known = answer_interaction(world, asked.path, kind, data)
    if asked.query.get("with_response", "").lower() not in {"1", "true"}:
        return answered(status=204)
    return answered({"interaction": known.shown(), "resource": {"type": kind}})


async def _original(world: DiscordWorld, asked: Asked) -> DiscordAnswer:
    return answered(original(world, asked.path, asked.fields.get("content")))


async def _delete_original(world: DiscordWorld, asked: Asked) -> DiscordAnswer:
    original(world, asked.path, "")
    return answered(status=204)


async def _follow_up(world: DiscordWorld, asked: Asked) -> DiscordAnswer:
    return answered(follow_up(world, asked.path, {**asked.fields, **_checked(asked.fields, has_files=False)}))


class Route(Struct, frozen=True):
    """A request by its method and path; scripts name it by its name."""

    method: str
    path: str
    name: str
    handle: Handler


_MESSAGES = "/channels/{channel}/messages"
_ORIGINAL = "/webhooks/{application}/{token}/messages/@original"
ROUTES: Final[Sequence[Route]] = (
    Route("GET", "/users/@me", "getMe", _get_me),
    Route("POST", "/users/@me/channels", "openDirect", _open_direct),
    Route("GET", "/gateway", "getGateway", _get_gateway),
    Route("GET", "/gateway/bot", "getGateway", _get_gateway),
    Route("GET", "/applications/@me", "getApplication", _get_application),
    Route("GET", "/oauth2/applications/@me", "getApplication", _get_application),
    Route("GET", "/applications/{application}/commands", "getCommands", _get_commands),
    Route("PUT", "/applications/{application}/commands", "setCommands", _set_commands),
    Route("GET", "/channels/{channel}", "getChannel", _get_channel),
    Route("GET", _MESSAGES, "listMessages", _list_messages),
    Route("POST", _MESSAGES, "createMessage", _create_message),
    Route("GET", _MESSAGES + "/{message}", "getMessage", _get_message),
    Route("PATCH", _MESSAGES + "/{message}", "editMessage", _edit_message),
    Route("DELETE", _MESSAGES + "/{message}", "deleteMessage", _delete_message),
    Route("POST", "/channels/{channel}/typing", "startTyping", _start_typing),
    Route("POST", "/interactions/{interaction}/{token}/callback", "answerInteraction", _answer_interaction),
    Route("GET", _ORIGINAL, "getAnswer", _original),
    Route("PATCH", _ORIGINAL, "editAnswer", _original),
    Route("DELETE", _ORIGINAL, "deleteAnswer", _delete_original),
    Route("POST", "/webhooks/{application}/{token}", "followUp", _follow_up),
)


def _channel(world: DiscordWorld, asked: Asked) -> Channel:
    channel = world.channels.get(asked.path.get("channel", ""))
    if channel is None:
        raise DiscordRefusal(404, 10003, "Unknown Channel")
    if channel.refusal is not None:
        raise DiscordRefusal(*channel.refusal)
    return channel


def _message(channel: Channel, asked: Asked) -> dict[str, Any]:
    message = channel.messages.get(asked.path.get("message", ""))
    if message is None:
        raise DiscordRefusal(404, 10008, "Unknown Message")
    return message


def _listed(world: DiscordWorld, message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as lists have it: without its nonce, and without words that the bot may not read."""
    return dict(message) if world.message_content else without_content(message)


def _checked(fields: Mapping[str, Any], *, has_files: bool) -> dict[str, Any]:
    """What a message says, as Discord takes it."""
    content = str(fields.get("content") or "").strip()
    if len(content) > CONTENT_CHARS_MAX:
        raise too_long("content", CONTENT_CHARS_MAX)
    components: list[dict[str, Any]] = fields.get("components") or []
    embeds: list[Any] = fields.get("embeds") or []
    if not content and not embeds and not has_files:
        raise DiscordRefusal(400, 50006, "Cannot send an empty message")
    _check_components(components)
    return {
        "content": content,
        "components": components,
        "embeds": embeds,
        "flags": int(fields.get("flags") or 0),
    }


def _check_components(rows: Sequence[dict[str, Any]]) -> None:
    if len(rows) > ROWS_MAX:
        raise too_long("components", ROWS_MAX)
    seen: set[str] = set()
    for row in rows:
        buttons: list[dict[str, Any]] = row.get("components", [])
        if row.get("type") != ROW or not 1 <= len(buttons) <= BUTTONS_MAX:
            raise invalid_form("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
        for button in buttons:
            custom_id, label = str(button.get("custom_id", "")), str(button.get("label", ""))
            if button.get("type") != BUTTON or not custom_id or custom_id in seen:
                raise invalid_form(
                    "custom_id", "COMPONENT_CUSTOM_ID_DUPLICATED", "Component custom id is wrong"
                )
            if len(custom_id) > CUSTOM_ID_CHARS_MAX:
                raise too_long("custom_id", CUSTOM_ID_CHARS_MAX)
            if not 1 <= len(label) <= LABEL_CHARS_MAX:
                raise too_long("label", LABEL_CHARS_MAX)
            seen.add(custom_id)


def _files(asked: Asked) -> Sequence[tuple[str, bytes, str]]:
    for _, _, data in asked.files:
        if len(data) > FILE_BYTES_MAX:
            raise DiscordRefusal(413, 40005, "Request entity too large")
    return [(name, data, media_type) for name, media_type, data in asked.files]


def _reference(channel: Channel, replied: Mapping[str, Any]) -> dict[str, Any]:
    message_id = str(replied.get("message_id", ""))
    if message_id in channel.messages:
        reference = {"message_id": message_id, "channel_id": channel.channel_id}
        return {"type": 19, "message_reference": reference}
    if replied.get("fail_if_not_exists", True):
        raise invalid_form("message_reference", "MESSAGE_REFERENCE_UNKNOWN_MESSAGE", "Unknown message")
    return {}
