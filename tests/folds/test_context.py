"""What a model is shown of a session."""

from hypothesis import given, settings
from msgspec.structs import replace

from folds.handed_over import check_a_model_is_shown_exactly_what_was_handed_over
from holdfast import events as e
from holdfast.folds.context import (
    NO_RESULT,
    NO_RESULT_YET,
    NOT_RUN,
    SUMMARY_MARK,
    UNANSWERED,
    KeptContext,
    context_for,
    context_with,
    history_instructions,
)
from holdfast.folds.entries import Notice
from holdfast.folds.transcript import Transcript, apply, fold
from holdfast.messages import (
    AskedTool,
    AssistantMessage,
    Message,
    SaidText,
    Thought,
    ToolMessage,
    UserMessage,
)
from holdfast.values import FilePart, HistoryMessage, HistoryToolCall, RunSettings, SavedFile, TextPart
from scene import FAILURE, Scene, begun
from strategies.legal_logs import BOUNDED, QUEUEING, Log, logs


def context(scene: Scene, run_id: str = "r1") -> list[Message]:
    return list(context_for(fold(scene.log), run_id))


def answer(*texts: str) -> AssistantMessage:
    return AssistantMessage(tuple(SaidText(text) for text in texts))


def not_answered(why: str, when: str = "1970-01-01 00:00") -> TextPart:
    return TextPart(UNANSWERED.format(why=why, when=when))


@BOUNDED
@given(logs())
def test_in_any_log_every_tool_result_follows_the_answer_that_asked_for_it(log: Log) -> None:
    transcript = fold(log)
    for run_id in transcript.runs:
        open_calls: list[str] = []
        for message in context_for(transcript, run_id):
            if isinstance(message, ToolMessage):
                assert message.tool_call_id == open_calls.pop(0)
                continue
            assert open_calls == []
            if isinstance(message, AssistantMessage):
                assert any(not isinstance(item, Thought) for item in message.items)
                open_calls = [item.tool_call_id for item in message.items if isinstance(item, AskedTool)]
        assert open_calls == []


@settings(max_examples=400)
@given(logs())
def test_kept_messages_are_those_of_the_log_after_every_event(log: Log) -> None:
    """P5: rewinds, superseded attempts, summaries and forks included, and whichever run was shown before."""
    check_kept(log)


@BOUNDED
@given(logs(moves=QUEUEING))
def test_kept_messages_are_those_of_the_queue_after_every_event(log: Log) -> None:
    """P5: also for messages that wait, move, steer or are tried again."""
    check_kept(log)


def test_kept_messages_include_the_note_on_a_message_that_came_in_the_middle_of_an_answer() -> None:
    """P5: the answer began before the message, so it isn't an answer to it."""
    scene = begun()
    scene.text("one moment")
    scene.put(e.MessageAccepted, message_id="m9", text="wait", mode="steer", run_id="r1")
    scene.of_run(e.MessageDispatched, message_id="m9")
    scene.of_run(e.ToolAsked, tool_call_id="t1", name="shell")
    scene.of_run(e.ToolEnded, tool_call_id="t1", ok=True, result="done")
    scene.of_run(e.CallStarted, call_id="c9", turn=2)
    scene.ends("failed", failure=FAILURE)
    scene.send("again", run_id="r2")
    check_kept(scene.log)


def test_kept_messages_include_the_rest_of_a_call_that_another_call_interrupted() -> None:
    """P5: a summary in the middle of a call is a call of its own, and then the first continues."""
    scene = begun()
    scene.text("one ")
    scene.of_run(e.CallStarted, call_id="summary", turn=1, purpose="compaction")
    scene.of_run(e.CallStarted, call_id="c1", turn=1)
    scene.text("two", segment=7)
    check_kept(scene.log)


def check_kept(log: Log) -> None:
    transcript, of_all, of_newest = Transcript(), KeptContext(), KeptContext()
    for seq, event in log:
        apply(transcript, seq, event)
        for run_id in transcript.runs:
            assert of_all.messages(transcript, run_id) == context_for(transcript, run_id)
        for run_id in [*transcript.runs][-1:]:
            assert of_newest.messages(transcript, run_id) == context_for(transcript, run_id)


