"""A fake Telegram for tests of bots; README.md beside it says how to use it."""

from holdfast.chaos.exchanges import (
    Accept,
    Double,
    Garble,
    Hold,
    ResetConnection,
    Reverse,
    Scripts,
    SlowAnswer,
)
from holdfast.chaos.telegram.faults import RefuseWith, TooManyRequests
from holdfast.chaos.telegram.server import TOKEN, FakeTelegram
from holdfast.chaos.telegram.world import Call, Chat, World

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
