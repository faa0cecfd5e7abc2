"""A fake Slack for tests of apps; README.md beside it says how to use it."""

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
from holdfast.chaos.slack.faults import (
    Backdate,
    Forge,
    LoseEvent,
    MissAcknowledgement,
    SlackError,
    SlackLimit,
)
from holdfast.chaos.slack.server import APP_TOKEN, BOT_TOKEN, SIGNING_SECRET, FakeSlack
from holdfast.chaos.slack.world import SlackCall, SlackConversation, SlackWorld

__all__ = [
    "APP_TOKEN",
    "BOT_TOKEN",
    "SIGNING_SECRET",
    "Accept",
    "Backdate",
    "Double",
    "FakeSlack",
    "Forge",
    "Garble",
    "Hold",
    "LoseEvent",
    "MissAcknowledgement",
    "ResetConnection",
    "Reverse",
    "Scripts",
    "SlackCall",
    "SlackConversation",
    "SlackError",
    "SlackLimit",
    "SlackWorld",
    "SlowAnswer",
]
