"""Events about sub-agents: start and end in the parent's log, delivery of the result in their own."""

from typing import TypeAlias

from holdfast.events.asks import (
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalExpired,
    ApprovalWithdrawn,
    QuestionAnswered,
    QuestionAsked,
    QuestionExpired,
    QuestionWithdrawn,
)
from holdfast.events.bases import Input, RunEvent
from holdfast.values import ChildUsage, OutcomeKind, RunSettings


class ChildStarted(RunEvent, frozen=True, kw_only=True, tag="child.started"):
    """A sub-agent is about to be created with these ids. `settings.budget` is reserved for it.

    With `outlives`, stopping the parent doesn't stop it.
    """

    child_id: str  # its session
    child_run_id: str
    message_id: str
    tool_call_id: str
    name: str
    settings: RunSettings = RunSettings()
    background: bool = False
    outlives: bool = False


class ChildEnded(Input, frozen=True, kw_only=True, tag="child.ended"):
    """A sub-agent of this run ended. Its reservation is released, and this is its usage.

    `result` is the answer of one that the run waited for, and `blob` the full text if that was shortened. The
    answer of a background sub-agent is the message in the same append.
    """

    run_id: str
    child_id: str
    outcome: OutcomeKind
    cause: str = ""
    result: str = ""
    blob: str = ""
    used: ChildUsage = ChildUsage()


class ChildAsked(Input, frozen=True, kw_only=True, tag="child.asked"):
    """A sub-agent of this run, at any level, has a pending request.

    `ask` is a copy from the sub-agent's log. It's answered there, under its id.
    """

    run_id: str
    child_id: str
    ask: ApprovalAsked | QuestionAsked


PersonAskSettled: TypeAlias = (
    ApprovalAnswered
    | ApprovalExpired
    | ApprovalWithdrawn
    | QuestionAnswered
    | QuestionExpired
    | QuestionWithdrawn
)


class ChildAskSettled(Input, frozen=True, kw_only=True, tag="child.ask_settled"):
    """A sub-agent's request was resolved. `settled` is a copy from the sub-agent's log."""

    run_id: str
    child_id: str
    settled: PersonAskSettled


class ParentTold(Input, frozen=True, kw_only=True, tag="parent.told"):
    """The parent's log has this sub-agent's result, or the parent was deleted."""

    gone: bool = False
