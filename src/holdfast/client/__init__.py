"""A client for Holdfast's server: starts runs, follows them through restarts, answers what they ask."""

from holdfast.client.answers import (
    Accepted,
    Forked,
    KeyMade,
    KeyShown,
    OpenAsk,
    QueuedMessage,
    QueueShown,
    RunPage,
    RunShown,
    SessionPage,
    SessionShown,
    Started,
    TargetShown,
    TranscriptPage,
)
from holdfast.client.client import Client
from holdfast.client.errors import BadAnswer, ClientError, Refused, Unreachable
from holdfast.client.exchange import Address, Patience
from holdfast.client.streams import Away, Back, Heard, HermesFrame, Live, Seen

__all__ = [
    "Accepted",
    "Address",
    "Away",
    "Back",
    "BadAnswer",
    "Client",
    "ClientError",
    "Forked",
    "Heard",
    "HermesFrame",
    "KeyMade",
    "KeyShown",
    "Live",
    "OpenAsk",
    "Patience",
    "QueueShown",
    "QueuedMessage",
    "Refused",
    "RunPage",
    "RunShown",
    "Seen",
    "SessionPage",
    "SessionShown",
    "Started",
    "TargetShown",
    "TranscriptPage",
    "Unreachable",
]
