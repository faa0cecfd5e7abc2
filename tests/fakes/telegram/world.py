"""What the fake Telegram knows: chats, their messages, updates that wait, and a record of every request."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from holdfast.chaos.gates import Notifier

UPDATES_MAX = 10_000
RECORD_MAX = 100_000
FIRST_UPDATE = 7_000_001
BOT_ID = 4242


class Call(Struct, frozen=True):
    """A request that arrived: its method and parameters, and whether it was carried out."""

    method: str
    parameters: Mapping[str, Any]
    outcome: str  # "done", or Telegram's words for why not
    message_id: int = 0


class Webhook(Struct):
    """Where updates are delivered instead of being fetched, and what went wrong there last."""

    url: str
    secret: str = ""
    error: str = ""
    error_s: int = 0


class Chat(Struct):
    """A conversation as its people see it: messages by id, in the order in which they came."""

    chat_id: int
    kind: str = "private"
    title: str = ""
    messages: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    blocked: bool = False
    drafts: dict[int, str] = field(default_factory=dict[int, str])
    next_id: int = 1

    def shown(self) -> dict[str, Any]:
        """The chat as messages name it."""
        if self.kind == "private":
            return {"id": self.chat_id, "type": "private", "first_name": f"User {self.chat_id}"}
        return {"id": self.chat_id, "type": self.kind, "title": self.title or f"Group {self.chat_id}"}

    def texts(self) -> list[str]:
        """What the bot said, as people read it now."""
        return [one["text"] for one in self.messages.values() if one["from"]["is_bot"] and "text" in one]


class World:
    """Everything that the fake remembers; `clock_s` gives the dates of messages."""

    def __init__(self, *, username: str = "holdfast_bot", start_s: int = 1_800_000_000) -> None:
        self.bot: dict[str, Any] = {
            "id": BOT_ID,
            "is_bot": True,
            "first_name": "Holdfast",
            "username": username,
            "can_join_groups": True,
            "can_read_all_group_messages": False,
            "supports_inline_queries": False,
        }
        self.chats: dict[int, Chat] = {}
        self.updates: list[dict[str, Any]] = []
        self.calls: list[Call] = []
        self.files: dict[str, tuple[str, bytes]] = {}
        self.commands: list[dict[str, Any]] = []
        self.webhook: Webhook | None = None
        self.changed = Notifier()
        self.now_s = start_s
        self._next_update = FIRST_UPDATE
        self._next_click = 1

    def chat(self, chat_id: int) -> Chat:
        """The chat with this id; negative ids are groups, as on Telegram."""
        known = self.chats.get(chat_id)
        if known is None:
            kind = "private" if chat_id > 0 else "supergroup"
            known = self.chats[chat_id] = Chat(chat_id, kind)
        return known

    def say(
        self, chat_id: int, text: str, *, user_id: int = 0, thread: int = 0, **more: Any
    ) -> dict[str, Any]:
        """Someone says something; returns the message. `more` are further fields of it."""
        message = self._new_message(self.chat(chat_id), self.user(user_id or chat_id), thread)
        message |= ({"text": text} if text else {}) | _entities(text) | more
        self._update("message", message)
        return message

    def send_file(
        self, chat_id: int, data: bytes, *, kind: str = "document", name: str = "notes.txt", caption: str = ""
    ) -> dict[str, Any]:
        """Someone sends a file: a `document`, a `photo` or a `voice` note."""
        file_id = f"file{len(self.files) + 1}"
        self.files[file_id] = (f"{kind}s/{name}", data)
        facts: dict[str, Any] = {
            "file_id": file_id,
            "file_unique_id": f"u{file_id}",
            "file_size": len(data),
        }
        match kind:
            case "photo":
                sizes = [facts | {"width": 90, "height": 90}, facts | {"width": 800, "height": 800}]
                return self.say(chat_id, "", photo=sizes, **_caption(caption))
            case "voice":
                return self.say(chat_id, "", voice=facts | {"duration": 3, "mime_type": "audio/ogg"})
            case _:
                document = facts | {"file_name": name, "mime_type": "text/plain"}
                return self.say(chat_id, "", document=document, **_caption(caption))

    def edit(self, chat_id: int, message_id: int, text: str) -> dict[str, Any]:
        """Someone edits what they said."""
        message = self.chat(chat_id).messages[message_id]
        message |= {"text": text, "edit_date": self._tick()}
        self._update("edited_message", message)
        return message

    def click(self, chat_id: int, message_id: int, data: str, *, user_id: int = 0) -> str:
        """Someone presses a button of the bot's message; returns the click's id."""
        click_id = str(9_000_000 + self._next_click)
        self._next_click += 1
        self._update(
            "callback_query",
            {
                "id": click_id,
                "from": self.user(user_id or chat_id),
                "message": dict(self.chat(chat_id).messages[message_id]),
                "chat_instance": str(chat_id),
                "data": data,
            },
        )
        return click_id

    def forget_updates(self) -> None:
        """Drop the updates that wait, as Telegram does after 24 hours."""
        self.updates.clear()

    def buttons(self, chat_id: int) -> dict[str, tuple[int, str]]:
        """The buttons that are on screen, by label: their message and data."""
        found: dict[str, tuple[int, str]] = {}
        for message in self.chat(chat_id).messages.values():
            for row in message.get("reply_markup", {}).get("inline_keyboard", []):
                found |= {one["text"]: (message["message_id"], one["callback_data"]) for one in row}
        return found

    def post(self, chat: Chat, fields: Mapping[str, Any], *, thread: int = 0) -> dict[str, Any]:
        """The bot says something; returns the message."""
        message = self._new_message(chat, self.bot, thread)
        message |= fields
        chat.drafts.clear()
        self.changed.notify()
        return message

    def record(self, call: Call) -> None:
        """Remember a request."""
        del self.calls[: max(0, len(self.calls) - RECORD_MAX + 1)]
        self.calls.append(call)
        self.changed.notify()

    def done(self, method: str) -> list[Call]:
        """The requests for a method that were carried out."""
        return [call for call in self.calls if call.method == method and call.outcome == "done"]

    def user(self, user_id: int) -> dict[str, Any]:
        """A person."""
        return {"id": user_id, "is_bot": False, "first_name": f"User {user_id}", "username": f"user{user_id}"}

    def _new_message(self, chat: Chat, sender: Mapping[str, Any], thread: int) -> dict[str, Any]:
        message: dict[str, Any] = {
            "message_id": chat.next_id,
            "date": self._tick(),
            "chat": chat.shown(),
            "from": {key: sender[key] for key in ("id", "is_bot", "first_name", "username")},
        }
        if thread:
            message |= {"message_thread_id": thread, "is_topic_message": True}
        chat.next_id += 1
        chat.messages[message["message_id"]] = message
        return message

    def _update(self, kind: str, value: Mapping[str, Any]) -> None:
        del self.updates[: max(0, len(self.updates) - UPDATES_MAX + 1)]
        self.updates.append({"update_id": self._next_update, kind: dict(value)})
        self._next_update += 1
        self.changed.notify()

    def _tick(self) -> int:
        self.now_s += 1
        return self.now_s


def _caption(text: str) -> dict[str, Any]:
    return {"caption": text} if text else {}


def _entities(text: str) -> dict[str, Any]:
    """A command at the beginning, and mentions, as Telegram marks them."""
    found: list[dict[str, Any]] = []
    at = 0
    for word in text.split(" "):
        if at == 0 and word.startswith("/"):
            found.append({"type": "bot_command", "offset": 0, "length": len(word)})
        elif word.startswith("@"):
            found.append({"type": "mention", "offset": at, "length": len(word)})
        at += len(word.encode("utf-16-le", "surrogatepass")) // 2 + 1
    return {"entities": found} if found else {}
