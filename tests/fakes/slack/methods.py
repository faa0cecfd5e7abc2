"""The Web API methods that the fake Slack knows, with the checks that Slack makes."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from fakes.slack.markup import why_bad_blocks
from fakes.slack.world import APP, BOT, BOT_USER, TEAM, SlackConversation, SlackWorld

TEXT_CHARS_MAX = 40_000
PAGE_MAX = 999
Arguments: TypeAlias = Mapping[str, Any]
SlackMethod: TypeAlias = Callable[[SlackWorld, Arguments], Awaitable[dict[str, Any]]]


class SlackRefusal(Exception):
    """Slack says no, in one word."""


async def _auth_test(world: SlackWorld, arguments: Arguments) -> dict[str, Any]:
    del arguments
    return {
        "url": f"{world.url}/",
        "team": "Fake",
        "user": "holdfast",
        "team_id": None if world.enterprise else TEAM,
        "enterprise_id": world.enterprise or None,
        "user_id": BOT_USER,
        "bot_id": BOT,
        "is_enterprise_install": bool(world.enterprise),
    }


async def _bot_info(world: SlackWorld, arguments: Arguments) -> dict[str, Any]:
    del world
    if arguments.get("bot") != BOT:
        raise SlackRefusal("bot_not_found")
    return {"bot": {"id": BOT, "app_id": APP, "user_id": BOT_USER, "deleted": False, "name": "holdfast"}}


async def _post_message(world: SlackWorld, arguments: Arguments) -> dict[str, Any]:
    conversation = _writable(world, arguments)
    fields = _content(arguments)
    thread = str(arguments.get("thread_ts") or "")
    if thread and thread not in conversation.messages:
        raise SlackRefusal("thread_not_found")
    message = world.post(conversation, fields | ({"thread_ts": thread} if thread else {}))
    return {"channel": conversation.channel, "ts": message["ts"], "message": message}


async def _post_ephemeral(world: SlackWorld, arguments: Arguments) -> dict[str, Any]:
    conversation = _writable(world, arguments)
    if not arguments.get("user"):
        raise SlackRefusal("user_not_in_channel")
    conversation.ephemeral.append((str(arguments["user"]), _content(arguments)["text"]))
    world.changed.notify()
    return {"message_ts": world.tick()}


async def _update(world: SlackWorld, arguments: Arguments) -> dict[str, Any]:
    conversation = _writable(world, arguments)
    message = _own_message(conversation, arguments, refusal="cant_update_message")
    fields = _content(arguments)
    for key in ("text", "blocks", "metadata"):
        message.pop(key, None)
    message |= fields | {"edited": {"user": BOT_USER, "ts": world.tick()}}
    world.changed.notify()
    return {"channel": conversation.channel, "ts": message["ts"], "text": message.get("text", "")}


async def _delete(world: SlackWorld, arguments: Arguments) -> dict[str, Any]:
    conversation = _writable(world, arguments)
    message = _own_message(conversation, arguments, refusal="cant_delete_message")
    del conversation.messages[message["ts"]]
    world.changed.notify()
    return {"channel": conversation.channel, "ts": message["ts"]}


async def _history(world: SlackWorld, arguments: Arguments) -> dict[str, Any]:
    messages = [
        one
        for one in _readable(world, arguments).messages.values()
        if one.get("thread_ts", one["ts"]) == one["ts"]
    ]
    # The newest come first, and pages lead back in time.
    return _page(arguments, messages[::-1])


async def _replies(world: SlackWorld, arguments: Arguments) -> dict[str, Any]:
    conversation, root = _readable(world, arguments), str(arguments.get("ts") or "")
    if root not in conversation.messages:
        raise SlackRefusal("thread_not_found")
    messages = [
        one for one in conversation.messages.values() if root in {one["ts"], one.get("thread_ts", "")}
    ]
    return _page(arguments, messages)


async def _conversation_info(world: SlackWorld, arguments: Arguments) -> dict[str, Any]:
    found = _readable(world, arguments)
    shown = {"id": found.channel, "is_im": found.kind == "im", "is_mpim": found.kind == "mpim"}
    return {"channel": shown | {"is_archived": found.archived, "name": found.channel.lower()}}


async def _user_info(world: SlackWorld, arguments: Arguments) -> dict[str, Any]:
    del world
    user = str(arguments.get("user") or "")
    if not user.startswith(("U", "W")):
        raise SlackRefusal("user_not_found")
    name = f"User {user[1:]}"
    profile = {"real_name": name, "display_name": name}
    return {"user": {"id": user, "name": user.lower(), "is_bot": user == BOT_USER, "profile": profile}}


async def _file_info(world: SlackWorld, arguments: Arguments) -> dict[str, Any]:
    file = world.files.get(str(arguments.get("file") or ""))
    if file is None:
        raise SlackRefusal("file_not_found")
    return {"file": file}


async def _upload_url(world: SlackWorld, arguments: Arguments) -> dict[str, Any]:
    if not arguments.get("filename") or int(arguments.get("length") or 0) <= 0:
        raise SlackRefusal("invalid_arguments")
    file = world.keep_file(b"", name=str(arguments["filename"]))
    return {"upload_url": f"{world.url}/upload/v1/{file['id']}", "file_id": file["id"]}


async def _complete_upload(world: SlackWorld, arguments: Arguments) -> dict[str, Any]:
    given = arguments.get("files") or "[]"
    wanted: list[dict[str, Any]] = json.loads(given) if isinstance(given, str) else given
    if any(one.get("id") not in world.files for one in wanted):
        raise SlackRefusal("file_not_found")
    files = [world.files[one["id"]] for one in wanted]
    if any(not one["size"] for one in files):
        raise SlackRefusal("file_not_found")
    blocks: list[dict[str, Any]] = _decoded(arguments.get("blocks")) or []
    if why := why_bad_blocks(blocks):
        raise SlackRefusal(why)
    for one, file in zip(wanted, files, strict=True):
        file["title"] = str(one.get("title") or file["name"])
    # Nothing says that Slack shares a file only once, so that doing it again shows it again.
    if arguments.get("channel_id"):
        conversation = _writable(world, {"channel": arguments["channel_id"]})
        thread = str(arguments.get("thread_ts") or "")
        if thread and thread not in conversation.messages:
            raise SlackRefusal("thread_not_found")
        fields: dict[str, Any] = {"text": str(arguments.get("initial_comment") or ""), "files": files}
        fields |= {"blocks": blocks} if blocks and not fields["text"] else {}
        world.post(conversation, fields | ({"thread_ts": thread} if thread else {}))
    return {"files": files}


METHODS: Final[Mapping[str, SlackMethod]] = {
    "auth.test": _auth_test,
    "bots.info": _bot_info,
    "chat.postMessage": _post_message,
    "chat.postEphemeral": _post_ephemeral,
    "chat.update": _update,
    "chat.delete": _delete,
    "conversations.history": _history,
    "conversations.replies": _replies,
    "conversations.info": _conversation_info,
    "users.info": _user_info,
    "files.info": _file_info,
    "files.getUploadURLExternal": _upload_url,
    "files.completeUploadExternal": _complete_upload,
}
# Slack reads the arguments of these from JSON, too; of the others only from forms and queries.
JSON_METHODS = frozenset(name for name in METHODS if name.startswith("chat."))


def _readable(world: SlackWorld, arguments: Arguments) -> SlackConversation:
    found = world.conversations.get(str(arguments.get("channel") or ""))
    if found is None:
        raise SlackRefusal("channel_not_found")
    return found


def _writable(world: SlackWorld, arguments: Arguments) -> SlackConversation:
    found = _readable(world, arguments)
    if found.archived:
        raise SlackRefusal("is_archived")
    return found


def _own_message(conversation: SlackConversation, arguments: Arguments, *, refusal: str) -> dict[str, Any]:
    message = conversation.messages.get(str(arguments.get("ts") or ""))
    if message is None:
        raise SlackRefusal("message_not_found")
    if not message.get("bot_id"):
        raise SlackRefusal(refusal)
    return message


def _content(arguments: Arguments) -> dict[str, Any]:
    """Text, blocks and metadata of a message, checked."""
    text = str(arguments.get("text") or "")
    blocks: list[dict[str, Any]] = _decoded(arguments.get("blocks")) or []
    metadata = _decoded(arguments.get("metadata"))
    if not text.strip() and not blocks:
        raise SlackRefusal("no_text")
    if len(text) > TEXT_CHARS_MAX:
        raise SlackRefusal("msg_too_long")
    if why := why_bad_blocks(blocks):
        raise SlackRefusal(why)
    if metadata is not None and not (metadata.get("event_type") and "event_payload" in metadata):
        raise SlackRefusal("invalid_metadata_format")
    fields: dict[str, Any] = {"text": text}
    fields |= {"blocks": blocks} if blocks else {}
    return fields | ({"metadata": metadata} if metadata is not None else {})


def _decoded(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) and value else value


def _page(arguments: Arguments, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Those of a stretch of time, page by page; metadata only for those who ask for it."""
    oldest, latest = str(arguments.get("oldest") or "0"), str(arguments.get("latest") or "9" * 20)
    inclusive = str(arguments.get("inclusive", "")).lower() in {"1", "true"}
    found = [
        one
        for one in messages
        if oldest < one["ts"] < latest or (inclusive and one["ts"] in {oldest, latest})
    ]
    at = int(str(arguments.get("cursor") or "0"))
    limit = min(int(arguments.get("limit") or 100), PAGE_MAX)
    more = at + limit < len(found)
    with_metadata = str(arguments.get("include_all_metadata", "")).lower() in {"1", "true"}
    shown = [
        {key: value for key, value in one.items() if with_metadata or key != "metadata"}
        for one in found[at : at + limit]
    ]
    cursor = {"response_metadata": {"next_cursor": str(at + limit)}} if more else {}
    return {"messages": shown, "has_more": more, **cursor}
