"""What people see: the entries of a session, in their order."""

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from holdfast import events as e
from holdfast.folds.entries import TOOL_OUTPUT_CHARS_MAX, Ending, Notice, Text, entry_json
from holdfast.folds.run_view import RejectedAnswer
from holdfast.folds.transcript import LOST, RECOVERED, Transcript, apply, fold, interruption_text, output
from holdfast.values import Action, HistoryMessage
from scene import FAILURE, Scene, begun, lines, told
from strategies.legal_logs import BOUNDED, Log, logs


@BOUNDED
@given(logs())
def test_any_log_folds_and_an_entry_stays_unless_the_log_takes_it_back(log: Log) -> None:
    transcript = Transcript()
    for seq, event in log:
        before = list(transcript.entries)
        apply(transcript, seq, event)
        takes_back = (
            e.AttemptSuperseded | e.SessionRewound | e.MessageDispatched | e.RunStarted | e.OutputRecovered
        )
        if not isinstance(event, takes_back):
            assert transcript.entries[: len(before)] == before
        assert all(entry_json(entry)["kind"] == entry.kind for entry in transcript.entries[len(before) :])
    assert transcript == fold(log)


@BOUNDED
@given(logs(), st.data())
def test_what_was_seen_before_changes_nothing(log: Log, data: st.DataObject) -> None:
    transcript = fold(log)
    before = deepcopy(transcript)
    start = data.draw(st.integers(0, len(log)))
    for seq, event in log[start:]:
        assert apply(transcript, seq, event) is transcript
    assert transcript == before


@BOUNDED
@given(logs())
def test_no_superseded_attempt_and_no_error_is_part_of_what_the_model_said(log: Log) -> None:
    transcript = fold(log)
    for run in transcript.runs.values():
        assert sum(isinstance(entry, Ending) for entry in run.entries) <= 1
        assert (run.ending is None) or run.entries[-1] is run.ending
        assert "the line broke" not in output(transcript, run.run_id)
        assert interruption_text(transcript, run.run_id, now_ms=0, owner_gone=False) in {
            None,
            RECOVERED,
            LOST,
        }


def test_a_conversation_with_thinking_text_and_tools() -> None:
    scene = begun()
    scene.thinks("let me look")
    scene.pieces("I ", "look", segment=1)
    scene.asks_tool("t1", "shell", command="ls")
    scene.starts_tool("t1")
    scene.of_run(e.ToolOutput, tool_call_id="t1", text="a.txt\n")
    scene.ends_tool("t1", "a.txt")
    scene.call()
    scene.text("One file.")
    scene.ends()
    transcript = fold(scene.log)
    assert lines(transcript) == [
        *("> hi", "(let me look)", "I look", "[t1 ended a.txt]", "One file.", "= completed"),
    ]
    card = transcript.runs["r1"].tools["t1"]
    assert (card.args, card.output, card.ok, card.ending, card.ms) == (
        {"command": "ls"},
        "a.txt\n",
        True,
        "finished",
        12,
    )
    assert output(transcript, "r1") == "One file."


def test_the_whole_text_replaces_its_pieces_and_needs_none() -> None:
    scene = begun()
    scene.pieces("hel", "lo wurld")
    assert told(scene)[-1] == "hello wurld"
    scene.of_run(e.TextDone, segment=0, text="hello world")
    scene.of_run(e.ReasoningDone, segment=1, text="why", opaque={"signature": "s"})
    transcript = fold(scene.log)
    assert lines(transcript)[1:] == ["hello world", "(why)"]
    without_deltas = [(seq, event) for seq, event in scene.log if not isinstance(event, e.TextDelta)]
    assert lines(fold(without_deltas)) == lines(transcript)


def test_a_superseded_attempt_leaves_the_entries_and_its_successor_fills_them() -> None:
    scene = begun()
    scene.thinks("hmm")
    scene.pieces("hel", segment=1)
    scene.asks_tool("t1")
    scene.stalls()
    assert told(scene) == ["> hi"]
    scene.of_run(e.ToolStarted, tool_call_id="t1", effect_key="k")
    scene.attempt()
    scene.text("hello")
    scene.ends()
    transcript = fold(scene.log)
    assert lines(transcript) == ["> hi", "hello", "= completed"]
    assert output(transcript, "r1") == "hello"


