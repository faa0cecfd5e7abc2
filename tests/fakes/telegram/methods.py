"""The methods of the Bot API that the fake Telegram knows, with the checks that Telegram makes."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from fakes.telegram.markup import CannotParse, read_html, utf16_units
from fakes.telegram.world import Chat, Webhook, World

TEXT_UNITS_MAX = 4096
BUTTON_BYTES_MAX = 64
FILE_BYTES_MAX = 20 * 1024 * 1024
NOT_MODIFIED = (
    "Bad Request: message is not modified: specified new message content and reply markup are exactly the "
    "same as a current content and reply markup of the message"
)

Parameters = Mapping[str, Any]
Method = Callable[[World, Parameters], Awaitable[Any]]


class TelegramRefusal(Exception):
    """Telegram says no: a status and its words."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


async def _get_me(world: World, parameters: Parameters) -> Any:
    del parameters
    return world.bot


async def _nothing(world: World, parameters: Parameters) -> Any:
    del world, parameters
    return True


async def _set_webhook(world: World, parameters: Parameters) -> Any:
    url = str(parameters.get("url") or "")
    secret = str(parameters.get("secret_token") or "")
    if not url.startswith("https://") and not url.startswith("http://127.0.0.1:"):
        raise TelegramRefusal(400, "Bad Request: bad webhook: An HTTPS URL must be provided for webhook")
    if not re.fullmatch(r"[A-Za-z0-9_-]{0,256}", secret):
        raise TelegramRefusal(400, "Bad Request: secret token contains unallowed characters")
    if _is_true(parameters.get("drop_pending_updates")):
        world.forget_updates()
    world.webhook = Webhook(url, secret)
    world.changed.notify()
    return True


async def _delete_webhook(world: World, parameters: Parameters) -> Any:
    if _is_true(parameters.get("drop_pending_updates")):
        world.forget_updates()
    world.webhook = None
    world.changed.notify()
    return True


async def _get_webhook_info(world: World, parameters: Parameters) -> Any:
    del parameters
    hook = world.webhook or Webhook("")
    trouble = {"last_error_message": hook.error, "last_error_date": hook.error_s} if hook.error else {}
    info = {"url": hook.url, "has_custom_certificate": False, "pending_update_count": len(world.updates)}
    return info | trouble


async def _set_my_commands(world: World, parameters: Parameters) -> Any:
    world.commands = list(parameters.get("commands", []))
    return True


async def _send_message(world: World, parameters: Parameters) -> Any:
    chat = _writable_chat(world, parameters)
    text, entities = _text_of(parameters)
    _check_buttons(parameters)
    fields: dict[str, Any] = {"text": text, **({"entities": entities} if entities else {})}
    if markup := parameters.get("reply_markup"):
        fields["reply_markup"] = markup
    replied = parameters.get("reply_parameters")
    if replied and replied["message_id"] in chat.messages:
        fields["reply_to_message"] = _without_reply(chat.messages[replied["message_id"]])
    elif replied and not replied.get("allow_sending_without_reply"):
        raise TelegramRefusal(400, "Bad Request: message to be replied not found")
    return world.post(chat, fields, thread=int(parameters.get("message_thread_id") or 0))


async def _send_document(world: World, parameters: Parameters) -> Any:
    chat = _writable_chat(world, parameters)
    name, data = parameters["document"]
    file_id = f"file{len(world.files) + 1}"
    world.files[file_id] = (f"documents/{name}", data)
    document = {
        "file_id": file_id,
        "file_unique_id": f"u{file_id}",
        "file_name": name,
        "file_size": len(data),
    }
    caption = {"caption": parameters["caption"]} if parameters.get("caption") else {}
    return world.post(
        chat, {"document": document, **caption}, thread=int(parameters.get("message_thread_id") or 0)
    )


async def _send_photo(world: World, parameters: Parameters) -> Any:
    chat = _writable_chat(world, parameters)
    name, data = parameters["photo"]
    if not data.startswith((b"\x89PNG", b"\xff\xd8\xff", b"RIFF")):
        raise TelegramRefusal(400, "Bad Request: IMAGE_PROCESS_FAILED")
    file_id = f"file{len(world.files) + 1}"
    world.files[file_id] = (f"photos/{name}", data)
    facts = {"file_id": file_id, "file_unique_id": f"u{file_id}", "file_size": len(data)}
    caption = {"caption": parameters["caption"]} if parameters.get("caption") else {}
    photo = [facts | {"width": 800, "height": 800}]
    return world.post(chat, {"photo": photo, **caption}, thread=int(parameters.get("message_thread_id") or 0))


