"""What goes wrong with requests to the fake Discord, and on its gateway: the steps of its scripts."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, TypedDict

from msgspec import Struct

from fakes.exchanges import (
    Accept,
    Double,
    Exchange,
    Garble,
    Hold,
    PlatformStep,
    ResetConnection,
    Reverse,
    Scripts,
    SlowAnswer,
)

__all__ = ["Accept", "Double", "Hold", "ResetConnection", "Reverse", "SlowAnswer"]
Scope: TypeAlias = Literal["user", "shared", "global"]


class DiscordAnswer(TypedDict):
    """What a request is answered with; without a body it is empty."""

    status: int
    body: Any
    headers: Mapping[str, str]


def answered(
    body: Any = None, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> DiscordAnswer:
    """An answer; without a body and with 204 it is empty."""
    return DiscordAnswer(status=status, body=body, headers=headers or {})


def refused(status: int, code: int, text: str, errors: Mapping[str, Any] | None = None) -> DiscordAnswer:
    """Discord says no: a status, its own code and its words."""
    body: dict[str, Any] = {"message": text, "code": code}
    return answered(body | ({"errors": dict(errors)} if errors else {}), status=status)


class DiscordLimit(Struct, frozen=True):
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
        if is_global:
            headers["X-RateLimit-Global"] = "true"
        exchange.answer = answered(body, status=429, headers=headers)


class DiscordError(Struct, frozen=True):
    """Any other failure: `code` is Discord's own."""

    text: str = "Missing Access"
    status: int = 403
    code: int = 50001

    async def perform(self, exchange: Exchange) -> None:
        """Answer with the failure."""
        exchange.answer = refused(self.status, self.code, self.text)


class CloseSocket(Struct, frozen=True):
    """Close the gateway's socket with a code: 4004, 4013 and 4014 are final."""

    code: int = 4000

    async def perform(self, exchange: Exchange) -> None:
        """Mark the socket to be closed."""
        exchange.status = self.code


class Ignore(Struct, frozen=True):
    """Answer nothing: a heartbeat without its acknowledgement, or an event that is lost."""

    async def perform(self, exchange: Exchange) -> None:
        """Mark it."""
        exchange.is_lost = True


WORDS: Mapping[str, Callable[..., PlatformStep]] = {
    "accept": Accept,
    "reset": ResetConnection,
    "retry-after": DiscordLimit,
    "refuse": DiscordError,
    "pause": SlowAnswer,
    "garble": Garble,
    "close": CloseSocket,
    "ignore": Ignore,
    "double": Double,
    "reverse": Reverse,
}


def discord_scripts() -> Scripts:
    """Scripts in these words."""
    return Scripts(WORDS)
