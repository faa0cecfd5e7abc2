"""The platforms as a campaign sees them: people write, read, and something goes wrong."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from typing_extensions import override

from fakes.bridge import BridgeLimit, FakeBridge
from fakes.exchanges import PlatformStep, Scripts
from fakes.slack import (
    Accept,
    Backdate,
    Double,
    FakeSlack,
    Forge,
    MissAcknowledgement,
    ResetConnection,
    Reverse,
    SlackLimit,
)
from fakes.telegram import FakeTelegram, TooManyRequests
from features.channels.discord.side import DiscordSide
from holdfast.chaos.gates import Notifier
from holdfast.features.channels.texts import MARK
from ports import reserved_port

Faults = Mapping[str, tuple[str, Sequence[PlatformStep]]]


class Side(Protocol):
    """One fake platform with numbered people."""

    @property
    def name(self) -> str:
        """The channel in the settings."""
        ...

    port: int  # where the server listens; 0 if no platform calls it

    @property
    def retry(self) -> str:
        """What a message about a failure tells people to send."""
        ...

    @property
    def marks_max(self) -> int | None:
        """How many answers may be marked as repeats; None if the platform can't be asked."""
        ...

    @property
    def faults(self) -> Faults:
        """What can go wrong there."""
        ...

    @property
    def scripts(self) -> Scripts:
        """What goes wrong."""
        ...

    @property
    def changed(self) -> Notifier:
        """Tells of whatever happens there."""
        ...

    def server(self) -> AbstractAsyncContextManager[Any]:
        """The fake, which runs until the block ends."""
        ...

    def settings(self, people: Sequence[int]) -> str:
        """The channel in the settings, for these people."""
        ...

    def chat(self, person: int) -> str:
        """The chat of a person, as the channel's log names it."""
        ...

    def say(self, person: int, text: str) -> None:
        """A person writes to the bot."""
        ...

    def texts(self, person: int) -> list[str]:
        """What the bot said to a person, as they read it now."""
        ...

    def is_reachable(self) -> bool:
        """Whether first words in a new conversation arrive now."""
        ...


_TELEGRAMSIDE_FAULTS: Faults = {
    "answer lost": ("sendMessage", [Accept(), ResetConnection()]),
    "cut": ("sendMessage", [ResetConnection()]),
    "limit": ("sendMessage", [TooManyRequests(1)]),
    "repeated updates": ("getUpdates", [Double()]),
    "reordered updates": ("getUpdates", [Reverse()]),
    "poll cut": ("getUpdates", [ResetConnection()]),
}


class TelegramSide:
    """The fake Telegram."""

    name = "tg"
    port = 0
    retry = "/retry"
    marks_max: int | None = None

    def __init__(self) -> None:
        self.faults = _TELEGRAMSIDE_FAULTS
        self.fake = FakeTelegram()

    @property
    def scripts(self) -> Scripts:
        """What goes wrong."""
        return self.fake.scripts

    @property
    def changed(self) -> Notifier:
        """Tells of whatever happens there."""
        return self.fake.world.changed

    def server(self) -> AbstractAsyncContextManager[FakeTelegram]:
        """The fake."""
        return self.fake

    def settings(self, people: Sequence[int]) -> str:
        """The channel in the settings."""
        allow = ", ".join(f'"{person}"' for person in people)
        return (
            f'\n[[channels]]\nname = "{self.name}"\nkind = "telegram"\ntoken = "{self.fake.token}"\n'
            f'base_url = "{self.fake.url}"\nallow = [{allow}]\n'
        )

    def chat(self, person: int) -> str:
        """The chat of a person, as the channel's log names it."""
        return str(person)

    def say(self, person: int, text: str) -> None:
        """A person writes to the bot."""
        self.fake.world.say(person, text)

    def texts(self, person: int) -> list[str]:
        """What the bot said."""
        return self.fake.world.chat(person).texts()

    def is_reachable(self) -> bool:
        """Telegram keeps what nobody fetches."""
        return True


_SLACKSIDE_FAULTS: Faults = {
    "answer lost": ("chat.postMessage", [Accept(), ResetConnection()]),
    "cut": ("chat.postMessage", [ResetConnection()]),
    "limit": ("chat.postMessage", [SlackLimit(1)]),
    "edit lost": ("chat.update", [Accept(), ResetConnection()]),
    "edit cut": ("chat.update", [ResetConnection()]),
    "history limited": ("conversations.history", [SlackLimit(1)]),
    "repeated envelope": ("event", [Double()]),
    "reordered envelopes": ("event", [Reverse()]),
    "acknowledgement missed": ("event", [MissAcknowledgement()]),
    "socket cut": ("event", [ResetConnection()]),
}


