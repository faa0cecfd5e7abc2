"""The conversations in hermes-agent's database: each once and whole, and nothing that no person said."""

import json
from pathlib import Path
from typing import Any

import pytest

from features.hermes_import.home import STARTED_S, make_database
from holdfast.features.hermes_import.sessions import HermesSessions
from holdfast.features.transcripts.conversation import ImportedConversation


def said(role: str, content: str, at: int, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "timestamp": STARTED_S + at, **more}


def taken(home: Path, sessions: dict[str, Any], **about: dict[str, Any]) -> dict[str, ImportedConversation]:
    make_database(home, sessions, about=about)
    return {one.session_id: one for one in HermesSessions(home).read()}


def texts(session: ImportedConversation) -> list[str]:
    return [message.text for message in session.messages]


OLD = {"active": 0, "compacted": 1}
SUMMARY = said("user", "[CONTEXT COMPACTION — REFERENCE ONLY] they greeted", 9, _compressed_summary=1)


def test_a_conversation_that_was_compacted_in_place_is_taken_as_it_was_said(tmp_path: Path) -> None:
    """The originals stand there, the newest are written again behind the summary, and none appears twice."""
    rows = [
        said("user", "hello", 1, **OLD),
        said("assistant", "hi", 2, **OLD),
        said("user", "go on", 3, **OLD),
        said("user", "taken back", 4, active=0),
        SUMMARY,
        said("user", "go on", 3),
        said("assistant", "gladly", 10),
        said("user", "hello and go on", 11, display_metadata=json.dumps({"model_only": True})),
        said("user", "hello", 12),
    ]
    found = taken(tmp_path, {"s": rows})
    assert texts(found["s"]) == ["hello", "hi", "go on", "gladly", "hello"]


def test_a_conversation_that_went_on_in_new_sessions_is_one_under_its_last_id(tmp_path: Path) -> None:
    found = taken(
        tmp_path,
        {
            "first": [said("user", "hello", 1), said("assistant", "hi", 2)],
            "second": [SUMMARY, said("assistant", "hi", 2), said("user", "go on", 10)],
            "third": [{**SUMMARY, "timestamp": STARTED_S + 20}, said("user", "still there?", 21)],
        },
        first={"end_reason": "compression", "title": "Greetings"},
        second={"end_reason": "compression", "parent_session_id": "first", "title": None},
        third={"parent_session_id": "second", "title": None, "started_at": STARTED_S + 20, "pinned": 1},
    )
    assert list(found) == ["third"]
    assert texts(found["third"]) == ["hello", "hi", "go on", "still there?"]
    assert (found["third"].title, found["third"].pinned) == ("Greetings", True)
    assert found["third"].created_ms == round(STARTED_S * 1000)


def test_a_summary_is_kept_where_what_it_sums_up_is_gone(tmp_path: Path) -> None:
    found = taken(tmp_path, {"s": [SUMMARY, said("user", "go on", 10)]}, s={"parent_session_id": "deleted"})
    assert texts(found["s"]) == [SUMMARY["content"], "go on"]


@pytest.mark.parametrize(
    ("parent", "child", "archived"),
    [
        ({"end_reason": "branched"}, {}, False),
        ({"end_reason": "compression"}, {"model_config": '{"_branched_from": "p"}'}, False),
        ({"end_reason": "idle", "session_key": "k"}, {"session_key": "k"}, False),
        ({}, {"model_config": '{"_reset_from": "p"}'}, False),
        ({}, {"hidden": 1, "model_config": '{"_reset_from": "p"}'}, True),
        ({}, {"model_config": '{"_delegate_from": "p"}'}, True),
        ({"session_key": "k"}, {"model_config": "no json"}, True),
    ],
)
def test_a_branch_is_a_conversation_and_a_helpers_work_is_archived(
    tmp_path: Path, parent: dict[str, Any], child: dict[str, Any], *, archived: bool
) -> None:
    rows = {"p": [said("user", "hello", 1)], "c": [said("user", "look around", 2)]}
    found = taken(tmp_path, rows, p=parent, c={"parent_session_id": "p", **child})
    assert (texts(found["p"]), texts(found["c"])) == (["hello"], ["look around"])
    assert (found["p"].archived, found["c"].archived) == (False, archived)


def test_questions_that_hermes_asked_itself_are_left_out_with_their_answers(tmp_path: Path) -> None:
    own = "Review the conversation above and update the skill library. Be brief."
    rows = [
        said("user", "hello", 1),
        said("assistant", "hi", 2),
        said("user", own, 3),
        said("assistant", "Nothing to save.", 4),
        said("user", "bye", 5),
        said("assistant", "see you", 6),
    ]
    assert texts(taken(tmp_path, {"s": rows})["s"]) == ["hello", "hi", "bye", "see you"]
