"""What the fake Slack knows: conversations, their messages, files, and a record of every request."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from fakes.slack.markup import read_message
from holdfast.chaos.gates import Notifier

RECORD_MAX = 100_000
# What the bot's token may do, as Slack lists it with each answer.
SCOPES: Sequence[str] = (
    "app_mentions:read",
    "channels:history",
    "chat:write",
    "commands",
    "files:read",
    "files:write",
    "groups:history",
    "im:history",
    "metadata.message:read",
    "mpim:history",
    "users:read",
)
TEAM, APP, BOT_USER, BOT = "T0FAKE", "A0FAKE", "U0BOT", "B0BOT"


class SlackCall(Struct, frozen=True):
    """A request that arrived: its method and arguments, and whether it was carried out."""

    method: str
    arguments: Mapping[str, Any]
    outcome: str  # "done", or Slack's word for why not
    ts: str = ""


class SlackConversation(Struct):
    """A conversation as its people see it: messages by ts, in the order in which they came."""

    channel: str
    messages: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    ephemeral: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])  # user, text
    archived: bool = False

    @property
    def kind(self) -> str:
        """What Slack calls this kind of conversation."""
        return {"D": "im", "G": "mpim"}.get(self.channel[:1], "channel")

    def of_bot(self, thread: str = "") -> list[dict[str, Any]]:
        """The bot's messages: all, or those of one thread."""
        return [
            one
            for one in self.messages.values()
            if one.get("bot_id") and (not thread or one.get("thread_ts") == thread)
        ]

    def texts(self, thread: str = "") -> list[str]:
        """What the bot said, as people read it now."""
        return [read_message(one).shown for one in self.of_bot(thread)]