class SlackSide:
    """The fake Slack."""

    name = "sl"
    port = 0
    retry = "!retry"
    marks_max: int | None = 0

    def __init__(self) -> None:
        self.faults = _SLACKSIDE_FAULTS
        self.fake = FakeSlack()

    @property
    def scripts(self) -> Scripts:
        """What goes wrong."""
        return self.fake.scripts

    @property
    def changed(self) -> Notifier:
        """Tells of whatever happens there."""
        return self.fake.world.changed

    def server(self) -> AbstractAsyncContextManager[FakeSlack]:
        """The fake."""
        return self.fake

    def settings(self, people: Sequence[int]) -> str:
        """The channel in the settings."""
        allow = ", ".join(f'"U{person}"' for person in people)
        return (
            f'\n[[channels]]\nname = "{self.name}"\nkind = "slack"\ntoken = "{self.fake.token}"\n'
            f'app_token = "{self.fake.app_token}"\nbase_url = "{self.fake.api_url}"\nallow = [{allow}]\n'
        )

    def chat(self, person: int) -> str:
        """The chat of a person, as the channel's log names it."""
        return f"D{person}"

    def say(self, person: int, text: str) -> None:
        """A person writes to the bot."""
        self.fake.world.say(f"D{person}", text)

    def texts(self, person: int) -> list[str]:
        """What the bot said."""
        return self.fake.world.conversation(f"D{person}").texts()

    def is_reachable(self) -> bool:
        """Slack forgets the first words in a conversation while no socket is open."""
        return bool(self.fake.sockets.open)


_CALL_FAULTS: Faults = {
    "repeated call": ("event", [Double()]),
    "reordered calls": ("event", [Reverse()]),
    "answer too late": ("event", [MissAcknowledgement()]),
    "call cut": ("event", [ResetConnection()]),
    "forged call": ("event", [Forge()]),
    "old call": ("event", [Backdate()]),
}
REPEATS_S = (0.0, 0.5, 2.0)  # before Slack calls again; it gives up more often than the real one


class SlackHttpSide(SlackSide):
    """The fake Slack, which calls the server."""

    name = "sl-http"

    def __init__(self) -> None:
        super().__init__()
        sent = {name: fault for name, fault in _SLACKSIDE_FAULTS.items() if fault[0] != "event"}
        self.faults = {**sent, **_CALL_FAULTS}
        self.fake = FakeSlack(repeats_s=REPEATS_S)
        self.port = reserved_port()

    @override
    def settings(self, people: Sequence[int]) -> str:
        """The channel in the settings."""
        allow = ", ".join(f'"U{person}"' for person in people)
        url = f"http://127.0.0.1:{self.port}"
        self.fake.hook.url = f"{url}/hooks/channels/{self.name}"
        return (
            f'\n[[channels]]\nname = "{self.name}"\nkind = "slack"\ntoken = "{self.fake.token}"\n'
            f'signing_secret = "{self.fake.signing_secret}"\nwebhook_url = "{url}"\n'
            f'base_url = "{self.fake.api_url}"\nallow = [{allow}]\n'
        )

    @override
    def is_reachable(self) -> bool:
        """Slack forgets the first words in a conversation that it couldn't deliver three times."""
        return bool(self.fake.world.done("auth.test"))


class BridgeSide:
    """A bridge that calls the server."""

    name = "br"
    retry = "/retry"
    marks_max: int | None = None

    def __init__(self) -> None:
        self.faults: Faults = {
            "answer lost": ("message", [Accept(), ResetConnection()]),
            "cut": ("message", [ResetConnection()]),
            "limit": ("message", [BridgeLimit(1)]),
            "ping cut": ("ping", [ResetConnection()]),
            "repeated update": ("update", [Double()]),
        }
        self.fake = FakeBridge()
        self.port = reserved_port()

    @property
    def scripts(self) -> Scripts:
        """What goes wrong."""
        return self.fake.scripts

    @property
    def changed(self) -> Notifier:
        """Tells of whatever happens there."""
        return self.fake.changed

    def server(self) -> AbstractAsyncContextManager[FakeBridge]:
        """The fake."""
        return self.fake

    def settings(self, people: Sequence[int]) -> str:
        """The channel in the settings."""
        allow = ", ".join(f'"{person}"' for person in people)
        self.fake.hook = f"http://127.0.0.1:{self.port}/hooks/channels/{self.name}"
        return (
            f'\n[[channels]]\nname = "{self.name}"\nkind = "bridge"\ntoken = "{self.fake.secret}"\n'
            f'base_url = "{self.fake.url}"\nallow = [{allow}]\n'
        )

    def chat(self, person: int) -> str:
        """The chat of a person, as the channel's log names it."""
        return str(person)

    def say(self, person: int, text: str) -> None:
        """A person writes to the agent."""
        self.fake.say(str(person), text)

    def texts(self, person: int) -> list[str]:
        """What the agent said."""
        return self.fake.texts(str(person))

    def is_reachable(self) -> bool:
        """The bridge keeps what nobody takes."""
        return True


SIDES: Mapping[str, type[TelegramSide | SlackSide | DiscordSide | BridgeSide]] = {
    "telegram": TelegramSide,
    "slack": SlackSide,
    "slack-http": SlackHttpSide,
    "discord": DiscordSide,
    "bridge": BridgeSide,
}


def without_mark(text: str) -> str:
    """What an answer says, marked or not."""
    return text.removeprefix(MARK).strip()
