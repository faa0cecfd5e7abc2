"""What goes wrong with requests to the fake Slack, and on its sockets: the steps of its scripts."""

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


class SlackLimit(Struct, frozen=True):
    """429 with `Retry-After`."""

    seconds: int = 1

    async def perform(self, exchange: Exchange) -> None:
        """Answer with the time to wait."""
        exchange.answer = slack_failure("ratelimited")
        exchange.status, exchange.headers = 429, {"Retry-After": str(self.seconds)}


class SlackError(Struct, frozen=True):
    """Any other failure, in Slack's word for it; those are answered with 200."""

    error: str = "edit_window_closed"
    status: int = 200

    async def perform(self, exchange: Exchange) -> None:
        """Answer with the failure."""
        exchange.answer, exchange.status = slack_failure(self.error), self.status


class LoseEvent(Struct, frozen=True):
    """Tell nobody of it."""

    async def perform(self, exchange: Exchange) -> None:
        """Mark it as lost."""
        exchange.is_lost = True


class MissAcknowledgement(Struct, frozen=True):
    """Don't hear its acknowledgement: it is told again, as after three slow seconds."""

    async def perform(self, exchange: Exchange) -> None:
        """Mark it."""
        exchange.ignores_acknowledgement = True


class Forge(Struct, frozen=True):
    """Sign it with another secret, as someone who isn't Slack would. Only for what is delivered over HTTP."""

    async def perform(self, exchange: Exchange) -> None:
        """Mark it."""
        exchange.signature = "wrong"


class Backdate(Struct, frozen=True):
    """Sign it as of ten minutes ago, as in a recording that is played again. Only over HTTP."""

    async def perform(self, exchange: Exchange) -> None:
        """Mark it."""
        exchange.signature = "old"


WORDS: Mapping[str, Callable[..., PlatformStep]] = {
    "accept": Accept,
    "reset": ResetConnection,
    "retry-after": SlackLimit,
    "refuse": SlackError,
    "pause": SlowAnswer,
    "garble": Garble,
    "double": Double,
    "reverse": Reverse,
    "lose": LoseEvent,
    "miss-ack": MissAcknowledgement,
    "forge": Forge,
    "backdate": Backdate,
}


def slack_failure(error: str) -> dict[str, object]:
    """A body that says no."""
    return {"ok": False, "error": error}
