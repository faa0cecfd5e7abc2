"""What goes wrong with a request to the fake Telegram: the steps of its scripts."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from holdfast.chaos.gates import Gate
from holdfast.chaos.script_text import BadScript, parse_steps

Order: TypeAlias = Literal["as sent", "reversed", "doubled"]


@dataclass(slots=True)
class Exchange:
    """One request under way; steps change what becomes of it."""

    accept: Callable[[], Awaitable[Mapping[str, object]]]  # do what the request asks for; the body to answer
    answer: Mapping[str, object] | None = None
    reset: bool = False
    order: Order = "as sent"  # of the updates that this request is answered with


@dataclass(frozen=True, slots=True)
class Accept:
    """Do what the request asks for; a script that doesn't end otherwise does this last."""

    async def perform(self, exchange: Exchange) -> None:
        """Carry the request out."""
        exchange.answer = await exchange.accept()


@dataclass(frozen=True, slots=True)
class ResetConnection:
    """Cut the connection instead of answering; after `accept`, the message has arrived all the same."""

    async def perform(self, exchange: Exchange) -> None:
        """Mark the connection to be cut."""
        exchange.reset = True


@dataclass(frozen=True, slots=True)
class TooManyRequests:
    """RefuseWith with 429: too many requests."""

    seconds: int = 1

    async def perform(self, exchange: Exchange) -> None:
        """Answer with the time to wait."""
        exchange.answer = failure(
            429, f"Too Many Requests: retry after {self.seconds}", {"retry_after": self.seconds}
        )


@dataclass(frozen=True, slots=True)
class RefuseWith:
    """RefuseWith with a status and Telegram's words for it."""

    text: str = "Bad Request: message can't be edited"
    code: int = 400

    async def perform(self, exchange: Exchange) -> None:
        """Answer with the failure."""
        exchange.answer = failure(self.code, self.text)


@dataclass(frozen=True, slots=True)
class SlowAnswer:
    """Wait for some seconds."""

    seconds: float = 1.0

    async def perform(self, exchange: Exchange) -> None:
        """Wait."""
        del exchange
        await asyncio.sleep(self.seconds)


@dataclass(frozen=True, slots=True)
class Hold:
    """Wait at a gate that a test opens."""

    gate: Gate

    async def perform(self, exchange: Exchange) -> None:
        """Wait until the gate is open."""
        del exchange
        await self.gate.passed()


@dataclass(frozen=True, slots=True)
class Double:
    """Answer getUpdates with each update twice."""

    async def perform(self, exchange: Exchange) -> None:
        """Set the order."""
        exchange.order = "doubled"


@dataclass(frozen=True, slots=True)
class Reverse:
    """Answer getUpdates with the newest update first."""

    async def perform(self, exchange: Exchange) -> None:
        """Set the order."""
        exchange.order = "reversed"


TelegramStep: TypeAlias = (
    Accept | ResetConnection | TooManyRequests | RefuseWith | SlowAnswer | Hold | Double | Reverse
)
WORDS: Mapping[str, Callable[..., TelegramStep]] = {
    "accept": Accept,
    "reset": ResetConnection,
    "retry-after": TooManyRequests,
    "refuse": RefuseWith,
    "pause": SlowAnswer,
    "double": Double,
    "reverse": Reverse,
}


def failure(code: int, text: str, parameters: Mapping[str, object] | None = None) -> dict[str, object]:
    """A body that says no."""
    body: dict[str, object] = {"ok": False, "error_code": code, "description": text}
    return body | ({"parameters": dict(parameters)} if parameters else {})


@dataclass(slots=True)
class Scripts:
    """The attempts to come for each method, or for one chat of it (`sendMessage@42`); then all is well."""

    attempts: dict[str, list[Sequence[TelegramStep]]] = field(
        default_factory=dict[str, list[Sequence[TelegramStep]]]
    )

    def add(self, method: str, *attempts: Sequence[TelegramStep]) -> None:
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
            self.add(method.strip(), *parse_steps(script, WORDS))

    def next(self, method: str, chat: str) -> Sequence[TelegramStep]:
        """The script of the next request."""
        for name in (f"{method}@{chat}".lower(), method.lower()):
            if self.attempts.get(name):
                return self.attempts[name].pop(0)
        return (Accept(),)
