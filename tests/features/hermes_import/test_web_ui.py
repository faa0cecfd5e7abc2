"""The files of hermes-agent's web UI, in the shapes in which it writes them."""

import os
from pathlib import Path
from typing import Any

import pytest

from features.hermes_import.home import STARTED_S, make_database, make_page_session
from holdfast import events as e
from holdfast.features.hermes_import.sessions import HermesSessions
from holdfast.features.transcripts.conversation import ImportedConversation
from holdfast.features.transcripts.log import written


def said(role: str, content: str, at: int, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "timestamp": STARTED_S + at, **more}


QUESTION, ANSWER = said("user", "Plan the trip.", 0), said("assistant", "Go by train.", 1)
LATER = [said("user", "And back?", 20), said("assistant", "By boat.", 21)]
SUMMARY = said("assistant", "[CONTEXT COMPACTION] They planned a trip.", 10)


def the_one(home: Path) -> ImportedConversation:
    sessions = HermesSessions(home)
    (session,) = sessions.read()
    assert sessions.problems == []
    return session


def texts(session: ImportedConversation) -> list[str]:
    return [message.text for message in session.messages]


def log(session: ImportedConversation) -> list[e.Event]:
    return written(session).events


def endings(session: ImportedConversation) -> list[tuple[str, str]]:
    return [(event.outcome, event.cause) for event in log(session) if isinstance(event, e.RunEnded)]


@pytest.mark.parametrize(
    "repeated",
    [
        pytest.param([SUMMARY], id="a summary stands for it"),
        pytest.param([SUMMARY, ANSWER], id="its end is repeated"),
        pytest.param([QUESTION, ANSWER], id="all of it is repeated"),
    ],
)
def test_a_conversation_that_went_on_after_a_compaction_is_whole_and_one(
    tmp_path: Path, repeated: list[dict[str, Any]]
) -> None:
    """P7: what was put aside is found again, and nothing is there twice."""
    make_page_session(tmp_path, "one", messages=[QUESTION, ANSWER], pre_compression_snapshot=True)
    make_page_session(
        tmp_path, "two", messages=[*repeated, *LATER], parent_session_id="one", created_at=STARTED_S + 10
    )
    session = the_one(tmp_path)
    assert session.session_id == "two"
    assert texts(session) == ["Plan the trip.", "Go by train.", "And back?", "By boat."]
    assert session.created_ms == int(STARTED_S * 1000)


def test_what_was_put_aside_and_goes_on_nowhere_is_a_conversation_of_its_own(tmp_path: Path) -> None:
    make_page_session(tmp_path, "one", messages=[QUESTION, ANSWER], pre_compression_snapshot=True)
    assert texts(the_one(tmp_path)) == ["Plan the trip.", "Go by train."]


def test_what_was_put_aside_is_not_taken_again_if_the_database_has_what_went_on(tmp_path: Path) -> None:
    make_page_session(tmp_path, "one", messages=[QUESTION, ANSWER], pre_compression_snapshot=True)
    rows = {"one": [QUESTION, ANSWER], "two": LATER}
    about = {"one": {"end_reason": "compression"}, "two": {"parent_session_id": "one"}}
    make_database(tmp_path, rows, about=about)
    session = the_one(tmp_path)
    assert (session.session_id, len(session.messages)) == ("two", 4)


def test_a_branch_and_a_chain_that_bites_its_tail_stand_for_themselves(tmp_path: Path) -> None:
    """P12: no shape of these files keeps the import busy for ever."""
    make_page_session(tmp_path, "trunk", messages=[QUESTION, ANSWER])
    make_page_session(tmp_path, "branch", messages=LATER, parent_session_id="trunk")
    make_page_session(tmp_path, "ouroboros", pre_compression_snapshot=True, parent_session_id="ouroboros")
    make_page_session(tmp_path, "stray", messages=LATER, parent_session_id="../../etc/passwd")
    found = {session.session_id: len(session.messages) for session in HermesSessions(tmp_path).read()}
    assert found == {"trunk": 2, "branch": 2, "ouroboros": 2, "stray": 2}


def test_a_message_that_was_sent_and_never_answered_is_kept(tmp_path: Path) -> None:
    """P2: it is not among the messages of the file yet."""
    pending = {"pending_user_message": "Are you there?", "pending_started_at": STARTED_S + 90}
    make_page_session(tmp_path, "one", messages=[QUESTION, ANSWER], **pending)
    session = the_one(tmp_path)
    assert texts(session)[-1] == "Are you there?"
    assert endings(session) == [("completed", ""), ("interrupted", "no answer was kept")]
    asked = {"pending_user_message": "And back?", "pending_started_at": STARTED_S + 20}
    make_page_session(tmp_path, "one", messages=[QUESTION, ANSWER, LATER[0]], **asked)
    assert texts(the_one(tmp_path)) == ["Plan the trip.", "Go by train.", "And back?"]


