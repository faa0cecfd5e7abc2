"""A client for Holdfast's server: starts runs, follows them through restarts, answers what they ask."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.client.address import Address, Patience
    from holdfast.client.answers import (
        Accepted,
        Forked,
        GrantShown,
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
    from holdfast.client.updates import Away, Back, Heard, HermesFrame, LiveLine, Seen

__all__ = [
    "Accepted",
    "Address",
    "Away",
    "Back",
    "BadAnswer",
    "Client",
    "ClientError",
    "Forked",
    "GrantShown",
    "Heard",
    "HermesFrame",
    "KeyMade",
    "KeyShown",
    "LiveLine",
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

_PLACES = {
    "address": ("Address", "Patience"),
    "client": ("Client",),
    "errors": ("BadAnswer", "ClientError", "Refused", "Unreachable"),
    "updates": ("Away", "Back", "Heard", "HermesFrame", "LiveLine", "Seen"),
}


def __getattr__(name: str) -> object:
    """What is imported from here is loaded when it is used: only who sends requests waits for HTTP."""
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module 'holdfast.client' has no attribute {name!r}")
    place = next((place for place, names in _PLACES.items() if name in names), "answers")
    return getattr(import_module(f"holdfast.client.{place}"), name)