def test_text_that_was_seen_is_kept_until_the_model_has_answered() -> None:
    """P1: the longest one, and why it is written anew."""
    scene = begun()

    def kept() -> tuple[str, str] | None:
        old = fold(scene.log).runs["r1"].superseded
        return None if old is None else (old.cause, old.text)

    scene.pieces("a long half")
    scene.stalls()
    assert kept() == ("retry", "a long half")
    scene.attempt()
    scene.pieces("a short")
    scene.of_run(e.RunResumed, after="crash")
    scene.of_run(e.AttemptSuperseded, attempt_id="a2")
    assert kept() == ("retry", "a long half")
    scene.call()
    scene.pieces("a longer half of it")
    scene.of_run(e.RunResumed, after="crash")
    scene.of_run(e.AttemptSuperseded, attempt_id="a3")
    assert kept() == ("restart", "a longer half of it")
    scene.call()
    scene.asks_tool("t1")
    scene.starts_tool("t1")
    assert kept() is None
    scene.ends_tool("t1", "done")
    scene.call()
    scene.text('{"wrong": 1}')
    scene.of_run(e.AttemptSuperseded, attempt_id="a5", problem="it has no name")
    assert kept() is None
    scene.call()
    scene.pieces("once more")
    scene.stalls()
    failed = [*scene.log, (scene.seq + 1, e.RunEnded(at_ms=9, run_id="r1", outcome="failed"))]
    assert fold(failed).runs["r1"].superseded is not None
    scene.attempt()
    scene.text("yes")
    scene.ends()
    assert kept() is None


def test_superseding_spares_started_tools_and_other_attempts() -> None:
    scene = begun()
    scene.pieces("old")
    scene.asks_tool("t1")
    scene.starts_tool("t1")
    scene.attempt()
    scene.pieces("new")
    scene.of_run(e.AttemptSuperseded, attempt_id="a1")
    scene.pieces("er")
    assert told(scene) == ["> hi", "[t1 started ]", "newer"]


def test_what_a_model_says_to_compact_or_to_find_a_title_is_not_shown() -> None:
    scene = begun()
    scene.text("answer")
    scene.call(purpose="title")
    scene.text("A title")
    scene.thinks("short", segment=1)
    scene.call()
    scene.text("more")
    assert told(scene) == ["> hi", "answer", "more"]


def test_messages_take_their_place_when_a_run_takes_them_up() -> None:
    scene = begun()
    scene.put(e.MessageAccepted, message_id="m2", text="next", mode="queue")
    scene.put(e.RunQueued, run_id="r2", message_id="m2")
    scene.put(e.MessageAccepted, message_id="m3", text="third", mode="queue")
    scene.put(e.MessageAccepted, message_id="m4", text="never", mode="queue")
    scene.put(e.MessageEdited, message_id="m2", text="next, please")
    scene.put(e.MessageMoved, message_id="m3", position=0)
    scene.put(e.MessageRemoved, message_id="m4")
    scene.text("one")
    transcript = fold(scene.log)
    assert lines(transcript) == ["> hi", "one"]
    assert [message.text for message in transcript.inbox.waiting()] == ["third", "next, please"]
    scene.ends()
    scene.run_id = "r2"
    scene.of_run(e.RunStarted)
    scene.of_run(e.MessageDispatched, message_id="m2")
    assert told(scene) == ["> hi", "one", "= completed", "> next, please"]


def test_a_run_that_ends_before_its_start_shows_its_message() -> None:
    scene = Scene()
    scene.put(e.MessageAccepted, message_id="m1", text="hi")
    scene.put(e.RunQueued, run_id="r1", message_id="m1")
    scene.run_id = "r1"
    scene.ends("cancelled", cause="user_stop")
    assert told(scene) == ["> hi", "= cancelled"]


def test_a_steer_stands_where_it_was_taken_up() -> None:
    scene = begun()
    scene.say_while_busy("be brief", message_id="m9", mode="steer")
    scene.text("long")
    scene.of_run(e.MessageDispatched, message_id="m9")
    scene.call()
    scene.text("short")
    transcript = fold(scene.log)
    assert lines(transcript) == ["> hi", "long", "> be brief", "! steered", "short"]
    assert output(transcript, "r1") == "long\n\nshort"


