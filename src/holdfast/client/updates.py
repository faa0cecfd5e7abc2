"""Items of an event stream."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from holdfast import events as e


class Seen(Struct, frozen=True):
    """An event of the log, as journaled; `body` is its JSON with the seq in it."""

    seq: int
    event: e.Event
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
AskEvent: TypeAlias = e.ApprovalAsked | e.QuestionAsked


def ask_id(asked: AskEvent) -> str:
    """The id by which it is answered."""
    return asked.approval_id if isinstance(asked, e.ApprovalAsked) else asked.question_id


def resolved_id(event: e.Event) -> str:
    """The id of the request that the event resolves; empty if it resolves none."""
    match event:
        case e.ApprovalAnswered() | e.ApprovalExpired() | e.ApprovalWithdrawn():
            return event.approval_id
        case e.QuestionAnswered() | e.QuestionExpired() | e.QuestionWithdrawn():
            return event.question_id
        case _:
            return ""
