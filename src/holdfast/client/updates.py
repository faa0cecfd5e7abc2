"""What a client hears on an event stream."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from holdfast.events import Event


class Seen(Struct, frozen=True):
    """An event of the log, as journaled; `body` is its JSON with the seq in it."""

    seq: int
    event: Event
    body: bytes


class HermesFrame(Struct, frozen=True):
    """A frame in hermes' words; seq 0 is an ephemeral one."""

    seq: int
    event: str
    data: Mapping[str, Any]


class LiveLine(Struct, frozen=True):
    """What a run waits for now; it is on no log."""

    run_id: str
    text: str


class Away(Struct, frozen=True):
    """The stream broke off, and is looked for again."""

    why: str
    tries: int


class Back(Struct, frozen=True):
    """The stream continues from its cursor."""


Heard: TypeAlias = Seen | LiveLine | Away | Back
