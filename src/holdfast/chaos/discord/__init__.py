"""A fake Discord for tests of bots; README.md beside it says how to use it."""

from holdfast.chaos.discord.faults import (
    Accept,
    CloseSocket,
    Double,
    Hold,
    Ignore,
    RefuseWith,
    ResetConnection,
    Reverse,
    SlowAnswer,
    TooManyRequests,
)
from holdfast.chaos.discord.server import TOKEN, FakeDiscord
from holdfast.chaos.discord.world import Call, Channel, World
from holdfast.chaos.exchanges import Scripts

__all__ = [
    "TOKEN",
    "Accept",
    "Call",
    "Channel",
    "CloseSocket",
    "Double",
    "FakeDiscord",
    "Hold",
    "Ignore",
    "RefuseWith",
    "ResetConnection",
    "Reverse",
    "Scripts",
    "SlowAnswer",
    "TooManyRequests",
    "World",
]
