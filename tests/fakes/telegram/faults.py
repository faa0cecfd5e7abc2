"""What goes wrong with a request to the fake Telegram: the steps of its scripts."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from fakes.exchanges import (
    Accept,
    Double,
    Exchange,
    Garble,
    PlatformStep,
    ResetConnection,
    Reverse,
    SlowAnswer,
)


class TooManyRequests(Struct, frozen=True):
    """RefuseWith with 429: too many requests."""

    seconds: int = 1

    async def perform(self, exchange: Exchange) -> None:
        """Answer with the time to wait."""
        exchange.answer = failure(
            429, f"Too Many Requests: retry after {self.seconds}", {"retry_after": self.seconds}
        )


class RefuseWith(Struct, frozen=True):
    """RefuseWith with a status and Telegram's words for it."""

    text: str = "Bad Request: message can't be edited"
    code: int = 400

    async def perform(self, exchange: Exchange) -> None:
        """Answer with the failure."""
        exchange.answer = failure(self.code, self.text)


WORDS: Mapping[str, Callable[..., PlatformStep]] = {
    "accept": Accept,
    "reset": ResetConnection,
    "retry-after": TooManyRequests,
    "refuse": RefuseWith,
    "pause": SlowAnswer,
    "garble": Garble,
    "double": Double,
    "reverse": Reverse,
}


def failure(code: int, text: str, parameters: Mapping[str, object] | None = None) -> dict[str, object]:
    """A body that says no."""
    body: dict[str, object] = {"ok": False, "error_code": code, "description": text}
    return body | ({"parameters": dict(parameters)} if parameters else {})
