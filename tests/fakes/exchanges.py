"""A request to a fake chat platform, and the script steps that all fakes share."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from aiohttp import web
from msgspec import Struct, field

from holdfast.chaos.gates import Gate
from holdfast.chaos.scenarios import BadScript, parse_steps

Order: TypeAlias = Literal["as sent", "reversed", "doubled"]


class Exchange(Struct):
    """A request to the platform, or an event from it. Steps change its outcome."""

    accept: Callable[[], Awaitable[Mapping[str, object]]]  # carries it out; returns the response body
    answer: Mapping[str, object] | None = None
    reset: bool = False
    garbled: str | None = None  # sent in place of an answer
    order: Order = "as sent"
    is_lost: bool = False  # the event is never sent
    ignores_acknowledgement: bool = False
    signature: Literal["right", "wrong", "old"] = "right"  # of an event sent over HTTP
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    status: int = 200


class PlatformStep(Protocol):
    """A step of a script: it happens to a request."""

    async def perform(self, exchange: Exchange) -> None:
        """Let it happen."""
        ...


class Accept(Struct, frozen=True):
    """Carry the request out. Scripts without another ending do this last."""

    async def perform(self, exchange: Exchange) -> None:
        """Carry the request out."""
        exchange.answer = await exchange.accept()


class ResetConnection(Struct, frozen=True):
    """Cut the connection instead of answering; after `accept`, the message was still received."""

    async def perform(self, exchange: Exchange) -> None:
        """Mark the connection to be cut."""
        exchange.reset = True


class Garble(Struct, frozen=True):
    """Answer with a text that isn't the platform's, such as a proxy's error page, or with an empty body."""

    text: str = "<html>Bad Gateway</html>"
    status: int = 200

    async def perform(self, exchange: Exchange) -> None:
        """Set what is sent."""
        exchange.garbled, exchange.status = self.text, self.status


class SlowAnswer(Struct, frozen=True):
    """Wait for some seconds."""

    seconds: float = 1.0

    async def perform(self, exchange: Exchange) -> None:
        """Wait."""
        del exchange
        await asyncio.sleep(self.seconds)


class Hold(Struct, frozen=True):
    """Wait at a gate that a test opens."""

    gate: Gate

    async def perform(self, exchange: Exchange) -> None:
        """Wait until the gate is open."""
        del exchange
        await self.gate.passed()


class Double(Struct, frozen=True):
    """Send the event twice."""

    async def perform(self, exchange: Exchange) -> None:
        """Set the order."""
        exchange.order = "doubled"


class Reverse(Struct, frozen=True):
    """Send the newest event first."""

    async def perform(self, exchange: Exchange) -> None:
        """Set the order."""
        exchange.order = "reversed"


async def played(steps: Sequence[PlatformStep], exchange: Exchange) -> None:
    """Perform the steps. Without another ending, the request is carried out."""
    for step in steps:
        await step.perform(exchange)
    if exchange.answer is None and not exchange.reset and exchange.garbled is None:
        exchange.answer = await exchange.accept()


def broken(exchange: Exchange, request: web.Request) -> web.Response | None:
    """Return the response to a request that is cut or garbled, or None."""
    if exchange.reset:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()
    if exchange.garbled is None:
        return None
    return web.Response(text=exchange.garbled, status=exchange.status, content_type="text/html")


class Scripts(Struct):
    """Scripts for the next requests, by name or by name and chat (`sendMessage@42`). Later ones succeed."""

    words: Mapping[str, Callable[..., PlatformStep]]
    attempts: dict[str, list[Sequence[PlatformStep]]] = field(
        default_factory=dict[str, list[Sequence[PlatformStep]]]
    )

    def add(self, method: str, *attempts: Sequence[PlatformStep]) -> None:
        """Script the next requests for the method, one attempt each."""
        self.attempts.setdefault(method.lower(), []).extend(attempts)

    def add_text(self, text: str) -> None:
        """Parse lines such as `sendMessage: retry-after 2 | accept; reset`. Raises BadScript."""
        for line in text.splitlines():
            method, colon, script = line.partition(":")
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            if not colon or not method.strip():
                raise BadScript(
                    f"a line begins with a method, as in `sendMessage: accept; reset`: {line.strip()}"
                )
            self.add(method.strip(), *parse_steps(script, self.words))

    def next(self, method: str, chat: str) -> Sequence[PlatformStep]:
        """Return the script of the next request."""
        for name in (f"{method}@{chat}".lower(), method.lower()):
            if self.attempts.get(name):
                return self.attempts[name].pop(0)
        return (Accept(),)
