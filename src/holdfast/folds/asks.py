"""An ask waits for somebody outside: a person who approves or answers, or a client that runs its own tools.

Here is how an ask is settled, and which events close it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from msgspec import Struct

from holdfast import events as e
from holdfast.values import AskState, Width

AskKind: TypeAlias = Literal["approval", "question", "client_tools"]

SETTLED_STATES: Mapping[type[e.Event], AskState] = MappingProxyType(
    {
        e.ApprovalAnswered: "answered",
        e.ApprovalExpired: "expired",
        e.ApprovalWithdrawn: "withdrawn",
        e.QuestionAnswered: "answered",
        e.QuestionExpired: "expired",
        e.QuestionWithdrawn: "withdrawn",
        e.ClientToolsAnswered: "answered",
        e.ClientToolsExpired: "expired",
        e.ClientToolsWithdrawn: "withdrawn",
    }
)


class Settlement(Struct, frozen=True):
    """How an ask was settled."""

    state: AskState
    answer: str = ""
    by: str = ""
    reason: str = ""
    width: Width = "exact"  # of the rule that "session" and "always" store


def ask_kind(event: e.AskAsked | e.AskSettled) -> AskKind:
    """The kind of ask that the event is about."""
    match event:
        case e.ApprovalAsked() | e.ApprovalAnswered() | e.ApprovalExpired() | e.ApprovalWithdrawn():
            return "approval"
        case e.QuestionAsked() | e.QuestionAnswered() | e.QuestionExpired() | e.QuestionWithdrawn():
            return "question"
        case _:
            return "client_tools"


def ask_event(event: e.Event) -> e.Event:
    """The event itself; of one that passes on what a sub-agent asks, the event that it passes on."""
    match event:
        case e.ChildAsked():
            return event.ask
        case e.ChildAskSettled():
            return event.settled
        case _:
            return event


def calls_of(asked: e.AskAsked) -> tuple[str, ...]:
    """The tool calls that the ask is about."""
    return asked.tool_call_ids if isinstance(asked, e.ClientToolsAsked) else (asked.tool_call_id,)


def settlement(event: e.AskSettled) -> Settlement:
    """How the event settles its ask."""
    match event:
        case e.ApprovalAnswered():
            return Settlement("answered", event.choice, event.by, event.reason, event.width)
        case e.QuestionAnswered():
            return Settlement("answered", event.answer, event.by, event.reason)
        case e.ClientToolsAnswered():
            return Settlement("answered", by=event.by)
        case e.ApprovalExpired() | e.QuestionExpired() | e.ClientToolsExpired():
            return Settlement("expired")
        case _:
            return Settlement("withdrawn", reason=event.cause)


def expired(asked: e.AskAsked, at_ms: int) -> e.ApprovalExpired | e.QuestionExpired | e.ClientToolsExpired:
    """Return the event for an expired request."""
    match asked:
        case e.ApprovalAsked():
            return e.ApprovalExpired(at_ms=at_ms, run_id=asked.run_id, approval_id=asked.approval_id)
        case e.QuestionAsked():
            return e.QuestionExpired(at_ms=at_ms, run_id=asked.run_id, question_id=asked.question_id)
        case _:
            return e.ClientToolsExpired(
                at_ms=at_ms, run_id=asked.run_id, client_tools_id=asked.client_tools_id
            )


def withdrawn(
    asked: e.AskAsked, at_ms: int, *, cause: str
) -> e.ApprovalWithdrawn | e.QuestionWithdrawn | e.ClientToolsWithdrawn:
    """The event that withdraws the ask."""
    run_id = asked.run_id
    match asked:
        case e.ApprovalAsked():
            return e.ApprovalWithdrawn(at_ms=at_ms, run_id=run_id, approval_id=asked.approval_id, cause=cause)
        case e.QuestionAsked():
            return e.QuestionWithdrawn(at_ms=at_ms, run_id=run_id, question_id=asked.question_id, cause=cause)
        case _:
            return e.ClientToolsWithdrawn(
                at_ms=at_ms, run_id=run_id, client_tools_id=asked.client_tools_id, cause=cause
            )
