"""Sub-agents in the folds: the session that owes its parent an ending, its row, and the lines about it."""

from holdfast import events as e
from holdfast.folds import transcript
from holdfast.folds.child_lines import LINE_CHARS_MAX, last_line, progress_line, tail_of
from holdfast.folds.rows import SessionRow, apply_to_session, blobs_of, home_after
from holdfast.folds.session import fold
from holdfast.values import Action, ParentLink

PARENT = ParentLink(session_id="p", run_id="r0", tool_call_id="t0", name="agent-1", home="node:a")
BEGUN: tuple[e.Event, ...] = (
    e.SessionCreated(at_ms=1, epoch="e", source="child", parent=PARENT),
    e.MessageAccepted(at_ms=1, message_id="m1", text="look\naround"),
    e.RunQueued(at_ms=1, run_id="r1", message_id="m1"),
    e.MessageDispatched(at_ms=1, run_id="r1", message_id="m1"),
    e.RunStarted(at_ms=2, run_id="r1"),
    e.CallStarted(at_ms=2, run_id="r1", call_id="c1", turn=1),
    e.AttemptStarted(at_ms=2, run_id="r1", call_id="c1", attempt_id="a1", target="t"),
    e.ToolAsked(at_ms=2, run_id="r1", tool_call_id="t1", name="shell", args={"command": "ls -l"}),
    e.ToolStarted(at_ms=2, run_id="r1", tool_call_id="t1", effect_key="k"),
    e.ToolOutput(at_ms=2, run_id="r1", tool_call_id="t1", text="total"),
)
DONE: tuple[e.Event, ...] = (
    e.ToolEnded(at_ms=3, run_id="r1", tool_call_id="t1", ok=True, result="total 0"),
    e.TextDone(at_ms=3, run_id="r1", segment=1, text="It is\nempty."),
    e.RunEnded(at_ms=4, run_id="r1", outcome="completed"),
)
TOLD = e.ParentTold(at_ms=5)


def test_a_sub_agent_owes_its_ending_from_its_end_until_the_parent_was_told() -> None:
    """P14: the log says what is still to be told, also after a crash."""
    session = fold(enumerate(BEGUN, start=1))
    assert session.parent == PARENT
    assert session.home == "node:a"
    assert not session.owes_ending
    session = fold(enumerate((*BEGUN, *DONE), start=1))
    assert session.owes_ending
    session = fold(enumerate((*BEGUN, *DONE, TOLD), start=1))
    assert not session.owes_ending


def test_a_session_without_a_parent_owes_nothing() -> None:
    first = e.SessionCreated(at_ms=1, epoch="e")
    session = fold(enumerate((first, *BEGUN[1:], *DONE), start=1))
    assert session.delegated_run is None
    assert not session.owes_ending


def test_the_row_of_a_sub_agent_waits_for_delivery_until_the_parent_was_told() -> None:
    row = SessionRow(session_id="s")
    for event in (*BEGUN, *DONE):
        row = apply_to_session(row, event)
    assert row.steers == "parent"
    assert apply_to_session(row, TOLD).steers == ""
    assert home_after(BEGUN[0]) == "node:a"
    assert home_after(e.SessionCreated(at_ms=1, epoch="e")) is None


def test_a_session_knows_the_sub_agents_of_all_its_runs() -> None:
    started = e.ChildStarted(
        at_ms=3, run_id="r1", child_id="s2", child_run_id="r2", message_id="m2", tool_call_id="t1", name="n"
    )
    session = fold(enumerate((*BEGUN, started), start=1))
    assert list(session.children) == ["s2"]


def test_an_ending_keeps_the_whole_of_a_long_answer() -> None:
    ended = e.ChildEnded(at_ms=3, run_id="r1", child_id="s2", outcome="completed", blob="b")
    assert blobs_of(ended) == ("b",)
    assert blobs_of(e.ChildEnded(at_ms=3, run_id="r1", child_id="s2", outcome="completed")) == ()


def test_progress_is_told_in_single_lines() -> None:
    asked = Action(tool="shell", summary="rm x")
    approval = e.ApprovalAsked(at_ms=3, run_id="r1", approval_id="p", tool_call_id="t1", action=asked)
    question = e.QuestionAsked(at_ms=3, run_id="r1", question_id="q", tool_call_id="t1", text="Which?")
    lines = [progress_line(event) for event in (*BEGUN, approval, question, *DONE)]
    assert [line for line in lines if line] == [
        "shell ls -l",
        "waits for an approval: rm x",
        "asks: Which?",
        "It is",
        "Completed",
    ]
    long = progress_line(e.TextDone(at_ms=3, run_id="r1", segment=1, text="word " * 100))
    assert len(long) == LINE_CHARS_MAX
    assert long.endswith("…")
    assert progress_line(e.TextDone(at_ms=3, run_id="r1", segment=1, text=" \n")) == ""


def test_the_tail_is_the_end_of_what_was_said_and_done() -> None:
    pairs = list(enumerate((*BEGUN, *DONE), start=1))
    whole = ["> look", "> around", "[shell ls -l]", "total 0", "It is", "empty.", "(Completed)"]
    assert tail_of(transcript.fold(pairs), lines=99).splitlines() == whole
    assert tail_of(transcript.fold(pairs), lines=2).splitlines() == whole[-2:]
    working = transcript.fold(enumerate(BEGUN, start=1))
    assert tail_of(working, lines=1) == "total"
    thought = e.ReasoningDone(at_ms=3, run_id="r1", segment=2, text="hm")
    assert tail_of(transcript.fold(enumerate((*BEGUN, thought), start=1)), lines=1) == "total"


def test_the_last_line_is_what_was_said_or_done_last() -> None:
    assert last_line(transcript.fold(enumerate(BEGUN, start=1)).entries) == "shell ls -l"
    assert last_line(transcript.fold(enumerate((*BEGUN, *DONE), start=1)).entries) == "empty."
    assert last_line([]) == ""
