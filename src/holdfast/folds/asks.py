"""Approvals and questions are both asks: how an ask is settled, and the events that close it."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from holdfast import events as e
from holdfast.values import AskState

AskKind: TypeAlias = Literal["approval", "question"]

SETTLED_STATES: Mapping[type[e.Event], AskState] = MappingProxyType(
    {
        e.ApprovalAnswered: "answered",
        e.ApprovalExpired: "expired",
        e.ApprovalWithdrawn: "withdrawn",
        e.QuestionAnswered: "answered",
        e.QuestionExpired: "expired",
        e.QuestionWithdrawn: "withdrawn",
    }
)


@dataclass(frozen=True, slots=True)
class Settlement:
    """How an ask was settled."""

    state: AskState
    answer: str = ""
    by: str = ""
    reason: str = ""


def kind_of(event: e.AskAsked | e.AskSettled) -> AskKind:
    """The kind of ask that the event is about."""
    approvals = e.ApprovalAsked | e.ApprovalAnswered | e.ApprovalExpired | e.ApprovalWithdrawn
    return "approval" if isinstance(event, approvals) else "question"


def settlement(event: e.AskSettled) -> Settlement:
    """How the event settles its ask."""
    match event:
        case e.ApprovalAnswered():
            return Settlement("answered", event.choice, event.by, event.reason)
        case e.QuestionAnswered():
            return Settlement("answered", event.answer, event.by)
        case e.ApprovalExpired() | e.QuestionExpired():
            return Settlement("expired")
        case _:
            return Settlement("withdrawn", reason=event.cause)


def expired(asked: e.AskAsked, at_ms: int) -> e.ApprovalExpired | e.QuestionExpired:
    """The event for an ask that nobody answered in time."""
    if isinstance(asked, e.ApprovalAsked):
        return e.ApprovalExpired(at_ms=at_ms, run_id=asked.run_id, approval_id=asked.approval_id)
    return e.QuestionExpired(at_ms=at_ms, run_id=asked.run_id, question_id=asked.question_id)


def withdrawn(asked: e.AskAsked, at_ms: int, *, cause: str) -> e.ApprovalWithdrawn | e.QuestionWithdrawn:
    """The event that withdraws the ask."""
    if isinstance(asked, e.ApprovalAsked):
        return e.ApprovalWithdrawn(
            at_ms=at_ms, run_id=asked.run_id, approval_id=asked.approval_id, cause=cause
        )
    return e.QuestionWithdrawn(at_ms=at_ms, run_id=asked.run_id, question_id=asked.question_id, cause=cause)
