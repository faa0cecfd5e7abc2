"""A fake Telegram for tests of bots; tests/fakes/README.md says how to use it."""

from fakes.exchanges import (
    Accept,
    Double,
    Garble,
    Hold,
    ResetConnection,
    Reverse,
    Scripts,
    SlowAnswer,
)
from fakes.telegram.faults import RefuseWith, TooManyRequests
from fakes.telegram.server import TOKEN, FakeTelegram
from fakes.telegram.world import Call, Chat, World

__all__ = [
    "TOKEN",
    "Accept",
    "Call",
    "Chat",
    "Double",
    "FakeTelegram",
    "Garble",
    "Hold",
    "RefuseWith",
    "ResetConnection",
    "Reverse",
    "Scripts",
    "SlowAnswer",
    "TooManyRequests",
    "World",
]
