"""What happens to sub-agents: in their parent's log how they start and end, in their own who was told."""

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
    """A sub-agent is about to be created under these ids; `settings.budget` is reserved for it from here on.

    `outlives` says that a stop of the parent doesn't stop it.
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
    """A sub-agent of this run ended: what it reserved is free again, and this is what it used.

    `result` is the answer of one that the run waited for, and `blob` the whole where that was cut. The answer
    of one in the background is the message in the same append.
    """

    run_id: str
    child_id: str
    outcome: OutcomeKind
    cause: str = ""
    result: str = ""
    blob: str = ""
    used: ChildUsage = ChildUsage()


class ChildAsked(Input, frozen=True, kw_only=True, tag="child.asked"):
    """A sub-agent of this run, or one of its own sub-agents, asks a person.

    `ask` is as in the log of the one who asks. It is answered there, under its id.
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
    """What a sub-agent asked needs no answer any more; `settled` is as in the log of the one who asked."""

    run_id: str
    child_id: str
    settled: PersonAskSettled


class ParentTold(Input, frozen=True, kw_only=True, tag="parent.told"):
    """The parent's log has this sub-agent's ending, or the parent is gone."""

    gone: bool = False