def test_a_rewind_drops_what_began_later_and_what_comes_next_follows() -> None:
    scene = begun()
    scene.text("one")
    scene.ends()
    seq = scene.seq
    scene.send("again", run_id="r2")
    scene.call()
    scene.text("two")
    scene.ends()
    scene.put(e.SessionRewound, to_seq=seq)
    scene.send("instead", run_id="r3")
    transcript = fold(scene.log)
    assert lines(transcript) == ["> hi", "one", "= completed", "> instead"]
    assert output(transcript, "r2") == "two"


def test_a_retry_moves_the_message_to_its_new_run() -> None:
    scene = begun()
    scene.text("bad")
    scene.ends("failed", failure=FAILURE)
    scene.put(e.SessionRewound, to_seq=3)
    scene.put(e.RunQueued, run_id="r2", message_id="m1")
    scene.run_id = "r2"
    scene.of_run(e.MessageDispatched, message_id="m1")
    transcript = fold(scene.log)
    assert lines(transcript) == ["> hi"]
    assert transcript.entries[0].run_id == "r2"


def test_a_run_under_way_goes_on_in_new_entries_after_a_rewind() -> None:
    scene = begun()
    scene.pieces("kept")
    seq = scene.seq
    scene.pieces("dropped", segment=1)
    scene.of_run(e.ReasoningDelta, segment=2, text="dropped")
    scene.asks_tool("t1")
    scene.put(e.SessionRewound, to_seq=seq)
    scene.pieces(" on", segment=0)
    scene.pieces("fresh", segment=1)
    scene.of_run(e.ReasoningDelta, segment=2, text="fresh")
    scene.starts_tool("t1")
    assert told(scene) == ["> hi", "kept on", "fresh", "(fresh)"]


def test_notices_say_what_happened() -> None:
    scene = begun()
    scene.of_run(e.CallGated, call_id="c1", until_ms=99, target="alpha", why="rate limit")
    scene.of_run(e.CallGated, call_id="c1", until_ms=99, target="alpha")
    scene.of_run(e.TargetSwitched, from_target="alpha", to_target="beta", why="alpha was overloaded")
    scene.of_run(e.RunResumed, after="crash")
    scene.of_run(e.ContextCompacted, upto_seq=3, summary="they said hi")
    scene.pieces("x")
    transcript = fold(scene.log)
    notices = [entry for entry in transcript.entries if isinstance(entry, Notice)]
    assert [entry.text for entry in notices] == [
        "alpha asked us to wait (rate limit).",
        "alpha asked us to wait.",
        "Switched to beta because alpha was overloaded.",
        "Resumed after a crash.",
        "Earlier messages were summarized for the model.",
    ]
    assert notices[0].until_ms == 99
    assert (notices[-1].upto_seq, notices[-1].summary) == (3, "they said hi")
    text = transcript.entries[-1]
    assert isinstance(text, Text)
    assert text.target == "beta"


def test_an_approval_card_shows_its_state() -> None:
    scene = begun()
    scene.asks_tool("t1")
    action = Action(tool="shell", summary="rm x", argv=("rm", "x"))
    ask = {"tool_call_id": "t1", "action": action, "findings": ("deletes",), "expires_at_ms": 5}
    for approval_id in ("p1", "p2", "p3", "p4"):
        scene.of_run(e.ApprovalAsked, approval_id=approval_id, **ask)
    scene.of_run(e.ApprovalAnswered, approval_id="p1", choice="once", by="ann", reason="fine")
    scene.of_run(e.ApprovalExpired, approval_id="p2")
    scene.of_run(e.ApprovalWithdrawn, approval_id="p3", cause="stop")
    assert told(scene)[2:] == ["? p1 answered", "? p2 expired", "? p3 withdrawn", "? p4 open"]
    scene.of_run(e.ApprovalAnswered, approval_id="p2", choice="once")
    scene.of_run(e.ApprovalAnswered, approval_id="p9", choice="once")
    scene.ends("cancelled")
    transcript = fold(scene.log)
    assert lines(transcript)[2:6] == ["? p1 answered", "? p2 expired", "? p3 withdrawn", "? p4 withdrawn"]
    card = transcript.runs["r1"].asks["p1"]
    assert (card.action, card.findings, card.answer, card.by, card.reason) == (
        action,
        ("deletes",),
        "once",
        "ann",
        "fine",
    )
    assert transcript.runs["r1"].asks["p4"].reason == "run_ended"


