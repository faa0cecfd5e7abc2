"""The recorded system text in the fold, and what notes change of it."""

from holdfast import events as e
from holdfast.folds.transcript import Transcript, apply, fold
from holdfast.values import HistoryMessage
from scene import Scene, begun

SET = {"reason": "first", "instructions": "Be brief.", "parts": {"date": "d1", "mode": "m1"}}


def test_a_note_replaces_parts_of_the_recorded_text_for_later_runs() -> None:
    scene = begun()
    assert fold(scene.log).shown_parts("r1") == {}
    scene.of_run(e.ContextNoted, text="an older note", parts={"mode": "m0"})
    scene.of_run(e.ContextSet, **SET)
    assert fold(scene.log).shown_parts("r1") == SET["parts"]
    scene.of_run(e.ContextNoted, text="the date changed", parts={"date": "d2"})
    scene.ends()
    scene.send("more", run_id="r2")
    assert fold(scene.log).shown_parts("r2") == {"date": "d2", "mode": "m1"}


def test_a_run_with_its_own_history_gets_no_notes_of_other_runs() -> None:
    scene = begun()
    scene.of_run(e.ContextSet, **SET)
    scene.of_run(e.ContextNoted, text="the date changed", parts={"date": "d2"})
    scene.ends()
    scene.send("alone", run_id="r2", history=(HistoryMessage(role="user", content="alone"),))
    assert fold(scene.log).shown_parts("r2") == SET["parts"]
    scene.of_run(e.ContextNoted, text="the mode changed", parts={"mode": "m2"})
    assert fold(scene.log).shown_parts("r2") == {"date": "d1", "mode": "m2"}


def test_a_system_text_of_an_unknown_run_counts_for_nothing() -> None:
    scene = Scene(run_id="gone")
    scene.of_run(e.ContextSet, **SET)
    transcript = Transcript()
    for seq, event in scene.log:
        apply(transcript, seq, event)
    assert transcript.context is None


def test_a_summary_makes_the_recorded_text_out_of_date() -> None:
    scene = begun()
    scene.of_run(e.ContextSet, **SET)
    scene.of_run(e.ContextCompacted, upto_seq=scene.seq, summary="looked around")
    context = fold(scene.log).context
    assert context is not None
    assert context.broken == "compaction"
