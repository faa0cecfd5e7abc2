"""Answers, output that comes after the ending, and the marks of interrupted runs."""

from copy import deepcopy

import msgspec
import pytest

from holdfast import events as e
from holdfast.codec import UnreadableEvent
from holdfast.folds.entries import Notice
from holdfast.folds.transcript import (
    LOST,
    RECOVERED,
    RECOVERING,
    apply,
    fold,
    interruption_text,
    output,
    resumption_text,
    text_while_recovering,
)
from holdfast.values import OutcomeKind
from scene import begun, lines, told

DAY_MS = 24 * 60 * 60 * 1000


def late(text: str) -> tuple[type[e.Event], dict[str, object]]:
    return e.TextDelta, {"segment": 1, "text": text}


def test_recovered_output_stands_above_the_ending_and_two_halves_show_both() -> None:
    scene = begun()
    scene.pieces("first, ", segment=1)
    scene.ends("interrupted", cause="crash_loop")
    scene.send("next", run_id="r2")
    scene.run_id = "r1"
    scene.recovered(
        late("second, "),
        (e.ToolAsked, {"tool_call_id": "t1", "name": "shell"}),
        (e.ToolStarted, {"tool_call_id": "t1", "effect_key": "k"}),
        (e.QuestionAsked, {"question_id": "q1", "tool_call_id": "t1", "text": "?"}),
    )
    scene.recovered(
        (e.ToolEnded, {"tool_call_id": "t1", "ok": True, "result": "done"}),
        (e.AttemptStarted, {"call_id": "c9", "attempt_id": "a9", "target": "alpha"}),
        late("third"),
        (e.RunEnded, {"outcome": "completed"}),
        (e.MessageDispatched, {"message_id": "m2"}),
    )
    transcript = fold(scene.log)
    assert lines(transcript) == [
        *("> hi", "first, second, ", "[t1 ended done]", "? q1 withdrawn", "third", "= interrupted", "> next"),
    ]
    assert output(transcript, "r1") == "third"
    assert interruption_text(transcript, "r1", now_ms=scene.ms, owner_gone=True) == RECOVERED


def test_recovered_output_may_supersede_what_was_shown() -> None:
    scene = begun()
    scene.pieces("half")
    scene.ends("interrupted")
    scene.recovered((e.AttemptSuperseded, {"attempt_id": "a1"}), late("whole"))
    assert told(scene) == ["> hi", "whole", "= interrupted"]


def test_recovered_output_of_a_rewound_run_stays_out_of_the_session() -> None:
    scene = begun()
    scene.ends("interrupted")
    scene.put(e.SessionRewound, to_seq=0)
    scene.send("anew", run_id="r2")
    scene.run_id = "r1"
    scene.recovered(late("late"))
    transcript = fold(scene.log)
    assert lines(transcript) == ["> anew"]
    assert output(transcript, "r1") == "late"
    scene.put(e.OutputRecovered, run_id="r2", events=())
    scene.put(e.OutputRecovered, run_id="r9", events=())
    assert told(scene) == ["> anew"]


def test_a_recovered_record_that_cannot_be_read_is_named_and_changes_nothing() -> None:
    scene = begun()
    scene.ends("interrupted")
    transcript = fold(scene.log)
    before = deepcopy(transcript)
    body = msgspec.Raw(b'{"type":"text.delta/9"}')
    torn = e.OutputRecovered(at_ms=1, run_id="r1", events=(body,))
    with pytest.raises(
        UnreadableEvent,
        match=r"output.recovered at seq 99, event 1: this Holdfast can't read version 9 of text.delta",
    ):
        apply(transcript, 99, torn)
    assert transcript == before


def test_the_answer_is_the_text_after_the_last_tool_or_the_last_before_it() -> None:
    scene = begun()
    assert output(fold(scene.log), "r1") == ""
    scene.text("I look. ")
    scene.pieces("", segment=1)
    scene.text("And again.", segment=2)
    assert output(fold(scene.log), "r1") == "I look. And again."
    scene.tool("t1", "x")
    scene.tool("t2", "y")
    assert output(fold(scene.log), "r1") == "And again."
    scene.call()
    scene.text("Done.")
    assert output(fold(scene.log), "r1") == "Done."


def test_marks_are_computed_when_they_are_read() -> None:
    scene = begun()
    open_run = fold(scene.log)
    assert interruption_text(open_run, "r1", now_ms=scene.ms, owner_gone=False) is None
    assert interruption_text(open_run, "r1", now_ms=scene.ms + DAY_MS - 1, owner_gone=True) == RECOVERING
    assert interruption_text(open_run, "r1", now_ms=scene.ms + DAY_MS, owner_gone=True) == LOST
    scene.pieces("half")
    assert (
        interruption_text(fold(scene.log), "r1", now_ms=scene.ms + 2 * DAY_MS, owner_gone=True) == RECOVERED
    )


@pytest.mark.parametrize("outcome", ["completed", "cancelled", "failed"])
def test_only_an_interrupted_ending_is_marked(outcome: OutcomeKind) -> None:
    scene = begun()
    scene.pieces("half")
    scene.ends(outcome)
    assert interruption_text(fold(scene.log), "r1", now_ms=scene.ms, owner_gone=True) is None


def test_an_empty_interrupted_run_is_marked_at_once_and_a_finished_tool_is_output() -> None:
    scene = begun()
    scene.asks_tool("t1")
    scene.starts_tool("t1")
    scene.ends("interrupted")
    assert interruption_text(fold(scene.log), "r1", now_ms=scene.ms, owner_gone=True) == LOST
    scene.recovered((e.ToolEnded, {"tool_call_id": "t1", "ok": True, "result": "done"}))
    assert interruption_text(fold(scene.log), "r1", now_ms=scene.ms, owner_gone=False) == RECOVERED


def test_while_not_all_is_read_yet_nothing_is_said_to_be_recovered() -> None:
    assert [text_while_recovering(said) for said in (RECOVERED, RECOVERING, LOST)] == [
        RECOVERING,
        RECOVERING,
        LOST,
    ]


@pytest.mark.parametrize("said", ["", "half an answer"])
def test_where_a_run_was_resumed_people_read_whether_something_was_kept(said: str) -> None:
    scene = begun()
    if said:
        scene.pieces(said)
    scene.of_run(e.RunResumed, after="crash")
    transcript = fold(scene.log)
    resumed = next(entry for entry in transcript.entries if isinstance(entry, Notice))
    assert resumption_text(transcript, resumed) == (RECOVERED if said else None)