@settings(max_examples=400)
@given(logs(moves=QUEUEING))
def test_in_any_log_a_model_is_shown_what_was_handed_over_and_nothing_else(log: Log) -> None:
    """P5: neither more nor fewer, in the order in which runs took them up, each once."""
    check_a_model_is_shown_exactly_what_was_handed_over(log, context_for)


def test_what_was_stopped_while_it_waited_is_shown_to_no_model() -> None:
    """P5: not to the run under way, not to a later one, and not as the only thing left after a summary."""
    scene = begun()
    scene.text("one moment")
    scene.stops_while_it_waits("delete it all", run_id="r2")
    scene.of_run(e.RunResumed, after="crash")
    scene.call()
    assert context(scene) == [UserMessage("hi"), answer("one moment")]
    scene.of_run(e.ContextCompacted, upto_seq=scene.seq, summary="They greeted.")
    assert context(scene) == [UserMessage(SUMMARY_MARK + "They greeted.")]
    scene.ends()
    scene.send("and now?", run_id="r3")
    assert context(scene, "r3") == [UserMessage(SUMMARY_MARK + "They greeted."), UserMessage("and now?")]


def test_the_request_for_a_summary_is_shown_to_no_model() -> None:
    """P6: neither when it was stopped nor when it was done; only the summary is."""
    scene = begun()
    scene.text("hello")
    scene.ends()
    upto_seq = scene.seq
    for run_id in ("r2", "r3"):
        message_id = "m" + run_id[1:]
        scene.put(e.MessageAccepted, message_id=message_id, text="/compact")
        settings = RunSettings(purpose="compaction")
        scene.put(e.RunQueued, run_id=run_id, message_id=message_id, settings=settings)
        scene.begin(run_id)
        assert context(scene, run_id) == [UserMessage("hi"), answer("hello")]
        if run_id == "r3":
            notice = Notice(seq=0, at_ms=0, run_id="r3", notice="compacted", text="")
            notice.upto_seq, notice.summary = upto_seq, "They greeted."
            after = context_with(fold(scene.log), "r3", notice)
            scene.of_run(e.ContextCompacted, upto_seq=upto_seq, summary="They greeted.")
            assert context(scene, "r3") == list(after)
        scene.ends("completed" if run_id == "r3" else "cancelled")
    scene.send("and now?", run_id="r4")
    assert context(scene, "r4") == [UserMessage(SUMMARY_MARK + "They greeted."), UserMessage("and now?")]
    check_kept(scene.log)


def test_what_was_stopped_while_it_waited_is_shown_once_it_is_tried_again() -> None:
    scene = begun()
    scene.stops_while_it_waits("delete it", run_id="r2")
    scene.text("one")
    scene.ends()
    scene.put(e.SessionRewound, to_seq=scene.seq)
    scene.put(e.RunQueued, run_id="r3", message_id="m2")
    scene.run_id = "r3"
    scene.of_run(e.MessageDispatched, message_id="m2")
    scene.of_run(e.RunStarted)
    assert context(scene, "r3") == [UserMessage("hi"), answer("one"), UserMessage("delete it")]


def test_each_call_is_one_answer_with_its_results_right_after_it() -> None:
    scene = begun()
    scene.thinks("look", opaque={"signature": "s1"})
    scene.text("Two looks.", segment=1)
    scene.asks_tool("t1", "shell", command="ls")
    scene.asks_tool("t2", "read_file", path="a")
    scene.starts_tool("t1")
    scene.starts_tool("t2")
    scene.ends_tool("t2", "no such file", ok=False)
    scene.ends_tool("t1", "b")
    scene.call(target="beta")
    scene.text("Only b.")
    asked = (
        Thought("look", {"signature": "s1"}, "alpha"),
        SaidText("Two looks."),
        AskedTool("t1", "shell", {"command": "ls"}),
        AskedTool("t2", "read_file", {"path": "a"}),
    )
    assert context(scene) == [
        UserMessage("hi"),
        AssistantMessage(asked),
        ToolMessage("t1", "shell", "b"),
        ToolMessage("t2", "read_file", "no such file", ok=False),
        answer("Only b."),
    ]


