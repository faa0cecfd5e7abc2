"""A fake Slack for tests of apps; tests/fakes/README.md says how to use it."""

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
from fakes.slack.faults import (
    Backdate,
    Forge,
    LoseEvent,
    MissAcknowledgement,
    SlackError,
    SlackLimit,
)
from fakes.slack.server import APP_TOKEN, BOT_TOKEN, SIGNING_SECRET, FakeSlack
from fakes.slack.world import SlackCall, SlackConversation, SlackWorld

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
