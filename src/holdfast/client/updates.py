"""What a client hears on an event stream."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from holdfast.events import Event


@dataclass(frozen=True, slots=True)
class Seen:
    """An event of the log, as journaled; `body` is its JSON with the seq in it."""

    seq: int
    event: Event
    body: bytes


@dataclass(frozen=True, slots=True)
class HermesFrame:
    """A frame in hermes' words; seq 0 is an ephemeral one."""

    seq: int
    event: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LiveLine:
    """What a run waits for now; it is on no log."""

    run_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Away:
    """The stream broke off, and is looked for again."""

    why: str
    tries: int


@dataclass(frozen=True, slots=True)
class Back:
    """The stream continues from its cursor."""


Heard: TypeAlias = Seen | LiveLine | Away | Back