def test_parts_advice_and_arguments_that_are_no_object_reach_the_model() -> None:
    scene = Scene()
    scene.put(e.MessageAccepted, message_id="m1", text="see", parts=(TextPart("part"),))
    scene.put(e.RunQueued, run_id="r1", message_id="m1")
    scene.begin("r1")
    scene.call()
    scene.of_run(e.ToolAsked, tool_call_id="t1", name="shell", bad_args="{oops")
    ended = {"ok": False, "result": "bad", "advice": "ask", "parts": (TextPart("p"),)}
    scene.of_run(e.ToolEnded, tool_call_id="t1", **ended)
    assert context(scene) == [
        UserMessage("see", (TextPart("part"),)),
        AssistantMessage((AskedTool("t1", "shell", {}, "{oops"),)),
        ToolMessage("t1", "shell", "bad\nask", ok=False, parts=(TextPart("p"),)),
    ]


def test_a_tool_without_an_ending_gets_a_truthful_result() -> None:
    scene = begun()
    scene.asks_tool("t1")
    scene.asks_tool("t2")
    scene.starts_tool("t1")
    assert [m.text for m in context(scene) if isinstance(m, ToolMessage)] == [NO_RESULT_YET, NOT_RUN]
    scene.ends("interrupted")
    results = [message for message in context(scene) if isinstance(message, ToolMessage)]
    assert [(result.text, result.ok) for result in results] == [(NO_RESULT, False), (NOT_RUN, False)]


def test_the_partial_answer_and_the_input_of_a_failed_run_are_kept() -> None:
    scene = begun()
    scene.pieces("half an ans")
    scene.ends("failed", failure=FAILURE, trace=("attempt 1: stalled",))
    scene.send("unlucky", run_id="r2")
    scene.ends("failed", failure=FAILURE)
    scene.send("and now?", run_id="r3")
    messages = context(scene, "r3")
    assert messages == [
        UserMessage("hi"),
        answer("half an ans"),
        UserMessage("unlucky", (not_answered("the run failed"),)),
        UserMessage("and now?"),
    ]
    assert context(scene) == messages[:2]
    assert FAILURE.text not in str(messages)


def test_thinking_and_white_space_alone_are_no_answer() -> None:
    scene = begun()
    scene.thinks("hmm")
    scene.thinks("", segment=1)
    scene.text(" \n", segment=2)
    scene.ends("cancelled")
    assert context(scene) == [UserMessage("hi", (not_answered("the run was stopped"),))]


def test_what_was_not_answered_is_marked_with_the_time_and_nothing_else_is() -> None:
    """P4: an old wish whose run came to nothing is never shown as part of a newer one."""
    scene = begun()
    scene.text("one moment")
    scene.say_while_busy("and quickly", message_id="m9", mode="steer")
    scene.of_run(e.MessageDispatched, message_id="m9")
    scene.call()
    scene.ms = 1_794_760_500_000
    scene.ends("interrupted", cause="restart")
    scene.put(e.MessageAccepted, message_id="m2", text="see", parts=(TextPart("part"),))
    scene.put(e.RunQueued, run_id="r2", message_id="m2")
    scene.begin("r2")
    scene.ends("cancelled")
    scene.send("hello", run_id="r3")
    shown = context(scene, "r3")
    assert shown == [
        UserMessage("hi"),
        answer("one moment"),
        UserMessage("and quickly", (not_answered("the run was interrupted", "2026-11-15 16:35"),)),
        UserMessage("see", (TextPart("part"), not_answered("the run was stopped", "2026-11-15 16:35"))),
        UserMessage("hello"),
    ]
    scene.call()
    scene.text("hello")
    assert context(scene, "r3")[:-1] == shown
    scene.ends()
    assert context(scene, "r3")[:-1] == shown


