"""The rows beside the log: pure functions of the row before and one event."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from holdfast import events as e
from holdfast.codec import encode
from holdfast.folds import rows
from holdfast.folds.rows import AskRow, RunRow, SearchText, SessionRow
from holdfast.values import FilePart, HistoryMessage, ImagePart, TextPart
from strategies.any_event import any_events, events_of

ROW = SessionRow(session_id="s1")
RUN = RunRow(run_id="r1", session_id="s1", first_seq=2, last_seq=2)
IMAGE = ImagePart(blob="b1", media_type="image/png")
FILE = FilePart(blob="b2", media_type="text/plain", name="a")


def accepted(text: str, *parts: TextPart | ImagePart | FilePart) -> e.MessageAccepted:
    return e.MessageAccepted(at_ms=5, message_id="m", text=text, parts=parts)


@given(any_events())
def test_every_event_has_a_place_in_every_row(event: e.Event) -> None:
    """No event raises, and what is quiet for the index changes no row but a run's place."""
    row = rows.apply_to_session(ROW, event)
    run = rows.apply_to_run(RUN, 9, session_id="s1", event=event)
    rows.apply_to_ask(None, 9, session_id="s1", event=event)
    text, blobs = rows.search_text(9, event), rows.blobs_of(event)
    assert run is not None
    if type(event) in rows.QUIET:
        assert (row, run.status, text, blobs) == (ROW, "queued", None, ())


@given(st.lists(any_events()))
def test_an_ended_run_stays_ended_and_a_settled_ask_settled(events: list[e.Event]) -> None:
    run: RunRow | None = msgspec.structs.replace(RUN, status="ended", outcome="completed")
    ask: AskRow | None = AskRow(ask_id="a", session_id="s1", run_id="r1", kind="approval", state="answered")
    for event in events:
        run = rows.apply_to_run(run, 9, session_id="s1", event=event)
        ask = rows.apply_to_ask(ask, 9, session_id="s1", event=event)
    assert run is not None
    assert (run.status, run.outcome) == ("ended", "completed")
    assert ask is not None
    assert ask.state == "answered"


def test_the_first_message_names_a_session_that_has_no_title() -> None:
    row = rows.apply_to_session(ROW, accepted("  first line \nsecond"))
    assert row.title == "first line "
    assert rows.apply_to_session(row, accepted("other")).title == "first line "
    titled = rows.apply_to_session(ROW, e.SessionCreated(at_ms=1, epoch="e", title="given"))
    assert rows.apply_to_session(titled, accepted("other")).title == "given"


def test_titles_and_previews_are_cut() -> None:
    row = rows.apply_to_session(ROW, accepted("x" * 500))
    assert (len(row.title), len(row.preview)) == (rows.TITLE_CHARS_MAX, rows.PREVIEW_CHARS_MAX)
    renamed = rows.apply_to_session(ROW, e.SessionRenamed(at_ms=1, title="y" * 500))
    assert len(renamed.title) == rows.GIVEN_TITLE_CHARS_MAX


def test_a_stop_before_the_start_is_not_undone_by_it() -> None:
    stopping = rows.apply_to_run(RUN, 3, session_id="s1", event=e.StopRequested(at_ms=1, run_id="r1"))
    assert stopping is not None
    started = rows.apply_to_run(stopping, 4, session_id="s1", event=e.RunStarted(at_ms=1, run_id="r1"))
    assert started is not None
    assert started.status == "stopping"


@given(events_of(e.RunEnded))
def test_an_event_of_another_session_moves_no_run(event: e.Event) -> None:
    assert rows.apply_to_run(RUN, 3, session_id="s2", event=event) is RUN
    assert rows.apply_to_run(None, 3, session_id="s1", event=event) is None


def test_a_second_queueing_under_a_known_id_changes_nothing() -> None:
    queued = e.RunQueued(at_ms=7, run_id="r1", message_id="m")
    assert rows.apply_to_run(RUN, 9, session_id="s1", event=queued) is RUN


def test_blobs_are_named_once_each_wherever_they_stand() -> None:
    history = (HistoryMessage(role="user", content="", parts=(TextPart("x"), IMAGE)),)
    assert rows.blobs_of(accepted("x", IMAGE, TextPart("y"), FILE, IMAGE)) == ("b1", "b2")
    ended = e.ToolEnded(
        at_ms=1, run_id="r", tool_call_id="t", ok=True, result="", parts=(IMAGE,), blob="whole"
    )
    assert rows.blobs_of(ended) == ("b1", "whole")
    assert rows.blobs_of(e.RunQueued(at_ms=1, run_id="r", message_id="m", history=history)) == ("b1",)


def test_recovered_output_is_found_by_its_text_and_what_cannot_be_read_is_passed_over() -> None:
    done = e.TextDone(at_ms=1, run_id="r", segment=0, text="found again")
    bodies = tuple(msgspec.Raw(body) for body in (encode(done), b"{}", b"null", encode(accepted("x", FILE))))
    recovered = e.OutputRecovered(at_ms=1, run_id="r", events=bodies)
    assert rows.search_text(4, recovered) == SearchText(4, "found again\nx")
    assert rows.blobs_of(recovered) == ("b2",)
    assert rows.search_text(4, e.OutputRecovered(at_ms=1, run_id="r", events=())) is None


def test_a_question_is_found_by_its_words() -> None:
    asked = e.QuestionAsked(at_ms=1, run_id="r", tool_call_id="t", question_id="q", text="Which port?")
    assert rows.search_text(7, asked) == SearchText(7, "Which port?")
