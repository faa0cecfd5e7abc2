"""Platforms that only have text, as their common tests see them: a fake or real server, and people."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

from agent.world import World
from fakes.bridge import FakeBridge
from fakes.exchanges import Scripts
from features.channels.lab import channel
from holdfast.chaos.gates import Notifier
from holdfast.features.channels.deps import ChannelOptions
from holdfast.features.channels.http.webhook_endpoints import WebhookEndpoints
from holdfast.interfaces.clock import Clock

ANN, BOB, EVE = "ann", "bob", "eve"


class TextSide(Protocol):
    """One such platform. People are named; each has a direct chat."""

    @property
    def changed(self) -> Notifier:
        """Tells of whatever happens there."""
        ...

    @property
    def scripts(self) -> Scripts:
        """What goes wrong; `message` is the method that sends."""
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
        """What a person was sent."""
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
        people = frozenset({ANN, BOB})
        usual: dict[str, Any] = {"allow": people, "approvers": frozenset({ANN})}
        return ChannelOptions(
            name="br", kind="bridge", token=self.fake.secret, base_url=self.fake.url, **(usual | fields)
        )

    def chat(self, person: str) -> str:
        return person

    def say(self, person: str, text: str, files: Sequence[tuple[str, bytes]] = ()) -> None:
        import base64

        sent = [{"name": name, "data": base64.b64encode(data).decode()} for name, data in files]
        self.fake.say(person, text, files=sent)

    def texts(self, person: str) -> list[str]:
        return [text for text in self.fake.texts(person) if text]

    def files(self, person: str) -> list[tuple[str, bytes]]:
        import base64

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


SIDES: dict[str, Callable[[], Any]] = {"bridge": bridge_side}
LOGS = {"bridge": "chn_br"}


@asynccontextmanager
async def talking(
    world: World, side: TextSide, clock: Clock | None = None, **fields: Any
) -> AsyncGenerator[None]:
    """The channel, until the block ends."""
    async with channel(world, side.options(**fields), clock=clock, endpoints=side.endpoints()):
        yield


async def told(side: TextSide, person: str, *texts: str) -> None:
    """Wait until a person was sent exactly this."""
    await side.changed.until(lambda: len(side.texts(person)) >= len(texts))
    assert side.texts(person) == list(texts)
