"""A fake Discord for tests of bots; tests/fakes/README.md says how to use it."""

from fakes.discord.faults import (
    Accept,
    CloseSocket,
    DiscordError,
    DiscordLimit,
    Double,
    Garble,
    Hold,
    Ignore,
    ResetConnection,
    Reverse,
    SlowAnswer,
)
from fakes.discord.server import TOKEN, FakeDiscord
from fakes.discord.world import Channel, DiscordCall, DiscordWorld
from fakes.exchanges import Scripts

__all__ = [
    "TOKEN",
    "Accept",
    "Channel",
    "CloseSocket",
    "DiscordCall",
    "DiscordError",
    "DiscordLimit",
    "DiscordWorld",
    "Double",
    "FakeDiscord",
    "Garble",
    "Hold",
    "Ignore",
    "ResetConnection",
    "Reverse",
    "Scripts",
    "SlowAnswer",
]
