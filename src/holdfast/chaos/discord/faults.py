"""What goes wrong with requests to the fake Discord, and on its gateway: the steps of its scripts."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from holdfast.chaos.gates import Gate
from holdfast.chaos.script_text import BadScript, parse_steps

Order: TypeAlias = Literal["as sent", "doubled", "late"]
Scope: TypeAlias = Literal["user", "shared", "global"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request is answered with; without a body it is empty."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True)
class Exchange:
    """A request, an opcode or an event under way; steps change what becomes of it."""

    accept: Callable[[], Awaitable[Answer]]  # do what is asked for
    answer: Answer | None = None
    reset: bool = False
    close_code: int = 0  # the gateway closes the socket with it
    is_ignored: bool = False  # nothing is answered, or the event is lost
    order: Order = "as sent"


def refused(status: int, code: int, text: str, errors: Mapping[str, Any] | None = None) -> Answer:
    """Discord says no: a status, its own code and its words."""
    body: dict[str, Any] = {"message": text, "code": code}
    return Answer(status, body | ({"errors": dict(errors)} if errors else {}))


@dataclass(frozen=True, slots=True)
class Accept:
    """Do what the request asks for; a script that doesn't end otherwise does this last."""

    async def perform(self, exchange: Exchange) -> None:
        """Carry it out."""
        exchange.answer = await exchange.accept()


@dataclass(frozen=True, slots=True)
class ResetConnection:
    """Cut the connection instead of answering; after `accept`, the message has arrived all the same."""

    async def perform(self, exchange: Exchange) -> None:
        """Mark the connection to be cut."""
        exchange.reset = True


@dataclass(frozen=True, slots=True)
class TooManyRequests:
    """429: a limit of this route, or of the whole bot if the scope is `global`."""

    seconds: float = 1.0
    scope: Scope = "user"

    async def perform(self, exchange: Exchange) -> None:
        """Answer with the time to wait."""
        is_global = self.scope == "global"
        body = {
            "message": "You are being rate limited.",
            "retry_after": self.seconds,
            "global": is_global,
        }
        headers = {
            "Retry-After": str(int(self.seconds) + 1),
            "X-RateLimit-Scope": self.scope,
            "X-RateLimit-Reset-After": f"{self.seconds:.3f}",
            "Via": "1.1 google",
        }
        exchange.answer = Answer(429, body, headers | ({"X-RateLimit-Global": "true"} if is_global else {}))


@dataclass(frozen=True, slots=True)
class RefuseWith:
    """Any other failure: `code` is Discord's own."""

    text: str = "Missing Access"
    status: int = 403
    code: int = 50001

    async def perform(self, exchange: Exchange) -> None:
        """Answer with the failure."""
        exchange.answer = refused(self.status, self.code, self.text)


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
class CloseSocket:
    """Close the gateway's socket with a code: 4004, 4013 and 4014 are final."""

    code: int = 4000

    async def perform(self, exchange: Exchange) -> None:
        """Mark the socket to be closed."""
        exchange.close_code = self.code


@dataclass(frozen=True, slots=True)
class Ignore:
    """Answer nothing: a heartbeat without its acknowledgement, or an event that is lost."""

    async def perform(self, exchange: Exchange) -> None:
        """Mark it."""
        exchange.is_ignored = True


@dataclass(frozen=True, slots=True)
class Double:
    """Dispatch the event twice."""

    async def perform(self, exchange: Exchange) -> None:
        """Set the order."""
        exchange.order = "doubled"


@dataclass(frozen=True, slots=True)
class Reverse:
    """Dispatch the event after the one that follows it."""

    async def perform(self, exchange: Exchange) -> None:
        """Set the order."""
        exchange.order = "late"


DiscordStep: TypeAlias = (
    Accept
    | ResetConnection
    | TooManyRequests
    | RefuseWith
    | SlowAnswer
    | Hold
    | CloseSocket
    | Ignore
    | Double
    | Reverse
)
WORDS: Mapping[str, Callable[..., DiscordStep]] = {
    "accept": Accept,
    "reset": ResetConnection,
    "retry-after": TooManyRequests,
    "refuse": RefuseWith,
    "pause": SlowAnswer,
    "close": CloseSocket,
    "ignore": Ignore,
    "double": Double,
    "reverse": Reverse,
}


@dataclass(slots=True)
class Scripts:
    """The attempts to come for each name, or for one channel of it (`createMessage@42`); then all is well."""

    attempts: dict[str, list[Sequence[DiscordStep]]] = field(
        default_factory=dict[str, list[Sequence[DiscordStep]]]
    )

    def add(self, name: str, *attempts: Sequence[DiscordStep]) -> None:
        """Let the next requests, opcodes or events of this name go like this, one attempt each."""
        self.attempts.setdefault(name.lower(), []).extend(attempts)

    def add_text(self, text: str) -> None:
        """The same from lines like `createMessage: retry-after 2 | accept; reset`; raises BadScript."""
        for line in text.splitlines():
            name, colon, script = line.partition(":")
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            if not colon or not name.strip():
                raise BadScript(
                    f"a line begins with a name, as in `createMessage: accept; reset`: {line.strip()}"
                )
            self.add(name.strip(), *parse_steps(script, WORDS))

    def next(self, name: str, channel: str = "") -> Sequence[DiscordStep]:
        """The script of what comes next."""
        for key in (f"{name}@{channel}".lower(), name.lower()):
            if self.attempts.get(key):
                return self.attempts[key].pop(0)
        return ()
