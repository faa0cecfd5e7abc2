"""What the fake Discord knows: channels, their messages, interactions, and a record of every request."""

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from fakes.discord import shapes
from fakes.discord.markup import read_markdown
from fakes.discord.sessions import DIRECT_MESSAGES, GUILD_MESSAGES, GUILDS, GatewaySessions
from fakes.discord.shapes import BOT_ID, DIRECT, EPHEMERAL, GUILD_ID, TEXT, THREAD
from fakes.exchanges import Scripts
from holdfast.chaos.gates import Notifier

RECORD_MAX = 100_000
NONCE_S = 300.0
INTERACTION_S = 3.0
FOLLOW_UP_S = 900.0
_MENTION = re.compile(r"<@!?(\d+)>")


class DiscordCall(Struct, frozen=True):
    """A request that arrived: which one, for which channel, with what, and what became of it."""

    name: str
    channel: str
    parameters: Mapping[str, Any]
    outcome: str  # "done", or Discord's words for why not
    message_id: str = ""
    at_s: float = 0.0  # on a clock that never goes back


class Channel(Struct):
    """A conversation as its people see it: messages by id, in the order in which they came."""

    channel_id: str
    kind: int
    name: str = ""
    parent_id: str = ""
    recipient: str = ""
    messages: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    refusal: tuple[int, int, str] | None = None  # status, code and words for all that the bot asks of it
    whispers: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])  # to one person alone
    nonces: dict[str, tuple[float, str]] = field(default_factory=dict[str, tuple[float, str]])
    typing: int = 0

    @property
    def is_direct(self) -> bool:
        """Whether it is a person's own chat with the bot."""
        return self.kind == DIRECT

    def shown(self) -> dict[str, Any]:
        """The channel as Discord describes it."""
        last = next(reversed(self.messages), None)
        found: dict[str, Any] = {
            "id": self.channel_id,
            "type": self.kind,
            "last_message_id": last,
            "flags": 0,
        }
        if self.is_direct:
            return found | {"recipients": [shapes.person(self.recipient)]}
        found |= {
            "guild_id": GUILD_ID,
            "name": self.name,
            "parent_id": self.parent_id or None,
            "rate_limit_per_user": 0,
        }
        if self.kind == TEXT:
            return found | {"position": 0, "permission_overwrites": [], "nsfw": False, "topic": None}
        metadata = {
            "archived": False,
            "auto_archive_duration": 1440,
            "archive_timestamp": "2020-01-01T00:00:00+00:00",
            "locked": False,
        }
        more = {"owner_id": "1", "message_count": 0, "member_count": 1, "thread_metadata": metadata}
        return found | more | {"total_message_sent": 0}

    def texts(self) -> list[str]:
        """What the bot said, as people read it now."""
        ours = (one for one in self.messages.values() if one["author"].get("bot"))
        return [read_markdown(one["content"]).text for one in ours]


class DiscordInteraction(Struct):
    """A click or a command; `answer` is what the bot did about it."""

    interaction_id: str
    token: str
    channel: str
    user: str
    at_s: float
    answer: int | None = None
    kind: int = 3
    message_id: str = ""  # of the card
    texts: list[str] = field(default_factory=list[str])  # what was whispered back

    @property
    def is_late(self) -> bool:
        """Whether its person was told that it failed."""
        return self.answer is None and time.monotonic() > self.at_s + INTERACTION_S

    def shown(self) -> dict[str, Any]:
        """What an answer that asks for it is told."""
        return {
            "id": self.interaction_id,
            "type": self.kind,
            "response_message_id": self.message_id or None,
            "response_message_loading": False,
            "response_message_ephemeral": False,
        }


