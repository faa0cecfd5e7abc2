"""The platforms as a campaign sees them: people write, read, and something goes wrong."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from email.message import EmailMessage
from typing import Any, Protocol

from typing_extensions import override

from fakes.bridge import BridgeLimit, FakeBridge
from fakes.exchanges import PlatformStep, Scripts
from fakes.matrix import TOKEN, FakeMatrix, MatrixLimit
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
from features.channels.mail_lab import HAS_DOVECOT, PASSWORD, FakeSmtp, dovecot
from holdfast.chaos.gates import Notifier
from holdfast.features.channels.email.messages import thread_of
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


class MatrixCampaignSide:
    """The fake homeserver."""

    name = "mx"
    port = 0
    retry = "/retry"
    marks_max: int | None = 0

    def __init__(self) -> None:
        self.faults: Faults = {
            "answer lost": ("message", [Accept(), ResetConnection()]),
            "cut": ("message", [ResetConnection()]),
            "limit": ("message", [MatrixLimit(1)]),
            "sync cut": ("sync", [ResetConnection()]),
            "history cut": ("messages", [ResetConnection()]),
        }
        self.fake = FakeMatrix()

    @property
    def scripts(self) -> Scripts:
        """What goes wrong."""
        return self.fake.scripts

    @property
    def changed(self) -> Notifier:
        """Tells of whatever happens there."""
        return self.fake.changed

    def server(self) -> AbstractAsyncContextManager[FakeMatrix]:
        """The fake."""
        return self.fake

    def settings(self, people: Sequence[int]) -> str:
        """The channel in the settings."""
        allow = ", ".join(f'"{self._id(person)}"' for person in people)
        return (
            f'\n[[channels]]\nname = "{self.name}"\nkind = "matrix"\ntoken = "{TOKEN}"\n'
            f'base_url = "{self.fake.url}"\nallow = [{allow}]\n'
        )

    def _id(self, person: int) -> str:
        return f"@p{person}:people.example"

    def chat(self, person: int) -> str:
        """The chat of a person, as the channel's log names it."""
        return self.fake.room(self._id(person)).room_id

    def say(self, person: int, text: str) -> None:
        """A person writes to the agent."""
        self.fake.say(self.fake.room(self._id(person)), self._id(person), text)

    def texts(self, person: int) -> list[str]:
        """What the agent said."""
        return [one["body"] for one in self.fake.sent(self.fake.room(self._id(person)))]

    def is_reachable(self) -> bool:
        """A homeserver keeps what is written after the first sync."""
        return self.fake.syncs > 1


class MailCampaignSide:
    """A mailbox at Dovecot, and a mail server that takes answers.

    A mail from before the channel's first look isn't read, so the first one is repeated until it's answered.
    """

    name = "mail"
    port = 0
    retry = "/retry"
    marks_max: int | None = None

    def __init__(self) -> None:
        self.faults: Faults = {
            "answer lost": ("message", [Accept(), ResetConnection()]),
            "cut": ("message", [ResetConnection()]),
        }
        self.fake = FakeSmtp()
        self._dovecot = dovecot()
        self._own = f"campaign{id(self)}@us.example"
        self._ids: dict[int, list[str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def scripts(self) -> Scripts:
        """What goes wrong."""
        return self.fake.scripts

    @property
    def changed(self) -> Notifier:
        """Tells of whatever happens there."""
        return self.fake.changed

    def server(self) -> AbstractAsyncContextManager[FakeSmtp]:
        """The fake."""
        return self.fake

    def settings(self, people: Sequence[int]) -> str:
        """The channel in the settings."""
        allow = ", ".join(f'"{self._address(person)}"' for person in people)
        return (
            f'\n[[channels]]\nname = "{self.name}"\nkind = "email"\ntoken = "{PASSWORD}"\n'
            f'address = "{self._own}"\nauthserv_id = "none"\nallow = [{allow}]\n'
            f'imap_url = "imap://127.0.0.1:{self._dovecot.port}"\n'
            f'smtp_url = "smtp://127.0.0.1:{self.fake.port}"\n'
        )

    def _address(self, person: int) -> str:
        return f"p{person}@people.example"

    def chat(self, person: int) -> str:
        """The chat of a person, as the channel's log names it."""
        return f"{self._address(person)}/{thread_of(self._ids[person][0])}"

    def say(self, person: int, text: str) -> None:
        """A person writes to the agent."""
        known = self._ids.setdefault(person, [])
        mail = EmailMessage()
        mail["From"], mail["To"] = self._address(person), self._own
        mail["Message-ID"] = f"<{person}-{len(known)}@people.example>"
        if known:
            mail["References"] = " ".join(known)
        mail.set_content(f"{text}\n")
        known.append(mail["Message-ID"])
        task = asyncio.create_task(self._deliver(person, mail.as_bytes(), is_first=len(known) == 1))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, person: int, raw: bytes, *, is_first: bool) -> None:
        self._dovecot.put(self._own, raw)
        while is_first and not self.texts(person):
            await asyncio.sleep(1.0)
            self._dovecot.put(self._own, raw)

    def texts(self, person: int) -> list[str]:
        """What the agent said."""
        return [one.text for one in self.fake.mails[self._address(person)]]

    def is_reachable(self) -> bool:
        """A mailbox keeps unread mails."""
        return True


SIDES: Mapping[
    str, type[TelegramSide | SlackSide | DiscordSide | BridgeSide | MatrixCampaignSide | MailCampaignSide]
] = {
    "telegram": TelegramSide,
    "slack": SlackSide,
    "slack-http": SlackHttpSide,
    "discord": DiscordSide,
    "bridge": BridgeSide,
    "matrix": MatrixCampaignSide,
    **({"email": MailCampaignSide} if HAS_DOVECOT else {}),
}


def without_mark(text: str) -> str:
    """What an answer says, marked or not."""
    return text.removeprefix(MARK).strip()
