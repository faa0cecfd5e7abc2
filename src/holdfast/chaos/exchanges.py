"""Requests to a fake chat platform under way, and the steps that every platform's scripts have."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from aiohttp import web
from msgspec import Struct, field

from holdfast.chaos.gates import Gate
from holdfast.chaos.script_text import BadScript, parse_steps

Order: TypeAlias = Literal["as sent", "reversed", "doubled"]


class Exchange(Struct):
    """One request, or one thing that a platform tells; steps change what becomes of it."""

    accept: Callable[[], Awaitable[Mapping[str, object]]]  # do what the request asks for; the body to answer
    answer: Mapping[str, object] | None = None
    reset: bool = False
    garbled: str | None = None  # sent in place of an answer
    order: Order = "as sent"
    is_lost: bool = False  # nobody is told of it
    is_deaf: bool = False  # its acknowledgement isn't heard
    signature: Literal["right", "wrong", "old"] = "right"  # of what a platform delivers over HTTP
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    status: int = 200


class PlatformStep(Protocol):
    """Something that happens to a request."""

    async def perform(self, exchange: Exchange) -> None:
        """Let it happen."""
        ...


class Accept(Struct, frozen=True):
    """Do what the request asks for; a script that doesn't end otherwise does this last."""

    async def perform(self, exchange: Exchange) -> None:
        """Carry the request out."""
        exchange.answer = await exchange.accept()


class ResetConnection(Struct, frozen=True):
    """Cut the connection instead of answering; after `accept`, the message has arrived all the same."""

    async def perform(self, exchange: Exchange) -> None:
        """Mark the connection to be cut."""
        exchange.reset = True


class Garble(Struct, frozen=True):
    """Answer with a text that isn't the platform's, such as a proxy's page; empty: with nothing at all."""

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
    """Tell of it twice."""

    async def perform(self, exchange: Exchange) -> None:
        """Set the order."""
        exchange.order = "doubled"


class Reverse(Struct, frozen=True):
    """Tell of the newest first."""

    async def perform(self, exchange: Exchange) -> None:
        """Set the order."""
        exchange.order = "reversed"


async def played(steps: Sequence[PlatformStep], exchange: Exchange) -> None:
    """Let the steps happen; without another end, the request is carried out."""
    for step in steps:
        await step.perform(exchange)
    if exchange.answer is None and not exchange.reset and exchange.garbled is None:
        exchange.answer = await exchange.accept()


def broken(exchange: Exchange, request: web.Request) -> web.Response | None:
    """The response to a request that gets no answer: it is cut, or garbled; None if it gets one."""
    if exchange.reset:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()
    if exchange.garbled is None:
        return None
    return web.Response(text=exchange.garbled, status=exchange.status, content_type="text/html")


class Scripts(Struct):
    """The attempts to come for each name, or for one chat of it (`sendMessage@42`); then all is well."""

    words: Mapping[str, Callable[..., PlatformStep]]
    attempts: dict[str, list[Sequence[PlatformStep]]] = field(
        default_factory=dict[str, list[Sequence[PlatformStep]]]
    )

    def add(self, method: str, *attempts: Sequence[PlatformStep]) -> None:
        """Let the next requests for the method go like this, one attempt each."""
        self.attempts.setdefault(method.lower(), []).extend(attempts)

    def add_text(self, text: str) -> None:
        """The same from lines like `sendMessage: retry-after 2 | accept; reset`; raises BadScript."""
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
        """The script of the next request."""
        for name in (f"{method}@{chat}".lower(), method.lower()):
            if self.attempts.get(name):
                return self.attempts[name].pop(0)
        return (Accept(),)