class DiscordWorld:
    """Everything that the fake remembers; people are played with `say`, `click` and `command`."""

    def __init__(self, scripts: Scripts, *, name: str = "holdfast") -> None:
        self.bot = shapes.bot_user(name)
        self.message_content = True  # whether the application has the privileged intent
        self.channels: dict[str, Channel] = {}
        self.calls: list[DiscordCall] = []
        self.files: dict[str, tuple[str, bytes]] = {}
        self.commands: list[dict[str, Any]] = []
        self.interactions: dict[str, DiscordInteraction] = {}
        self.changed = Notifier()
        self.sessions = GatewaySessions(scripts, self.changed)
        self.base_url = ""
        self._ids = shapes.Snowflakes()

    def direct(self, user: int | str) -> Channel:
        """The chat of a person with the bot."""
        channel_id = str(900_000_000_000_000_000 + int(user))
        if channel_id not in self.channels:
            self.channels[channel_id] = Channel(channel_id, DIRECT, recipient=str(user))
        return self.channels[channel_id]

    def channel(self, name: str = "general") -> Channel:
        """A channel of the guild, by name or id; it is made if there is none."""
        known = next((one for one in self.channels.values() if name in {one.name, one.channel_id}), None)
        if known is None:
            known = Channel(self._ids.mint(), TEXT, name=name)
            self.channels[known.channel_id] = known
            self.sessions.emit("CHANNEL_CREATE", known.shown(), intent=GUILDS)
        return known

    def thread(self, parent: Channel, name: str) -> Channel:
        """A thread of a channel; it is made if there is none."""
        for one in self.channels.values():
            if (one.parent_id, one.name) == (parent.channel_id, name):
                return one
        made = Channel(self._ids.mint(), THREAD, name=name, parent_id=parent.channel_id)
        self.channels[made.channel_id] = made
        self.sessions.emit("THREAD_CREATE", made.shown() | {"newly_created": True}, intent=GUILDS)
        return made

    def say(
        self, channel: Channel, text: str, *, user: int | str = 0, replies_to: str = "", **more: Any
    ) -> dict[str, Any]:
        """Someone says something; returns the message. `more` are further fields of it."""
        author = str(user) if user else channel.recipient
        message = self.new_message(channel, shapes.person(author), text) | more
        channel.messages[message["id"]] = message
        if replied := channel.messages.get(replies_to):
            message |= {
                "type": 19,
                "message_reference": {"message_id": replies_to, "channel_id": channel.channel_id},
                "referenced_message": dict(replied),
            }
        self.tell(channel, "MESSAGE_CREATE", message)
        return message

    def send_file(
        self,
        channel: Channel,
        data: bytes,
        *,
        name: str = "notes.txt",
        media_type: str = "text/plain",
        text: str = "",
        user: int | str = 0,
    ) -> dict[str, Any]:
        """Someone sends a file."""
        return self.say(channel, text, user=user, attachments=[self.keep(channel, name, data, media_type)])

    def edit(self, channel: Channel, message_id: str, text: str) -> dict[str, Any]:
        """Someone edits what they said."""
        message = channel.messages[message_id]
        message |= {"content": text, "edited_timestamp": shapes.timestamp(), "mentions": self.mentions(text)}
        self.tell(channel, "MESSAGE_UPDATE", message)
        return message

    def delete(self, channel: Channel, message_id: str) -> None:
        """A message is deleted, by its author or a moderator."""
        del channel.messages[message_id]
        gone = {"id": message_id, "channel_id": channel.channel_id} | self._guild(channel)
        self.sessions.emit("MESSAGE_DELETE", gone, intent=self._intent(channel))

    def click(
        self, channel: Channel, message_id: str, custom_id: str, *, user: int | str = 0
    ) -> DiscordInteraction:
        """Someone presses a button of the bot's message."""
        data = {"custom_id": custom_id, "component_type": shapes.BUTTON}
        more = {"message": dict(channel.messages[message_id])}
        return self._interact(channel, user, {"type": 3, "data": data, **more}, message_id=message_id)

    def command(
        self, channel: Channel, name: str, value: str = "", *, user: int | str = 0
    ) -> DiscordInteraction:
        """Someone uses one of the bot's commands."""
        known = next(one for one in self.commands if one["name"] == name)
        options = [{"name": one["name"], "type": 3, "value": value} for one in known.get("options", [])[:1]]
        data: dict[str, Any] = {"id": known["id"], "name": name, "type": 1}
        data |= {"options": options} if value else {}
        return self._interact(channel, user, {"type": 2, "data": data})

    def buttons(self, channel: Channel) -> dict[str, tuple[str, str]]:
        """The buttons that are on screen, by label: their message and data."""
        found: dict[str, tuple[str, str]] = {}
        for message in channel.messages.values():
            for row in message["components"]:
                found |= {one["label"]: (message["id"], one["custom_id"]) for one in row["components"]}
        return found

    def new_message(self, channel: Channel, author: Mapping[str, Any], text: str) -> dict[str, Any]:
        """A message that nobody has seen yet."""
        message = shapes.message(self._ids.mint(), channel.channel_id, author)
        return message | {"content": text, "mentions": self.mentions(text)} | self._guild(channel)

    def tell(self, channel: Channel, event: str, message: Mapping[str, Any]) -> None:
        """Dispatch an event about a message."""
        extra = {} if channel.is_direct or message["author"].get("bot") else {"member": shapes.member()}
        self.sessions.emit(
            event,
            {**message, **extra},
            intent=self._intent(channel),
            own=bool(message["author"].get("bot")),
        )
        self.changed.notify()

    def keep(self, channel: Channel, name: str, data: bytes, media_type: str) -> dict[str, Any]:
        """A file as an attachment; it is given out under `/attachments/`."""
        file_id = self._ids.mint()
        path = f"attachments/{channel.channel_id}/{file_id}/{name}"
        self.files[path] = (media_type, data)
        return {
            "id": file_id,
            "filename": name,
            "size": len(data),
            "url": f"{self.base_url}/{path}?ex=1&is=1&hm=1",
            "proxy_url": f"{self.base_url}/{path}",
            "content_type": media_type,
        }

    def whisper(self, channel: Channel, interaction: DiscordInteraction, text: str) -> None:
        """The bot says something that one person alone sees."""
        channel.whispers.append((interaction.user, text))
        interaction.texts.append(text)
        self.changed.notify()

    def forget_nonces(self) -> None:
        """Forget nonces, as Discord does after some minutes."""
        for channel in self.channels.values():
            channel.nonces.clear()

    def record(self, call: DiscordCall) -> None:
        """Remember a request."""
        del self.calls[: max(0, len(self.calls) - RECORD_MAX + 1)]
        self.calls.append(call)
        self.changed.notify()

    def done(self, name: str) -> list[DiscordCall]:
        """The requests of this name that were carried out."""
        return [call for call in self.calls if call.name == name and call.outcome == "done"]

    def mentions(self, text: str) -> list[dict[str, Any]]:
        """Whom a text mentions."""
        ids = dict.fromkeys(_MENTION.findall(text))
        return [self.bot if one == BOT_ID else shapes.person(one) for one in ids]

    @property
    def mention(self) -> str:
        """How people mention the bot."""
        return f"<@{BOT_ID}>"

    def _guild(self, channel: Channel) -> dict[str, str]:
        return {} if channel.is_direct else {"guild_id": GUILD_ID}

    def _intent(self, channel: Channel) -> int:
        return DIRECT_MESSAGES if channel.is_direct else GUILD_MESSAGES

    def _interact(
        self, channel: Channel, user: int | str, what: Mapping[str, Any], *, message_id: str = ""
    ) -> DiscordInteraction:
        who = shapes.person(str(user) if user else channel.recipient)
        made = DiscordInteraction(
            self._ids.mint(),
            f"interaction-token-{self._ids.mint()}",
            channel.channel_id,
            who["id"],
            time.monotonic(),
            kind=what["type"],
            message_id=message_id,
        )
        self.interactions[made.token] = made
        person = (
            {"user": who}
            if channel.is_direct
            else {"member": shapes.member() | {"user": who, "permissions": "0"}}
        )
        event: dict[str, Any] = {
            "id": made.interaction_id,
            "application_id": BOT_ID,
            "token": made.token,
            "version": 1,
            "channel_id": channel.channel_id,
            "channel": channel.shown() | {"permissions": "0"},
            "app_permissions": "0",
            "locale": "en-US",
            "entitlements": [],
            "authorizing_integration_owners": {},
            "context": 1 if channel.is_direct else 0,
            "attachment_size_limit": 10_485_760,
            **person,
            **self._guild(channel),
            **what,
        }
        self.sessions.emit("INTERACTION_CREATE", event)
        return made


def is_ephemeral(data: Mapping[str, Any]) -> bool:
    """Whether an answer to an interaction is for one person alone."""
    return bool(int(data.get("flags") or 0) & EPHEMERAL)


def newest_first(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """As Discord lists them."""
    return sorted(messages, key=lambda one: int(one["id"]), reverse=True)