class SlackWorld:
    """Everything that the fake remembers; `tell` gets what Slack tells the app: a type and a payload."""

    def __init__(self, *, start_s: int = 1_800_000_000) -> None:
        self.conversations: dict[str, SlackConversation] = {}
        self.calls: list[SlackCall] = []
        self.files: dict[str, dict[str, Any]] = {}
        self.contents: dict[str, bytes] = {}
        self.scopes: Sequence[str] = SCOPES
        self.changed = Notifier()
        self.now_s = start_s
        self.tell: Callable[[str, dict[str, Any]], None] = _tell_nobody
        self.url = ""  # of the server, for the addresses of files
        self.enterprise = ""  # the organization, if the app is installed in all of it
        self._numbers = 0

    def conversation(self, channel: str) -> SlackConversation:
        """The conversation with this id: D… is direct, G… a group of people, any other a channel."""
        known = self.conversations.get(channel)
        if known is None:
            known = self.conversations[channel] = SlackConversation(channel)
        return known

    def say(
        self, channel: str, text: str, *, user: str = "", thread: str = "", **more: Any
    ) -> dict[str, Any]:
        """Someone says something; returns the message. `@bot` in the text is a mention of the bot."""
        conversation = self.conversation(channel)
        source = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        source = source.replace("@bot", f"<@{BOT_USER}>")
        message = self._new_message(conversation, {"user": user or person_of(channel), "text": source} | more)
        if thread:
            message["thread_ts"] = thread
        self._tell_message(conversation, message)
        return message

    def send_file(self, channel: str, data: bytes, *, name: str = "notes.txt", **more: Any) -> dict[str, Any]:
        """Someone sends a file, perhaps with a `text`."""
        file = self.keep_file(data, name=name, mimetype=str(more.pop("mimetype", "text/plain")))
        text = str(more.pop("text", ""))
        return self.say(channel, text, subtype="file_share", files=[file], **more)

    def keep_file(self, data: bytes, *, name: str, mimetype: str = "") -> dict[str, Any]:
        """A file, as messages name it."""
        file_id = f"F{len(self.files) + 1}"
        private = f"{self.url}/files-pri/{TEAM}-{file_id}/{name}"
        file = {
            "id": file_id,
            "name": name,
            "title": name,
            "mimetype": mimetype,
            "size": len(data),
            "mode": "hosted",
            "url_private": private,
            "url_private_download": private.replace("/files-pri/", "/files-pri/download/"),
        }
        self.files[file_id], self.contents[file_id] = file, data
        return file

    def edit(self, channel: str, ts: str, text: str) -> dict[str, Any]:
        """Someone edits what they said."""
        conversation = self.conversation(channel)
        message = conversation.messages[ts]
        before = dict(message)
        message |= {"text": text, "edited": {"user": message["user"], "ts": self.tick()}}
        event = {
            "type": "message",
            "subtype": "message_changed",
            "message": dict(message),
            "previous_message": before,
            "channel": channel,
            "channel_type": conversation.kind,
            "hidden": True,
            "ts": self.tick(),
        }
        self._tell_event(event)
        return message

    def delete(self, channel: str, ts: str) -> None:
        """Someone deletes a message, also one of the bot."""
        conversation = self.conversation(channel)
        event = {
            "type": "message",
            "subtype": "message_deleted",
            "deleted_ts": ts,
            "previous_message": conversation.messages.pop(ts),
            "channel": channel,
            "channel_type": conversation.kind,
            "hidden": True,
            "ts": self.tick(),
        }
        self._tell_event(event)

    def click(self, channel: str, ts: str, value: str, *, user: str = "") -> str:
        """Someone presses a button of the bot's message; returns the click's trigger."""
        message = self.conversation(channel).messages[ts]
        who, action_ts = user or person_of(channel), self.tick()
        button = next(one for one in self._buttons_of(message) if one["value"] == value)
        trigger = f"trigger.{action_ts}"
        payload = {
            "type": "block_actions",
            "team": None if self.enterprise else {"id": TEAM, "domain": "fake"},
            "enterprise": {"id": self.enterprise, "name": "Fake"} if self.enterprise else None,
            "is_enterprise_install": bool(self.enterprise),
            "user": {"id": who, "username": who.lower(), "name": who.lower(), "team_id": TEAM},
            "api_app_id": APP,
            "container": {"type": "message", "message_ts": ts, "channel_id": channel, "is_ephemeral": False},
            "trigger_id": trigger,
            "channel": {"id": channel, "name": "directmessage" if channel[0] == "D" else "fake"},
            "message": dict(message),
            "response_url": f"{self.url}/actions/{trigger}",
            "actions": [
                {
                    "type": "button",
                    "action_id": button["action_id"],
                    "block_id": "b1",
                    "text": button["text"],
                    "value": value,
                    "action_ts": action_ts,
                }
            ],
        }
        self.tell("interactive", payload)
        return trigger

    def command(self, channel: str, text: str, *, command: str = "/holdfast", user: str = "") -> None:
        """Someone sends a slash command, which no conversation shows."""
        self.conversation(channel)
        self.tell(
            "slash_commands",
            {
                "command": command,
                "text": text,
                "user_id": user or person_of(channel),
                "user_name": (user or person_of(channel)).lower(),
                "channel_id": channel,
                "channel_name": "directmessage" if channel[0] == "D" else "fake",
                "team_id": TEAM,
                "api_app_id": APP,
                "trigger_id": f"trigger.{self.tick()}",
                "response_url": f"{self.url}/commands/1",
            },
        )

    def buttons(self, channel: str) -> dict[str, tuple[str, str]]:
        """The buttons that are on screen, by label: the ts of their message and their value."""
        return {
            button["text"]["text"]: (ts, button["value"])
            for ts, message in self.conversation(channel).messages.items()
            for button in self._buttons_of(message)
        }

    def post(self, conversation: SlackConversation, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The bot says something; returns the message."""
        usual = {"user": BOT_USER, "bot_id": BOT, "app_id": APP}
        message = self._new_message(conversation, usual | dict(fields))
        self.changed.notify()
        return message

    def record(self, call: SlackCall) -> None:
        """Remember a request."""
        del self.calls[: max(0, len(self.calls) - RECORD_MAX + 1)]
        self.calls.append(call)
        self.changed.notify()

    def done(self, method: str) -> list[SlackCall]:
        """The requests for a method that were carried out."""
        return [call for call in self.calls if call.method == method and call.outcome == "done"]

    def tick(self) -> str:
        """The next moment, as Slack writes it; no two are the same."""
        self._numbers += 1
        self.now_s += 1
        return f"{self.now_s}.{self._numbers:06d}"

    def _new_message(self, conversation: SlackConversation, fields: Mapping[str, Any]) -> dict[str, Any]:
        ts = self.tick()
        message = {"type": "message", "team": TEAM, "ts": ts, **fields}
        conversation.messages[ts] = message
        return message

    def _tell_message(self, conversation: SlackConversation, message: Mapping[str, Any]) -> None:
        """A mention in a channel is told twice, as a mention and as a message, as Slack does."""
        place = {"channel": conversation.channel, "event_ts": message["ts"]}
        self._tell_event({**message, **place, "channel_type": conversation.kind})
        if conversation.kind != "im" and f"<@{BOT_USER}>" in message["text"]:
            self._tell_event({**message, **place, "type": "app_mention"})

    def _tell_event(self, event: Mapping[str, Any]) -> None:
        payload = {
            "token": "deprecated",
            "team_id": TEAM,
            "api_app_id": APP,
            "event": dict(event),
            "type": "event_callback",
            "event_id": f"Ev{self.tick()}",
            "event_time": self.now_s,
            "authorizations": [
                {
                    "enterprise_id": self.enterprise or None,
                    "team_id": None if self.enterprise else TEAM,
                    "user_id": BOT_USER,
                    "is_bot": True,
                    "is_enterprise_install": bool(self.enterprise),
                }
            ],
        }
        self.tell("events_api", payload)
        self.changed.notify()

    def _buttons_of(self, message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        blocks: Sequence[Mapping[str, Any]] = message.get("blocks") or ()
        return [one for block in blocks if block["type"] == "actions" for one in block["elements"]]


def _tell_nobody(kind: str, payload: dict[str, Any]) -> None:
    """What a world without a server does with what happens."""
    del kind, payload


def person_of(channel: str) -> str:
    """The person of a direct conversation: D42 is with U42."""
    return f"U{channel[1:]}"
