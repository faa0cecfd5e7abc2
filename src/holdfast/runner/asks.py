"""Decides whether an answer to an approval or a question counts, and what it appends to the log.

Every interface translates its input into one of these answers and calls `Inbox.answer`. None of them decides.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from holdfast import events as e
from holdfast.events import Input
from holdfast.folds.run import AskStatus
from holdfast.interfaces.ids import grant_of_approval
from holdfast.policy.tool_names import UPDATE_PLAN
from holdfast.values import MODES, Action, ApprovalMode, Choice, GrantRule, PlanStep, Width


class ApprovalVerdict(Struct, frozen=True):
    """A person's answer to an approval; `by` is the key, chat user or program that gave it."""

    choice: Choice
    by: str = ""
    reason: str = ""
    width: Width = "exact"
    steps: tuple[PlanStep, ...] = ()  # of a plan that the person changed
    mode_max: ApprovalMode = MODES[0]  # the loosest mode that accepting a plan can set


class QuestionAnswer(Struct, frozen=True):
    """A person's answer to a question; a `reason` says why there's none."""

    text: str
    by: str = ""
    reason: str = ""
    client_id: str = ""


AskAnswer: TypeAlias = ApprovalVerdict | QuestionAnswer
# The answer of a client that shows a form, if the person closes it.
QUESTION_CLOSED = "(The person closed the question without an answer.)"


class Answered(Struct, frozen=True):
    """The answer is on disk, with the grant that it stored."""

    ask_id: str
    grant: GrantRule | None = None


class Stale(Struct, frozen=True):
    """Nothing was stored: the ask was answered before, expired or was withdrawn."""

    ask_id: str


class AnswerNotOffered(Struct, frozen=True):
    """Nothing was stored: the approval doesn't offer this choice, this width, or changes to its steps."""

    asked: e.ApprovalAsked
    part: Literal["choice", "width", "steps"]


class UnknownAsk(Struct, frozen=True):
    """Nothing was stored: no ask of this kind has this id."""

    ask_id: str


AnswerRefused: TypeAlias = AnswerNotOffered | UnknownAsk
AnswerResult: TypeAlias = Answered | Stale | AnswerRefused


def _without_reason(action: Action) -> Action:
    """The action alone; its digest covers the agent's reason, which may be worded differently."""
    return replace(action, reason="", digest="")


def shown_rule(asked: e.ApprovalAsked, width: Width) -> GrantRule | None:
    """The rule of this width that people were shown with the approval; None if it isn't offered."""
    return next((offer.rule for offer in asked.offers if offer.rule.width == width), None)


def answer_by_rule(asked: e.ApprovalAsked, granted: e.GrantAdded, action: Action) -> ApprovalVerdict | None:
    """The answer that a rule gives to an open approval; None unless it offers the rule for the same action.

    `action` is the one whose approval stored the rule. A rule can cover more than the person saw, such as a
    tool with any arguments.
    """
    if granted.scope not in asked.choices or shown_rule(asked, granted.rule.width) != granted.rule:
        return None
    if _without_reason(asked.action) != _without_reason(action):
        return None
    from holdfast.policy.grants import describe  # no run needs it before

    return ApprovalVerdict("once", by=f"rule {granted.grant_id}", reason=describe(granted.rule))


def answer_events(
    ask: AskStatus, answer: AskAnswer, *, at_ms: int
) -> Sequence[Input] | Stale | AnswerNotOffered | UnknownAsk:
    """The events that store the answer, or why there are none."""
    asked = ask.asked
    if isinstance(asked, e.ApprovalAsked) and isinstance(answer, ApprovalVerdict):
        return _approval_events(asked, answer, at_ms=at_ms) if ask.state == "open" else Stale(asked.ask_id)
    if isinstance(asked, e.QuestionAsked) and isinstance(answer, QuestionAnswer):
        return [_question_event(asked, answer, at_ms=at_ms)] if ask.state == "open" else Stale(asked.ask_id)
    return UnknownAsk(asked.ask_id)


def _approval_events(
    asked: e.ApprovalAsked, verdict: ApprovalVerdict, *, at_ms: int
) -> Sequence[Input] | AnswerNotOffered:
    if verdict.choice not in asked.choices:
        return AnswerNotOffered(asked, "choice")
    if verdict.steps and asked.action.tool != UPDATE_PLAN:
        return AnswerNotOffered(asked, "steps")
    answered = e.ApprovalAnswered(
        at_ms=at_ms,
        run_id=asked.run_id,
        approval_id=asked.approval_id,
        choice=verdict.choice,
        by=verdict.by,
        reason=verdict.reason,
        width=verdict.width,
        steps=verdict.steps,
    )
    if verdict.choice != "session" and verdict.choice != "always":  # noqa: PLR1714  # type checkers follow it
        return [answered] if verdict.width == "exact" else AnswerNotOffered(asked, "width")
    rule = shown_rule(asked, verdict.width)
    if rule is None:
        return AnswerNotOffered(asked, "choice" if verdict.width == "exact" else "width")
    granted = e.GrantAdded(
        at_ms=at_ms,
        grant_id=grant_of_approval(asked.approval_id),
        rule=rule,
        scope=verdict.choice,
        approval_id=asked.approval_id,
        by=verdict.by,
    )
    return [answered, granted]


def _question_event(asked: e.QuestionAsked, answer: QuestionAnswer, *, at_ms: int) -> e.QuestionAnswered:
    return e.QuestionAnswered(
        at_ms=at_ms,
        run_id=asked.run_id,
        question_id=asked.question_id,
        answer=answer.text,
        by=answer.by,
        reason=answer.reason,
        client_id=answer.client_id,
    )