def test_a_steer_is_a_user_message_after_the_results_of_the_answer_before() -> None:
    scene = begun()
    scene.asks_tool("t1")
    scene.say_while_busy("be brief", message_id="m9", mode="steer")
    assert UserMessage("be brief") not in context(scene)
    scene.of_run(e.MessageDispatched, message_id="m9")
    scene.starts_tool("t1")
    scene.asks_tool("t2")
    scene.ends_tool("t1", "x")
    scene.ends_tool("t2", "y")
    assert context(scene) == [
        UserMessage("hi"),
        AssistantMessage((AskedTool("t1", "shell"), AskedTool("t2", "shell"))),
        ToolMessage("t1", "shell", "x"),
        ToolMessage("t2", "shell", "y"),
        UserMessage("be brief"),
    ]


def test_superseded_and_rewound_stretches_are_not_shown() -> None:
    scene = begun()
    scene.text("wrong turn")
    scene.stalls()
    scene.attempt()
    scene.text("right")
    scene.ends()
    seq = scene.seq
    scene.send("forget this", run_id="r2")
    scene.call()
    scene.text("forgotten")
    scene.ends()
    scene.put(e.SessionRewound, to_seq=seq)
    scene.send("go on", run_id="r3")
    assert context(scene, "r3") == [UserMessage("hi"), answer("right"), UserMessage("go on")]
    assert context(scene, "r2") == []


def test_a_summary_replaces_what_it_covers_until_it_is_rewound() -> None:
    scene = begun()
    scene.text("one")
    scene.ends()
    upto = scene.seq
    scene.send("next", run_id="r2")
    after = scene.seq
    scene.of_run(e.ContextCompacted, upto_seq=upto, summary="They greeted.")
    scene.call()
    scene.text("two")
    scene.ends()
    scene.send("third", run_id="r3")
    summary = UserMessage(SUMMARY_MARK + "They greeted.")
    assert context(scene, "r3") == [summary, UserMessage("next"), answer("two"), UserMessage("third")]
    assert context(scene, "r1") == [UserMessage("hi"), answer("one")]
    scene.put(e.SessionRewound, to_seq=after)
    scene.send("other", run_id="r4")
    assert context(scene, "r4") == [
        UserMessage("hi"),
        answer("one"),
        UserMessage("next"),
        UserMessage("other"),
    ]


def test_a_summary_covers_the_very_event_that_it_names() -> None:
    scene = begun()
    scene.of_run(e.ContextCompacted, upto_seq=3, summary="They greeted.")
    assert context(scene) == [UserMessage(SUMMARY_MARK + "They greeted.")]
    scene.of_run(e.ContextCompacted, upto_seq=2, summary="Nothing yet.")
    assert context(scene) == [UserMessage(SUMMARY_MARK + "Nothing yet."), UserMessage("hi")]


def test_a_history_replaces_the_earlier_messages_for_its_run_alone() -> None:
    scene = begun()
    scene.text("one")
    scene.ends()
    history = (
        HistoryMessage(role="system", content="Be kind."),
        HistoryMessage(role="user", content="what they said", parts=(TextPart("p"),)),
        HistoryMessage(role="assistant", content="what was answered"),
        HistoryMessage(role="developer", content="And short."),
    )
    scene.send("with history", run_id="r2", history=history)
    transcript = fold(scene.log)
    assert context(scene, "r2") == [
        UserMessage("what they said", (TextPart("p"),)),
        answer("what was answered"),
        UserMessage("with history"),
    ]
    assert history_instructions(transcript, "r2") == "Be kind.\n\nAnd short."
    assert history_instructions(transcript, "r1") == ""
    scene.ends()
    scene.send("without", run_id="r3")
    assert context(scene, "r3") == [
        *(UserMessage("hi"), answer("one"), UserMessage("with history"), UserMessage("without"))
    ]


