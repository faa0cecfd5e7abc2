"""A fake Discord for tests of bots; README.md beside it says how to use it."""

from holdfast.chaos.discord.faults import (
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
from holdfast.chaos.discord.server import TOKEN, FakeDiscord
from holdfast.chaos.discord.world import Channel, DiscordCall, DiscordWorld
from holdfast.chaos.exchanges import Scripts

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