async def _edit_message_text(world: World, parameters: Parameters) -> Any:
    chat = _writable_chat(world, parameters)
    message = chat.messages.get(int(parameters.get("message_id") or 0))
    if message is None:
        raise TelegramRefusal(400, "Bad Request: message to edit not found")
    if not message["from"]["is_bot"]:
        raise TelegramRefusal(400, "Bad Request: message can't be edited")
    text, entities = _text_of(parameters)
    _check_buttons(parameters)
    before = {key: message.get(key) for key in ("text", "entities", "reply_markup")}
    after = {"text": text, "entities": entities or None, "reply_markup": parameters.get("reply_markup")}
    if before == after:
        raise TelegramRefusal(400, NOT_MODIFIED)
    for key, value in after.items():
        message.pop(key, None)
        if value:
            message[key] = value
    message["edit_date"] = message["date"] + 1
    world.changed.notify()
    return message


async def _send_chat_action(world: World, parameters: Parameters) -> Any:
    _writable_chat(world, parameters)
    return True


async def _send_message_draft(world: World, parameters: Parameters) -> Any:
    chat = _writable_chat(world, parameters)
    if chat.kind != "private":
        raise TelegramRefusal(400, "Bad Request: drafts can be sent only to private chats")
    if not int(parameters.get("draft_id") or 0):
        raise TelegramRefusal(400, "Bad Request: draft_id must be non-zero")
    text = str(parameters.get("text") or "")
    chat.drafts[int(parameters["draft_id"])] = _text_of(parameters)[0] if text else ""
    world.changed.notify()
    return True


async def _get_file(world: World, parameters: Parameters) -> Any:
    file_id = str(parameters.get("file_id", ""))
    if file_id not in world.files:
        raise TelegramRefusal(400, "Bad Request: invalid file_id")
    path, data = world.files[file_id]
    if len(data) > FILE_BYTES_MAX:
        raise TelegramRefusal(400, "Bad Request: file is too big")
    return {
        "file_id": file_id,
        "file_unique_id": f"u{file_id}",
        "file_size": len(data),
        "file_path": f"{file_id}/{path}",
    }


METHODS: Final[Mapping[str, Method]] = {
    "getme": _get_me,
    "deletewebhook": _delete_webhook,
    "setwebhook": _set_webhook,
    "getwebhookinfo": _get_webhook_info,
    "setmycommands": _set_my_commands,
    "sendmessage": _send_message,
    "senddocument": _send_document,
    "sendphoto": _send_photo,
    "editmessagetext": _edit_message_text,
    "sendchataction": _send_chat_action,
    "sendmessagedraft": _send_message_draft,
    "answercallbackquery": _nothing,
    "getfile": _get_file,
}


def _is_true(value: object) -> bool:
    """A flag, which forms send as a word."""
    return str(value).lower() in {"true", "1"}


def _writable_chat(world: World, parameters: Parameters) -> Chat:
    try:
        chat = world.chats.get(int(parameters.get("chat_id") or 0))
    except ValueError:
        chat = None
    if chat is None:
        raise TelegramRefusal(400, "Bad Request: chat not found")
    if chat.blocked:
        raise TelegramRefusal(403, "Forbidden: bot was blocked by the user")
    return chat


def _text_of(parameters: Parameters) -> tuple[str, list[dict[str, object]]]:
    source = str(parameters.get("text") or "")
    text, entities = source, list[dict[str, object]]()
    if parameters.get("parse_mode") == "HTML":
        try:
            text, entities = read_html(source)
        except CannotParse as error:
            raise TelegramRefusal(400, f"Bad Request: can't parse entities: {error}") from error
    if not text.strip():
        raise TelegramRefusal(400, "Bad Request: message text is empty")
    if utf16_units(text) > TEXT_UNITS_MAX:
        raise TelegramRefusal(400, "Bad Request: message is too long")
    return text, entities


def _check_buttons(parameters: Parameters) -> None:
    markup: dict[str, Any] = parameters.get("reply_markup") or {}
    rows: list[list[dict[str, Any]]] = markup.get("inline_keyboard", [])
    for row in rows:
        for button in row:
            if not 0 < len(str(button.get("callback_data", "")).encode()) <= BUTTON_BYTES_MAX:
                raise TelegramRefusal(400, "Bad Request: BUTTON_DATA_INVALID")


def _without_reply(message: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key != "reply_to_message"}
