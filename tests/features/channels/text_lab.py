"""Platforms that only have text, as their common tests see them: a fake or real server, and people."""

import base64
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from email.message import EmailMessage
from itertools import count
from typing import Any, Protocol

from agent.world import World
from fakes.bridge import FakeBridge
from fakes.exchanges import Scripts
from fakes.matrix import TOKEN, FakeMatrix
from features.channels.lab import channel
from features.channels.mail_lab import HAS_DOVECOT, PASSWORD, FakeSmtp, dovecot
from holdfast.chaos.gates import Notifier
from holdfast.config.fields import Secret
from holdfast.features.channels.deps import ChannelOptions
from holdfast.features.channels.email.messages import thread_of
from holdfast.features.channels.events import ChannelConnected
from holdfast.features.channels.http.webhook_endpoints import WebhookEndpoints
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import Journal

_NUMBERS = count(1)
ANN, BOB, EVE = "ann", "bob", "eve"


class TextSide(Protocol):
    """One such platform. People are named; each has a direct chat."""

    @property
    def changed(self) -> Notifier:
        """Tells of whatever happens there."""
        ...

    @property
    def scripts(self) -> Scripts:
        """The faults; `message` is the method that sends."""
        ...

    def options(self, **fields: Any) -> ChannelOptions:
        """A channel that Ann and Bob may talk to, and in which Ann approves."""
        ...

    def chat(self, person: str) -> str:
        """The chat of a person, as the channel's log names it."""
        ...

    def say(self, person: str, text: str, files: Sequence[tuple[str, bytes]] = ()) -> None:
        """A person writes to the agent."""
        ...

    def texts(self, person: str) -> list[str]:
        """The texts that a person was sent."""
        ...

    def files(self, person: str) -> list[tuple[str, bytes]]:
        """The files that a person was sent."""
        ...

    def endpoints(self) -> WebhookEndpoints:
        """Where the platform calls the process."""
        ...


class BridgeSide:
    """A bridge."""

    def __init__(self, fake: FakeBridge) -> None:
        self.fake = fake
        self._endpoints = WebhookEndpoints()
        fake.taker = lambda: self._endpoints.get("br")

    @property
    def changed(self) -> Notifier:
        return self.fake.changed

    @property
    def scripts(self) -> Scripts:
        return self.fake.scripts

    def options(self, **fields: Any) -> ChannelOptions:
        people = (ANN, BOB)
        usual: dict[str, Any] = {"allow": people, "approvers": (ANN,)}
        return ChannelOptions(
            name="br",
            kind="bridge",
            token=Secret(self.fake.secret),
            base_url=self.fake.url,
            **(usual | fields),
        )

    def chat(self, person: str) -> str:
        return person

    def say(self, person: str, text: str, files: Sequence[tuple[str, bytes]] = ()) -> None:
        sent = [{"name": name, "data": base64.b64encode(data).decode()} for name, data in files]
        self.fake.say(person, text, files=sent)

    def texts(self, person: str) -> list[str]:
        return [text for text in self.fake.texts(person) if text]

    def files(self, person: str) -> list[tuple[str, bytes]]:
        sent = [one["file"] for one in self.fake.chats[person] if "file" in one]
        return [(one["name"], base64.b64decode(one["data"])) for one in sent]

    def endpoints(self) -> WebhookEndpoints:
        """A new process has new ones."""
        self._endpoints = WebhookEndpoints()
        return self._endpoints


@asynccontextmanager
async def bridge_side() -> AsyncGenerator[TextSide]:
    async with FakeBridge() as fake:
        yield BridgeSide(fake)


