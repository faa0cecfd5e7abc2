"""Where a run's seconds went, when several things go on at once."""

from holdfast import events as e
from holdfast.folds.timeline import rendered, timeline
from holdfast.values import Action

RUN = "run_1"


def _asked(at_ms: int, tool_call_id: str) -> e.ApprovalAsked:
    return e.ApprovalAsked(
        at_ms=at_ms,
        run_id=RUN,
        approval_id=f"apr_{tool_call_id}",
        tool_call_id=tool_call_id,
        action=Action(tool="shell", summary="make"),
        choices=("once", "deny"),
    )


def _answered(at_ms: int, tool_call_id: str) -> e.ApprovalAnswered:
    return e.ApprovalAnswered(at_ms=at_ms, run_id=RUN, approval_id=f"apr_{tool_call_id}", choice="once")


def _started(at_ms: int, tool_call_id: str) -> e.ToolStarted:
    return e.ToolStarted(at_ms=at_ms, run_id=RUN, tool_call_id=tool_call_id, effect_key="key")


def _ended(at_ms: int, tool_call_id: str) -> e.ToolEnded:
    return e.ToolEnded(at_ms=at_ms, run_id=RUN, tool_call_id=tool_call_id, ok=True, result="")


def _spent(*events: e.Event) -> dict[str, int]:
    found = timeline(list(enumerate(events, 1))).spent_ms
    return {kind: ms for kind, ms in found.items() if ms}


def test_a_person_is_waited_for_however_much_is_done_meanwhile() -> None:
    assert _spent(
        _asked(0, "a"), _started(10, "b"), _ended(30, "b"), _answered(1030, "a"), _started(1031, "a")
    ) == {"people": 1010, "tools": 20, "between": 1}


def test_a_tool_beside_another_runs_on_when_that_one_ends() -> None:
    assert _spent(_started(0, "a"), _started(5, "b"), _ended(10, "b"), _ended(100, "a")) == {"tools": 100}


def test_a_tool_that_asks_a_question_is_time_of_the_person() -> None:
    question = e.QuestionAsked(at_ms=10, run_id=RUN, question_id="q", tool_call_id="a", text="Which?")
    answer = e.QuestionAnswered(at_ms=510, run_id=RUN, question_id="q", answer="this")
    assert _spent(_started(0, "a"), question, answer, _ended(512, "a")) == {"tools": 12, "people": 500}


def test_a_paused_queue_is_time_of_the_person_who_can_resume_it() -> None:
    queued = e.RunQueued(at_ms=0, run_id=RUN, message_id="m")
    paused, resumed = e.QueuePaused(at_ms=5), e.QueueResumed(at_ms=705)
    started = e.RunStarted(at_ms=715, run_id=RUN)
    assert _spent(queued, paused, resumed, started) == {"queued": 15, "people": 700}


def test_what_a_crash_interrupted_runs_no_longer() -> None:
    resumed = e.RunResumed(at_ms=900, run_id=RUN, after="crash")
    call = e.CallStarted(at_ms=950, run_id=RUN, call_id="c", turn=1)
    assert _spent(_started(0, "a"), resumed, call) == {"away": 900, "between": 50}


def test_pieces_of_an_answer_are_one_line_that_says_how_many_there_were() -> None:
    """P9."""
    deltas = [e.TextDelta(at_ms=nth, run_id="r", segment=1, text="ab") for nth in (1, 2, 3)]
    line = rendered(timeline(enumerate(deltas, 1)))[0]
    assert line.endswith("text.delta          (in 3 pieces) ababab")
