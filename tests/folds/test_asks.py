"""Approvals and questions are one thing: each event of one has its twin, and both are read alike."""

import pytest

from holdfast import events as e
from holdfast.folds.asks import Settlement, ask_event, ask_kind, calls_of, expired, settlement, withdrawn
from holdfast.folds.rows import ask_of
from holdfast.values import Action

APPROVAL = e.ApprovalAsked(
    at_ms=1, run_id="r", approval_id="a", tool_call_id="t", action=Action(tool="shell", summary="ls")
)
QUESTION = e.QuestionAsked(at_ms=1, run_id="r", question_id="q", tool_call_id="t", text="Which?")

CALLS = e.ClientToolsAsked(at_ms=1, run_id="r", client_tools_id="c", tool_call_ids=("t",))


@pytest.mark.parametrize(
    ("asked", "kind", "ask_id"),
    [(APPROVAL, "approval", "a"), (QUESTION, "question", "q"), (CALLS, "client_tools", "c")],
)
def test_what_closes_an_ask_is_of_its_kind_and_about_it(asked: e.AskAsked, kind: str, ask_id: str) -> None:
    late, back = expired(asked, 2), withdrawn(asked, 3, cause="stop")
    assert {ask_kind(asked), ask_kind(late), ask_kind(back)} == {kind}
    assert {asked.ask_id, late.ask_id, back.ask_id, ask_of(back)} == {ask_id}
    assert (late.at_ms, late.run_id, back.run_id) == (2, "r", "r")
    assert settlement(late) == Settlement("expired")
    assert settlement(back) == Settlement("withdrawn", reason="stop")
    assert calls_of(asked) == ("t",)


def test_an_answer_says_who_gave_it() -> None:
    decided = e.ApprovalAnswered(
        at_ms=2, run_id="r", approval_id="a", choice="deny", by="ann", reason="too broad"
    )
    said = e.QuestionAnswered(at_ms=2, run_id="r", question_id="q", answer="this one", by="ann")
    assert settlement(decided) == Settlement("answered", "deny", "ann", "too broad")
    assert settlement(said) == Settlement("answered", "this one", "ann")
    assert (decided.ask_id, said.ask_id) == ("a", "q")


def test_a_grant_is_about_no_ask_of_its_own() -> None:
    assert ask_of(e.GrantRemoved(at_ms=1, grant_id="g")) == ""


def test_what_a_sub_agent_asks_is_read_as_if_its_parent_asked() -> None:
    """P8: the answer names the ask by the same id, wherever it is shown."""
    asked = e.QuestionAsked(at_ms=1, run_id="r2", question_id="q", tool_call_id="t", text="?")
    settled = e.QuestionAnswered(at_ms=2, run_id="r2", question_id="q", answer="!")
    assert ask_event(e.ChildAsked(at_ms=1, run_id="r", child_id="c", ask=asked)) is asked
    assert ask_event(e.ChildAskSettled(at_ms=2, run_id="r", child_id="c", settled=settled)) is settled
    assert ask_event(asked) is asked