def test_a_summary_of_a_history_says_nothing_about_the_session() -> None:
    scene = begun()
    scene.ends()
    scene.send("with history", run_id="r2", history=(HistoryMessage(role="user", content="before"),))
    scene.of_run(e.ContextCompacted, upto_seq=scene.seq, summary="S")
    assert context(scene, "r2") == [UserMessage(SUMMARY_MARK + "S")]
    scene.ends()
    scene.send("without", run_id="r3")
    assert context(scene, "r3") == [UserMessage("hi"), UserMessage("with history"), UserMessage("without")]


def test_an_empty_history_is_a_history() -> None:
    scene = begun()
    scene.ends()
    scene.send("alone", run_id="r2", history=())
    assert context(scene, "r2") == [UserMessage("alone")]


def test_a_text_that_was_too_long_for_one_stretch_is_one_text_to_the_model() -> None:
    scene = begun()
    scene.call()
    for segment, (text, goes_on) in enumerate((("the first half, ", True), ("the second half", False))):
        scene.of_run(e.TextDone, segment=segment, text=text, goes_on=goes_on)
    scene.ends("completed")
    answers = [m for m in context_for(fold(scene.log), "r1") if isinstance(m, AssistantMessage)]
    assert answers == [AssistantMessage((SaidText("the first half, the second half"),))]


def test_tool_turns_of_a_history_reach_the_model_and_each_call_has_its_result() -> None:
    """P6: they are context alone. Providers reject a call without a result, and one that isn't an object."""
    calls = (
        HistoryToolCall(tool_call_id="t1", name="weather", arguments='{"city":"Bern"}'),
        HistoryToolCall(tool_call_id="t2", name="weather", arguments="Bern"),
        HistoryToolCall(tool_call_id="t3", name="time"),
    )
    history = (
        HistoryMessage(role="assistant", content="I look.", tool_calls=calls),
        HistoryMessage(role="tool", content="21", tool_call_id="t1"),
        HistoryMessage(role="tool", content="whose is this?", tool_call_id="t9"),
        HistoryMessage(role="assistant", content="", tool_calls=calls[:1]),
    )
    scene = begun()
    scene.ends()
    scene.send("and now?", run_id="r2", history=history)
    asked = AskedTool("t1", "weather", {"city": "Bern"})
    assert context(scene, "r2") == [
        AssistantMessage(
            (
                SaidText("I look."),
                asked,
                AskedTool("t2", "weather", bad_args="Bern"),
                AskedTool("t3", "time"),
            )
        ),
        ToolMessage("t1", "weather", "21"),
        ToolMessage("t2", "weather", NOT_RUN, ok=False),
        ToolMessage("t3", "time", NOT_RUN, ok=False),
        UserMessage("whose is this?"),
        AssistantMessage((asked,)),
        ToolMessage("t1", "weather", NOT_RUN, ok=False),
        UserMessage("and now?"),
    ]


def test_a_model_is_told_why_an_attached_file_is_not_there() -> None:
    """P4: for the run that could not save it; one of a run that nobody knows changes nothing."""
    scene = begun()
    scene.ends()
    kind, why = "application/zip", "The disk is full."
    file = SavedFile(blob="b" * 64, name="a.zip", media_type=kind, bytes=9, why=why)
    other = FilePart(blob="c" * 64, media_type="text/plain", name="b.txt")
    part = FilePart(blob=file.blob, media_type=file.media_type, name=file.name)
    scene.send(
        "look", run_id="r2", history=(HistoryMessage(role="user", content="this", parts=(part, other)),)
    )
    scene.of_run(e.AttachmentsSaved, files=(file,))
    scene.put(e.AttachmentsSaved, run_id="r9", files=(replace(file, path="a.zip"),))
    [told, _] = context(scene, "r2")
    assert isinstance(told, UserMessage)
    what = f"Attached file a.zip ({kind}, 9 bytes) couldn't be saved in the workspace, so you can't read it."
    assert told.parts == (TextPart(f"[{what} {why}]"), other)
