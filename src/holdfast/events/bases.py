"""The base classes of events, which define who can append them."""

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """An event and its time (milliseconds of Unix time)."""

    at_ms: int


class Input(Event, frozen=True, kw_only=True):
    """An event that anyone can append."""


class OwnedEvent(Event, frozen=True, kw_only=True):
    """An event that only the owner of the log can append."""


class ForeignEvent(Event, frozen=True, kw_only=True, tag=False):
    """An event of a feature that this program doesn't have. Its body is kept as it is."""

    tag: str
    run_id: str = ""
    body: bytes


class RunEvent(OwnedEvent, frozen=True, kw_only=True):
    """An event that only the owner of the run can append."""

    run_id: str
