"""The read model: one fold for all who look, and a replay of one run shows the same."""

from collections.abc import Callable
from typing import TypeAlias

import pytest
from hypothesis import given
from msgspec import Raw

from holdfast import events as e
from holdfast.codec import UnreadableEvent
from holdfast.folds.run_view import RunView, see
from holdfast.folds.session_fold import RunReplay, SessionFold
from scene import begun
from strategies.legal_logs import BOUNDED, Log, logs

Step: TypeAlias = tuple[Callable[..., e.Event], dict[str, object], type[e.Event]]  # with its milestone


@BOUNDED
@given(logs())
def test_a_replay_of_a_run_shows_what_the_shared_fold_showed_p7(log: Log) -> None:
    shared = SessionFold()
    replays: dict[str, RunReplay] = {}
    for seq, event in log:
        shared.apply(seq, event)
        if isinstance(event, e.RunQueued):
            replays[event.run_id] = RunReplay(event.run_id)
        for run_id, replay in replays.items():
            run = replay.apply(seq, event)
            if run is not None:
                same = shared.runs[run_id]
                assert (run.state, run.milestone, run.added_text) == (
                    same.state,
                    same.milestone,
                    same.added_text,
                )
                assert run.terminal_seq == same.terminal_seq


def test_a_replay_adds_the_same_text_after_a_superseded_attempt() -> None:
    """P7: what both attempts say is added once, and a difference restarts the answer for both readers."""
    scene, shared, replay = begun(), SessionFold(), RunReplay("r1")
    scene.pieces("half ", "of ")
    scene.stalls()
    scene.attempt()
    scene.pieces("half ", "of ", "it", segment=1)
    added: list[tuple[str, str]] = []
    for seq, event in scene.log:
        shared.apply(seq, event)
        run = replay.apply(seq, event)
        if isinstance(event, e.TextDelta):
            assert run is not None
            added.append((shared.runs["r1"].added_text, run.added_text))
    assert added == [("half ", "half "), ("of ", "of "), ("", ""), ("", ""), ("it", "it")]


def test_an_event_that_is_offered_again_changes_nothing() -> None:
    scene, fold = begun(), SessionFold()
    scene.text("once")
    for seq, event in scene.log:
        fold.apply(seq, event)
    run, milestone = fold.runs["r1"], fold.runs["r1"].milestone
    for seq, event in scene.log:
        fold.apply(seq, event)
        assert fold.last_seq == scene.log[-1][0]
        assert fold.runs["r1"] is run
        assert run.milestone is milestone
    assert run.output == "once"


def test_what_cannot_be_read_is_refused_each_time_and_nothing_after_it_is_taken_for_it() -> None:
    scene, fold = begun(), SessionFold()
    scene.ends()
    for seq, event in scene.log:
        fold.apply(seq, event)
    last = fold.last_seq
    bad = e.OutputRecovered(at_ms=9, run_id="r1", events=(Raw(b'{"type":"text.no_such"}'),))
    for _ in range(2):
        with pytest.raises(UnreadableEvent):
            fold.apply(last + 1, bad)
    assert fold.last_seq == last


def test_a_replay_begins_with_the_queueing_of_its_run() -> None:
    replay = RunReplay("r1")
    assert replay.apply(7, e.RunStarted(at_ms=1, run_id="r1")) is None
    assert replay.fold is None
    assert replay.apply(8, e.RunQueued(at_ms=1, run_id="r1", message_id="m")) is replay.fold


def test_the_milestone_is_what_people_were_told_last() -> None:
    scene, fold = begun(), SessionFold()
    scene.say_while_busy("also this", message_id="m9", mode="steer")
    steps: list[Step] = [
        (e.CallStarted, {"call_id": "c2", "turn": 1, "purpose": "title"}, e.RunStarted),
        (e.ReasoningDone, {"segment": 9, "text": "not part of an answer"}, e.RunStarted),
        (e.CallStarted, {"call_id": "c3", "turn": 1}, e.RunStarted),
        (e.ReasoningDone, {"segment": 10, "text": ""}, e.RunStarted),
        (e.ReasoningDone, {"segment": 11, "text": "told"}, e.ReasoningDone),
        (e.TextDelta, {"segment": 12, "text": "a piece"}, e.ReasoningDone),
        (e.MessageDispatched, {"message_id": "m9"}, e.MessageDispatched),
    ]
    milestones = {scene.of_run(kind, **fields): milestone for kind, fields, milestone in steps}
    for seq, event in scene.log:
        fold.apply(seq, event)
        if isinstance(event, e.MessageDispatched) and event.message_id == "m1":
            assert fold.runs["r1"].milestone is e.RunQueued, "its own message is no news"
        if seq in milestones:
            assert fold.runs["r1"].milestone is milestones[seq], seq
    assert fold.runs["r1"].message_text("m9") == "also this"
    assert fold.runs["r1"].message_text("m0") == ""
    assert fold.runs["r1"].terminal_seq == 0


def test_the_calls_that_a_client_must_run_are_known_by_their_seq() -> None:
    view = RunView("r1")
    asked = e.ClientToolsAsked(at_ms=1, run_id="r1", client_tools_id="k", tool_call_ids=("t1",))
    see(view, 7, asked)
    assert view.client_asks == {7: asked}