def test_a_report_of_an_error_is_no_answer_and_half_an_answer_no_whole_one(tmp_path: Path) -> None:
    """P4: nothing that the harness said becomes the model's words."""
    messages = [
        *(QUESTION, said("assistant", "**No response:** the key is empty", 1, _error=True)),
        *(said("user", "Again.", 2), said("assistant", "Go by", 3, _partial=True, reasoning="a train?")),
        *(said("user", "Once more.", 4), said("assistant", "Go", 5, _partial=True)),
        said("assistant", "Go by train.", 6),
    ]
    make_page_session(tmp_path, "one", messages=messages)
    session = the_one(tmp_path)
    assert [event.text for event in log(session) if isinstance(event, e.TextDone)] == [
        "Go by",
        "Go",
        "Go by train.",
    ]
    assert endings(session) == [
        ("failed", "unknown"),
        ("interrupted", "only a part of the answer was kept"),
        ("completed", ""),
    ]
    failed = next(event for event in log(session) if isinstance(event, e.RunEnded))
    assert failed.failure is not None
    assert "the key is empty" in failed.failure.text


def test_tools_that_only_the_page_kept_are_taken_with_the_beginning_of_what_they_said(tmp_path: Path) -> None:
    shown: list[dict[str, Any]] = [
        {
            "name": "terminal",
            "args": {"command": "ls"},
            "snippet": "a.txt",
            "tid": "t1",
            "assistant_msg_idx": 1,
        },
        {"name": "web", "args": {}, "snippet": "", "tid": "", "assistant_msg_idx": 1, "done": False},
        {"name": "", "assistant_msg_idx": 1},
        {"name": "late", "assistant_msg_idx": 7},
    ]
    make_page_session(tmp_path, "one", messages=[QUESTION, ANSWER], tool_calls=shown)
    events = log(the_one(tmp_path))
    assert [event.name for event in events if isinstance(event, e.ToolAsked)] == ["terminal", "web"]
    ended = [(event.ok, event.result) for event in events if isinstance(event, e.ToolEnded)]
    lost = "hermes-agent stored no result of this call, so its outcome is unknown."
    assert ended == [(True, "a.txt"), (False, lost)]
    own = said("assistant", "", 1, tool_calls=[{"id": "c", "function": {"name": "own", "arguments": "{}"}}])
    make_page_session(tmp_path, "one", messages=[QUESTION, own, ANSWER], tool_calls=shown)
    events = log(the_one(tmp_path))
    assert [event.name for event in events if isinstance(event, e.ToolAsked)] == ["own"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("[Workspace::v1: /home/u/a\\]b]\nHello", "Hello"),
        ("[Workspace: /home/u]\nHello", "Hello"),
        ("[Workspace: the one in Berlin] is cold", "[Workspace: the one in Berlin] is cold"),
    ],
)
def test_what_the_page_wrote_in_front_of_a_message_was_said_by_nobody(
    tmp_path: Path, content: str, text: str
) -> None:
    make_page_session(tmp_path, "one", messages=[said("user", content, 0), ANSWER])
    assert texts(the_one(tmp_path))[0] == text


def test_files_that_were_attached_are_counted_as_not_taken(tmp_path: Path) -> None:
    attached = [{"name": "a.pdf", "path": "/nowhere/a.pdf", "mime": "application/pdf"}]
    make_page_session(tmp_path, "one", messages=[QUESTION | {"attachments": attached}, ANSWER])
    assert written(the_one(tmp_path)).lost == 1


def test_the_page_may_keep_its_files_elsewhere(tmp_path: Path) -> None:
    make_page_session(tmp_path / "other", "one", messages=[QUESTION, ANSWER])
    elsewhere = tmp_path / "other" / "webui"
    (session,) = HermesSessions(tmp_path / "home", page=elsewhere).read()
    assert session.session_id == "one"


def test_a_file_that_is_none_keeps_nobody_waiting(tmp_path: Path) -> None:
    """P3: a FIFO that nobody writes to, a device that never ends."""
    make_page_session(tmp_path, "one", messages=[QUESTION, ANSWER])
    folder = next(tmp_path.rglob("one.json")).parent
    os.mkfifo(folder / "two.json")
    (folder / "three.json").symlink_to("/dev/zero")
    (folder / "four.json").mkdir()
    sessions = HermesSessions(tmp_path)
    (session,) = sessions.read()
    assert session.session_id == "one"
    assert sorted(problem.rpartition("/")[2] for problem in sessions.problems) == [
        "four.json: can't read the file: it is not a regular file",
        "three.json: can't read the file: it links to something outside the imported folder",
        "two.json: can't read the file: it is not a regular file",
    ]
