"""What a run is doing: every state of the live line, from the events that lead to it."""

from typing import get_args

import pytest

from cli.terminal.status_lines import status_after
from folds.live_line_states import ROWS, RUN, Row
from holdfast import events as e
from holdfast.codec import TYPES
from holdfast.events import RunEvent
from holdfast.features.hooks.events import HookEnded, HookStarted
from holdfast.features.plans.events import GoalContinued, PlanUpdated
from holdfast.features.speech.events import AudioTranscribed
from holdfast.features.undo.events import SnapshotTaken
from holdfast.features.vision.events import ImageDescribed
from holdfast.folds.activity import AFTER, CERTAIN, MOVING, WORDS, Activity, ActivityName

# They change nothing of what a run is doing.
QUIET = {
    e.AttachmentsSaved,
    e.AttemptSuperseded,
    e.TargetSwitched,
    e.ToolOutput,
    e.Usage,
    e.MessageDispatched,
    SnapshotTaken,
    PlanUpdated,
    GoalContinued,
    HookStarted,
    HookEnded,
    AudioTranscribed,
    ImageDescribed,
    e.ChildStarted,
    e.ContextRead,
    e.ContextSet,
    e.ContextNoted,
}


def activity_after(events: tuple[e.Event, ...]) -> Activity:
    activity = Activity()
    for event in events:
        activity.take(event)
    return activity


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.about)
def test_each_state_is_told_in_its_words_and_since_it_began(row: Row) -> None:
    """P3: every wait is visible."""
    activity = activity_after(row.events)
    tools = {event.tool_call_id: event for event in row.events if isinstance(event, e.ToolAsked)}
    asked = tools.get(activity.tool_call_id)
    tool = f"{asked.name} {next(iter(asked.args.values()))}" if asked else ""
    assert (activity.name, activity.words(tool=tool), activity.since_ms) == (
        row.state,
        row.words,
        row.since_ms,
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.about)
def test_the_terminal_says_each_state_in_the_same_words(row: Row) -> None:
    """P3."""
    assert status_after(row.events, now_ms=row.since_ms) == row.words
    # An answer that stops in the middle is waited for.
    words = WORDS["waiting"].format(model="gpt-x") if row.state in MOVING else row.words
    a_minute_later = "" if row.state == "ended" else f"{words} · 60 s"
    assert status_after(row.events, now_ms=row.since_ms + 60_000) == a_minute_later


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.about)
def test_what_the_server_adds_is_told_unless_the_log_says_all_there_is(row: Row) -> None:
    """P3: after a stop nobody reads that the model is answering."""
    told = status_after(row.events, now_ms=row.since_ms, server_says="gpt-x is answering · 31 s")
    assert told == (row.words if row.state in CERTAIN | {"ended"} else "gpt-x is answering · 31 s")


def test_every_state_has_a_row_and_every_event_of_a_run_has_a_state_or_is_known_to_have_none() -> None:
    assert {row.state for row in ROWS} == set(get_args(ActivityName)) == set(WORDS)
    of_runs = {event for event in TYPES.values() if issubclass(event, RunEvent)}
    assert of_runs <= set(AFTER) | QUIET
    assert not set(AFTER) & QUIET


def test_a_line_of_another_run_is_not_told_of_this_one() -> None:
    waits = next(row for row in ROWS if row.about == "asked")
    assert status_after(waits.events, now_ms=1000, server_says="wrong", of_run="run_2") == waits.words
    assert status_after(waits.events, now_ms=1000, server_says="right", of_run=RUN) == "right"
