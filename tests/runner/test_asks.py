"""Which answers to an approval or a question count, and what each appends."""

from typing import Any, get_args

import pytest
from msgspec.structs import replace

from holdfast import events as e
from holdfast.folds.run import AskStatus
from holdfast.runner.asks import (
    AnswerNotOffered,
    ApprovalVerdict,
    AskAnswer,
    QuestionAnswer,
    Stale,
    UnknownAsk,
    answer_events,
)
from holdfast.values import Action, Choice, GrantOffer, GrantRule, PlanStep, Width

EXACT, SIMILAR = (
    GrantRule(tool="shell", argv=("git", "commit", "-m", "x")),
    GrantRule(tool="shell", argv=("git", "commit"), width="similar"),
)
ASKED = e.ApprovalAsked(
    at_ms=1,
    run_id="r",
    approval_id="apr_1",
    tool_call_id="t",
    action=Action(tool="shell", summary="git commit -m x"),
    offers=(GrantOffer(rule=EXACT, covers="", asks=""), GrantOffer(rule=SIMILAR, covers="", asks="")),
)
QUESTION = e.QuestionAsked(at_ms=1, run_id="r", question_id="que_1", tool_call_id="t", text="Which?")
STEPS = (PlanStep(text="act"),)


def stored(asked: e.PersonAsked, answer: AskAnswer, **status: Any) -> object:
    """The rule that the answer stores, True if it stores none, or why it isn't taken."""
    result = answer_events(AskStatus(asked, **status), answer, at_ms=2)
    if isinstance(result, Stale | AnswerNotOffered | UnknownAsk):
        return result
    grants = [one.rule for one in result if isinstance(one, e.GrantAdded)]
    return grants[0] if grants else True


@pytest.mark.parametrize("width", get_args(Width))
@pytest.mark.parametrize("choice", get_args(Choice))
@pytest.mark.parametrize("offered", [0, 1, 2])
def test_only_a_lasting_choice_stores_a_rule_and_only_one_that_was_shown(
    choice: Choice, width: Width, offered: int
) -> None:
    """P8: a lasting choice without a rule to store is refused; it never counts as "once"."""
    asked = replace(ASKED, offers=ASKED.offers[:offered])
    is_lasting = choice in {"session", "always"}
    shown = (
        {"exact": EXACT, "similar": SIMILAR}[width] if offered >= (2 if width == "similar" else 1) else None
    )
    expected: object = shown if is_lasting else True
    if (is_lasting and shown is None) or (not is_lasting and width == "similar"):
        expected = AnswerNotOffered(asked, "width" if width == "similar" else "choice")
    assert stored(asked, ApprovalVerdict(choice, width=width)) == expected


def test_an_answer_of_the_wrong_kind_or_to_a_closed_ask_stores_nothing() -> None:
    """P8."""
    once, blue = ApprovalVerdict("once"), QuestionAnswer("blue")
    assert (stored(ASKED, once), stored(QUESTION, blue)) == (True, True)
    assert (stored(ASKED, blue), stored(QUESTION, once)) == (UnknownAsk("apr_1"), UnknownAsk("que_1"))
    assert stored(ASKED, once, state="expired") == Stale("apr_1")
    assert stored(QUESTION, blue, state="answered") == Stale("que_1")
    plain = replace(ASKED, choices=("once", "deny"))
    assert stored(plain, ApprovalVerdict("session")) == AnswerNotOffered(plain, "choice")
    assert stored(ASKED, ApprovalVerdict("once", steps=STEPS)) == AnswerNotOffered(ASKED, "steps")
    plan = replace(ASKED, action=Action(tool="update_plan", summary="[ ] act"))
    assert stored(plan, ApprovalVerdict("once", steps=STEPS)) is True
