"""The rows beside the log: pure functions of the row before and one event."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast import events as e
from holdfast.codec import TYPES, encode
from holdfast.features.automations.events import (
    HookDelivered,
)
from holdfast.folds import rows
from holdfast.folds.rows import AskRow, RunRow, SearchText, SessionRow
from holdfast.folds.usage import WITH_USAGE, usage_of
from holdfast.values import ClientToolResult, FilePart, HistoryMessage, ImagePart, SentFile, TextPart
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


OTHERS = sorted(set(TYPES.values()) - (rows.OF_SESSION & rows.WITH_TEXT & rows.WITH_BLOBS), key=str)


@settings(max_examples=300)
@given(st.sampled_from(OTHERS).flatmap(events_of))
def test_an_event_changes_only_what_its_type_is_listed_for(event: e.Event) -> None:
    kind, steered = type(event), replace(ROW, steers="m parent")
    if kind not in rows.OF_SESSION:
        assert (rows.apply_to_session(ROW, event), rows.apply_to_session(steered, event)) == (ROW, steered)
    if kind not in rows.WITH_TEXT:
        assert rows.search_text(9, event) is None
    if kind not in rows.WITH_BLOBS:
        assert not rows.blobs_of(event)
    if kind not in WITH_USAGE:
        started = replace(RUN, status="running")
        assert not usage_of(event, source="api", before=started, after=started)


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
    result = ClientToolResult(tool_call_id="t", text="", parts=(FILE, TextPart("x")))
    returned = e.ClientToolsAnswered(at_ms=1, run_id="r", client_tools_id="c", results=(result,))
    assert rows.blobs_of(returned) == ("b2",)
    sent = e.DeliveryIntended(at_ms=1, chat="c", message="m")
    assert rows.blobs_of(sent) == ()
    file = SentFile(blob="b3", name="a", media_type="text/plain")
    assert rows.blobs_of(msgspec.structs.replace(sent, file=file)) == ("b3",)
    delivered = HookDelivered(at_ms=1, delivery_id="d", blob="b3", bytes=1)
    assert rows.blobs_of(delivered) == ("b3",)


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


def test_a_session_is_pinned_archived_and_deleted_and_all_of_it_is_undone() -> None:
    there = (
        e.SessionPinned(at_ms=1),
        e.SessionArchived(at_ms=1),
        e.SessionDeleted(at_ms=1, purge_at_ms=9),
    )
    back = (e.SessionUnpinned(at_ms=1), e.SessionUnarchived(at_ms=1), e.SessionRestored(at_ms=1))
    row = ROW
    for event in there:
        row = rows.apply_to_session(row, event)
    assert (row.pinned, row.archived, row.purge_at_ms) == (True, True, 9)
    for event in back:
        row = rows.apply_to_session(row, event)
    assert row == ROW


def test_a_steer_waits_until_it_is_taken_up() -> None:
    row = ROW
    for message_id in ("m1", "m2"):
        steer = e.MessageAccepted(at_ms=1, message_id=message_id, text="x", mode="steer", run_id="r1")
        row = rows.apply_to_session(row, steer)
    assert row.steers == "m1 m2"
    row = rows.apply_to_session(row, e.MessageDispatched(at_ms=2, message_id="m1", run_id="r1"))
    assert row.steers == "m2"


def test_a_run_has_a_row_from_its_queueing_on() -> None:
    queued = e.RunQueued(at_ms=7, run_id="r1", message_id="m")
    row = rows.apply_to_run(None, 3, session_id="s1", event=queued)
    assert row == RunRow(run_id="r1", session_id="s1", first_seq=3, last_seq=3, created_ms=7, updated_ms=7)
    started = e.RunStarted(at_ms=8, run_id="r1")
    assert rows.run_of(started) == "r1"
    running = rows.apply_to_run(row, 4, session_id="s1", event=started)
    assert running is not None
    assert (running.status, running.last_seq) == ("running", 4)
    ended = rows.apply_to_run(
        running, 5, session_id="s1", event=e.RunEnded(at_ms=9, run_id="r1", outcome="completed")
    )
    assert ended is not None
    assert (ended.status, ended.outcome, ended.last_seq) == ("ended", "completed", 5)


def test_a_run_s_row_moves_with_an_ordinary_event_only_now_and_then() -> None:
    def after(at_ms: int) -> RunRow | None:
        call = e.CallStarted(at_ms=at_ms, run_id="r1", call_id="c", turn=1)
        return rows.apply_to_run(RUN, 9, session_id="s1", event=call)

    assert after(rows.FRESH_MS - 1) is RUN
    late = after(rows.FRESH_MS)
    assert late is not None
    assert (late.status, late.last_seq, late.updated_ms) == ("queued", 9, rows.FRESH_MS)


def test_a_run_s_row_names_each_target_that_answered_once() -> None:
    row: rows.RunRow | None = RUN
    for target in ("main", "spare", "main"):
        used = e.Usage(at_ms=1, run_id="r1", call_id="c1", target=target)
        row = rows.apply_to_run(row, 9, session_id="s1", event=used)
    assert row is not None
    assert row.targets == "main\nspare"


def test_an_ask_is_open_until_it_expires_or_is_settled() -> None:
    asked = e.QuestionAsked(
        at_ms=1, run_id="r1", tool_call_id="t", question_id="q", text="Which?", expires_at_ms=10
    )
    row = rows.apply_to_ask(None, 3, session_id="s1", event=asked)
    assert row is not None
    assert (row.ask_id, row.kind) == (rows.ask_of(asked), "question")
    assert [row.is_open_at(at_ms) for at_ms in (9, 10)] == [True, False]
    answer = e.QuestionAnswered(at_ms=2, run_id="r1", question_id="q", answer="a")
    settled = rows.apply_to_ask(row, 4, session_id="s1", event=answer)
    assert settled is not None
    assert settled.state == "answered"
    assert not settled.is_open_at(9)
    calls = e.ClientToolsAsked(at_ms=1, run_id="r1", client_tools_id="c", tool_call_ids=("t",))
    of_client = rows.apply_to_ask(None, 3, session_id="s1", event=calls)
    assert of_client is not None
    assert [one.waits_for for one in (row, settled, of_client)] == ["person", "nobody", "client"]
    assert rows.apply_to_ask(row, 4, session_id="a fork", event=answer) is row


def test_a_session_is_found_by_the_title_it_was_given_last() -> None:
    assert rows.search_text(1, e.SessionCreated(at_ms=1, epoch="e", title="first")) == SearchText(0, "first")
    assert rows.search_text(8, e.SessionRenamed(at_ms=1, title="second")) == SearchText(0, "second")


def test_a_whole_text_is_the_preview_of_its_session() -> None:
    row = rows.apply_to_session(ROW, e.TextDone(at_ms=7, run_id="r1", segment=0, text="done"))
    assert (row.preview, row.updated_ms) == ("done", 7)


def test_a_sessions_home_is_where_a_tool_began_to_work_until_a_person_moves_it() -> None:
    started = e.ToolStarted(at_ms=1, run_id="r1", tool_call_id="t1", effect_key="k")
    assert rows.home_after(started) is None
    assert rows.home_after(replace(started, home="node:a")) == "node:a"
    assert rows.home_after(e.SessionMoved(at_ms=1)) == ""
    assert rows.home_after(e.SessionPinned(at_ms=1)) is None


def test_what_comes_after_the_ending_or_from_elsewhere_leaves_a_run_as_it_is() -> None:
    ended = replace(RUN, status="ended", outcome="completed")
    stop = e.StopRequested(at_ms=9, run_id="r1")
    late = rows.apply_to_run(ended, 9, session_id="s1", event=stop)
    assert late is not None
    assert (late.status, late.outcome) == ("ended", "completed")
    assert rows.apply_to_run(RUN, 9, session_id="another", event=stop) is RUN


def test_recovered_output_without_text_adds_none() -> None:
    call = e.CallStarted(at_ms=1, run_id="r1", call_id="c", turn=1)
    recovered = e.OutputRecovered(at_ms=2, run_id="r1", events=(msgspec.Raw(encode(call)),))
    assert rows.search_text(3, recovered) is None