class MailSide:
    """A mailbox. Each person writes in one thread, with their name at people.example."""

    def __init__(self, fake: FakeSmtp) -> None:
        self.fake = fake
        self._dovecot = dovecot()
        self._own = f"agent{next(_NUMBERS)}@us.example"
        self._threads: dict[str, list[str]] = {}

    @property
    def changed(self) -> Notifier:
        return self.fake.changed

    @property
    def scripts(self) -> Scripts:
        return self.fake.scripts

    def options(self, **fields: Any) -> ChannelOptions:
        people = (address(ANN), address(BOB))
        usual: dict[str, Any] = {"allow": people, "approvers": (address(ANN),)}
        mail: dict[str, Any] = {
            "address": self._own,
            "login": self._own,
            "imap_url": f"imap://127.0.0.1:{self._dovecot.port}",
            "smtp_url": f"smtp://127.0.0.1:{self.fake.port}",
            "authserv_id": "mx.us.example",
        }
        return ChannelOptions(name="mail", kind="email", token=Secret(PASSWORD), **(mail | usual | fields))

    def chat(self, person: str) -> str:
        return f"{address(person)}/{thread_of(self._threads[person][0])}"

    def ids(self, person: str) -> list[str]:
        """The Message-IDs of what a person wrote."""
        return self._threads[person]

    def say(
        self,
        person: str,
        text: str,
        files: Sequence[tuple[str, bytes]] = (),
        *,
        subject: str = "",
        results: str = "mx.us.example; dmarc=pass header.from=people.example",
    ) -> None:
        known = self._threads.setdefault(person, [])
        mail = EmailMessage()
        mail["Authentication-Results"] = results
        if subject:
            mail["Subject"] = subject
        mail["From"], mail["To"] = f"{person.title()} <{address(person)}>", self._own
        mail["Message-ID"] = f"<{person}-{len(known)}-{self._own}>"
        if known:
            mail["References"] = " ".join(known)
        mail.set_content(f"{text}\n")
        for name, data in files:
            mail.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
        known.append(mail["Message-ID"])
        for _ in range(2):  # mail servers repeat themselves at times
            self._dovecot.put(self._own, mail.as_bytes())

    def texts(self, person: str) -> list[str]:
        return [one.text for one in self.fake.mails[address(person)] if one.text != "(file)"]

    def files(self, person: str) -> list[tuple[str, bytes]]:
        return [file for one in self.fake.mails[address(person)] for file in one.files]

    def endpoints(self) -> WebhookEndpoints:
        """No one calls."""
        return WebhookEndpoints()


def address(person: str) -> str:
    """The address of a person."""
    return f"{person}@people.example"


@asynccontextmanager
async def mail_side() -> AsyncGenerator[TextSide]:
    async with FakeSmtp() as fake:
        yield MailSide(fake)


class MatrixSide:
    """A homeserver. Each person has a room with the agent."""

    def __init__(self, fake: FakeMatrix) -> None:
        self.fake = fake

    @property
    def changed(self) -> Notifier:
        return self.fake.changed

    @property
    def scripts(self) -> Scripts:
        return self.fake.scripts

    def options(self, **fields: Any) -> ChannelOptions:
        people = (member(ANN), member(BOB))
        usual: dict[str, Any] = {"allow": people, "approvers": (member(ANN),)}
        return ChannelOptions(
            name="mx", kind="matrix", token=Secret(TOKEN), base_url=self.fake.url, **(usual | fields)
        )

    def chat(self, person: str) -> str:
        return self.fake.room(member(person)).room_id

    def say(self, person: str, text: str, files: Sequence[tuple[str, bytes]] = ()) -> None:
        room = self.fake.room(member(person))
        for name, data in files:  # a message of its own, before the text
            self.fake.media[name] = data
            content = {"msgtype": "m.file", "url": f"mxc://us.example/{name}", "info": {"size": len(data)}}
            self.fake.say(room, member(person), name, **content)
        if text:
            self.fake.say(room, member(person), text)

    def texts(self, person: str) -> list[str]:
        sent = self.fake.sent(self.fake.room(member(person)))
        return [one["body"] for one in sent if one.get("msgtype") == "m.text"]

    def files(self, person: str) -> list[tuple[str, bytes]]:
        sent = [one for one in self.fake.sent(self.fake.room(member(person))) if "url" in one]
        names = [one.get("filename") or one["body"] for one in sent]
        return [
            (name, self.fake.media[one["url"].rpartition("/")[2]])
            for name, one in zip(names, sent, strict=True)
        ]

    def endpoints(self) -> WebhookEndpoints:
        """Nobody calls."""
        return WebhookEndpoints()


def member(person: str) -> str:
    """The Matrix id of a person."""
    return f"@{person}:people.example"


@asynccontextmanager
async def matrix_side() -> AsyncGenerator[TextSide]:
    async with FakeMatrix() as fake:
        yield MatrixSide(fake)


SIDES: dict[str, Callable[[], Any]] = {"bridge": bridge_side, "matrix": matrix_side}
if HAS_DOVECOT:
    SIDES["email"] = mail_side
LOGS = {"bridge": "chn_br", "email": "chn_mail", "matrix": "chn_mx"}


@asynccontextmanager
async def talking(
    world: World, side: TextSide, clock: Clock | None = None, **fields: Any
) -> AsyncGenerator[None]:
    """The channel, until the block ends."""
    options = side.options(**fields)
    async with channel(world, options, clock=clock, endpoints=side.endpoints()):
        if clock is None:  # else the process may die before
            await connected(world.store, options.log_id)
        yield


async def connected(store: Journal, log_id: str) -> None:
    """Wait until the channel reads what people write from now on."""
    async for records in store.follow(log_id):
        if any(isinstance(one.event, ChannelConnected) for one in records):
            return


async def told(side: TextSide, person: str, *texts: str) -> None:
    """Wait until a person was sent exactly this."""
    await side.changed.until(lambda: len(side.texts(person)) >= len(texts))
    assert side.texts(person) == list(texts)