def test_a_question_card_shows_its_state() -> None:
    scene = begun()
    for question_id in ("q1", "q2", "q3"):
        scene.of_run(
            e.QuestionAsked, question_id=question_id, tool_call_id="t1", text="which?", choices=("a", "b")
        )
    scene.of_run(e.QuestionAnswered, question_id="q1", answer="b", by="ann")
    scene.of_run(e.QuestionExpired, question_id="q2")
    scene.of_run(e.QuestionWithdrawn, question_id="q3", cause="stop")
    transcript = fold(scene.log)
    assert lines(transcript)[1:] == ["? q1 answered", "? q2 expired", "? q3 withdrawn"]
    card = transcript.runs["r1"].asks["q1"]
    assert (card.text, card.choices, card.answer, card.by) == ("which?", ("a", "b"), "b", "ann")


def test_only_the_end_of_a_long_output_is_kept() -> None:
    scene = begun()
    scene.asks_tool("t1")
    for _ in range(40):
        scene.of_run(e.ToolOutput, tool_call_id="t1", text="x" * 7_001 + "\n")
    card = fold(scene.log).runs["r1"].tools["t1"]
    assert card.output == ("x" * 7_001 + "\n")[-(TOOL_OUTPUT_CHARS_MAX % 7_002) :] + ("x" * 7_001 + "\n") * 9
    assert len(card.output) == TOOL_OUTPUT_CHARS_MAX
    assert entry_json(card)["output_chars"] == 40 * 7_002


def test_events_about_what_was_never_seen_change_nothing() -> None:
    unseen = Scene(run_id="r9")
    unseen.put(e.MessageEdited, message_id="m9", text="")
    unseen.put(e.MessageMoved, message_id="m9", position=0)
    unseen.put(e.MessageRemoved, message_id="m9")
    unseen.begin("r9")
    unseen.call()
    unseen.stalls()
    unseen.text("x")
    unseen.tool("t9", "x")
    unseen.ends()
    assert told(unseen) == []
    scene = Scene()
    scene.put(e.RunQueued, run_id="r1", message_id="m1")
    scene.begin("r1")
    scene.starts_tool("t9")
    scene.of_run(e.ToolOutput, tool_call_id="t9", text="x")
    scene.ends_tool("t9", "x")
    scene.ends()
    scene.ends("failed")
    assert told(scene) == ["= completed"]


def test_histories_that_begin_alike_are_held_once() -> None:
    """A client that sends the whole conversation with each message does not fill the memory with copies."""
    scene = Scene()
    texts = [f"message {nth}" for nth in range(6)]
    for nth, wanted in enumerate((texts[:2], texts[:5], [*texts[:3], "another"], texts[:1], [])):
        history = tuple(HistoryMessage(role="user", content=str(text)) for text in wanted)
        scene.send("hi", run_id=f"r{nth}", history=history)
        scene.ends()
        seen = fold(scene.log).runs
        assert seen[f"r{nth}"].history == history
    runs = fold(scene.log).runs
    first, second, third = (runs[f"r{nth}"].history or () for nth in range(3))
    assert all(one is other for one, other in zip(first, second, strict=False))
    assert [one is other for one, other in zip(second, third, strict=False)] == [True, True, True, False]


def test_an_answer_that_cannot_be_used_is_kept_for_its_correction() -> None:
    """P6: both of its attempts, and why; people no longer see it."""
    scene = begun()
    scene.call()
    scene.text("{")
    scene.attempt()
    scene.text("}")
    for attempt_id in ("a1", "a2", "a3"):
        at = scene.of_run(e.AttemptSuperseded, attempt_id=attempt_id, problem="It is not JSON.")
    transcript = fold(scene.log)
    assert transcript.runs["r1"].rejected == RejectedAnswer(at, "{}", "It is not JSON.")
    assert not any(isinstance(entry, Text) for entry in transcript.entries)


def test_usage_of_an_unknown_run_changes_nothing() -> None:
    scene = begun()
    before = fold(scene.log)
    scene.put(e.Usage, run_id="r9", call_id="c", input_tokens=5)
    after = fold(scene.log)
    assert (after.summary_use, after.entries) == (before.summary_use, before.entries)
