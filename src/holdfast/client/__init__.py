"""A client for Holdfast's server: starts runs, follows them through restarts, answers what they ask."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.api.access import KeyMade, KeyShown
    from holdfast.api.approvals import GrantShown, OpenApproval, OpenAsk, OpenQuestion
    from holdfast.api.runs import Accepted, RunListed, RunPage, RunShown, Started
    from holdfast.api.server import TargetShown, TargetState, TargetTried
    from holdfast.api.sessions import (
        Forked,
        QueuedMessage,
        QueueShown,
        SessionPage,
        SessionShown,
        TranscriptPage,
    )
    from holdfast.client.address import Address, ClientPatience
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
    "ClientPatience",
    "Forked",
    "GrantShown",
    "Heard",
    "HermesFrame",
    "KeyMade",
    "KeyShown",
    "LiveLine",
    "OpenApproval",
    "OpenAsk",
    "OpenQuestion",
    "QueueShown",
    "QueuedMessage",
    "Refused",
    "RunListed",
    "RunPage",
    "RunShown",
    "Seen",
    "SessionPage",
    "SessionShown",
    "Started",
    "TargetShown",
    "TargetState",
    "TargetTried",
    "TranscriptPage",
    "Unreachable",
]

_MODULES = {
    "api.access": ("KeyMade", "KeyShown"),
    "api.approvals": ("GrantShown", "OpenApproval", "OpenAsk", "OpenQuestion"),
    "api.runs": ("Accepted", "RunListed", "RunPage", "RunShown", "Started"),
    "api.server": ("TargetShown", "TargetState", "TargetTried"),
    "api.sessions": (
        "Forked",
        "QueueShown",
        "QueuedMessage",
        "SessionPage",
        "SessionShown",
        "TranscriptPage",
    ),
    "client.address": ("Address", "ClientPatience"),
    "client.client": ("Client",),
    "client.errors": ("BadAnswer", "ClientError", "Refused", "Unreachable"),
    "client.updates": ("Away", "Back", "Heard", "HermesFrame", "LiveLine", "Seen"),
}


def __getattr__(name: str) -> object:
    """Load names on first use, so that only programs that send requests load the HTTP stack."""
    from importlib import import_module

    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"holdfast.{module}"), name)
    raise AttributeError(f"module 'holdfast.client' has no attribute {name!r}")
