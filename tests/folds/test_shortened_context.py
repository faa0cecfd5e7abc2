"""A context that was trimmed or compacted: what the model sees in place of it, pins, and reverts."""

from holdfast import events as e
from holdfast.folds.context import (
    PINNED,
    SUMMARY_MARK,
    TRIMMED,
    context_for,
    newest_run,
    pinned_message,
    shortened_now,
    without,
)
from holdfast.folds.entries import Notice, ToolCard
from holdfast.folds.transcript import fold
from holdfast.messages import AskedTool, AssistantMessage, Message, ToolMessage, UserMessage
from holdfast.values import FilePart, ImagePart, TrimmedResult
from scene import Scene, begun

LONG = "x" * 5_000
PICTURE = ImagePart(blob="p", media_type="image/png", name="a.png")


def looked() -> Scene:
    """A run with a long result and a picture."""
    scene = begun()
    scene.call()
    scene.asks_tool("t1", "read_file", path="a.txt")
    scene.of_run(e.ToolEnded, tool_call_id="t1", ok=True, result=LONG, parts=(PICTURE,), advice="[more]")
    scene.tool("t2", "short")
    return scene


def trim(scene: Scene, *ids: str) -> int:
    results = tuple(TrimmedResult(run_id="r1", tool_call_id=id_, chars=5_000) for id_ in ids)
    return scene.of_run(e.ContextTrimmed, results=results, tokens_before=9, tokens_after=3)


def results(scene: Scene, run_id: str = "r1") -> list[Message]:
    return [one for one in context_for(fold(scene.log), run_id) if isinstance(one, ToolMessage)]


def notices(scene: Scene) -> list[Notice]:
    return [entry for entry in fold(scene.log).entries if isinstance(entry, Notice)]


def test_a_trimmed_result_is_a_note_to_the_model_and_complete_for_people() -> None:
    """P6: the note says how to read it again. Its picture goes, too."""
    scene = looked()
    asked = next(seq for seq, event in scene.log if isinstance(event, e.ToolAsked))
    trimmed = trim(scene, "t1", "unknown")
    assert results(scene) == [
        ToolMessage("t1", "read_file", TRIMMED.format(chars=5_000, seq=asked)),
        ToolMessage("t2", "shell", "short"),
    ]
    cards = [entry for entry in fold(scene.log).entries if isinstance(entry, ToolCard)]
    assert [(card.result, card.parts, card.trimmed_seq) for card in cards] == [
        (LONG, (PICTURE,), trimmed),
        ("short", (), 0),
    ]
    (notice,) = notices(scene)
    assert notice.text == "The model no longer sees 2 old tool results: about 9 → 3 tokens."


def test_a_trimming_of_an_unknown_run_changes_nothing() -> None:
    scene = looked()
    gone = TrimmedResult(run_id="gone", tool_call_id="t1")
    scene.of_run(e.ContextTrimmed, results=(gone,))
    assert "removed" not in str(results(scene))
    assert notices(scene)[0].text == "The model no longer sees 1 old tool result: about 0 → 0 tokens."


def test_a_reverted_trimming_gives_the_result_back_once() -> None:
    """P6: a second revert and one of something else change nothing."""
    scene = looked()
    before = results(scene)
    trimmed = trim(scene, "t1")
    assert results(scene) != before
    scene.put(e.ContextReverted, reverted_seq=trimmed, by="ann")
    scene.put(e.ContextReverted, reverted_seq=trimmed, by="bob")
    scene.put(e.ContextReverted, reverted_seq=1)
    assert results(scene) == before
    transcript = fold(scene.log)
    reverted = transcript.shortened[trimmed].reverted
    assert reverted is not None
    assert reverted.by == "ann"
    assert [notice.is_reverted for notice in notices(scene)] == [True]


def test_a_trimming_lasts_through_a_rewind() -> None:
    """The model would otherwise get more than what didn't fit."""
    scene = looked()
    ended = scene.seq
    trim(scene, "t1")
    scene.ends()
    scene.put(e.SessionRewound, to_seq=ended)
    scene.send("again", run_id="r2")
    assert "removed to save space" in str(results(scene, "r2")[0])


def test_a_summary_is_followed_by_what_people_pinned() -> None:
    """P6: the messages and answers of the event, word for word, with their attachments."""
    scene = Scene()
    scene.put(e.SessionCreated, epoch="e1")
    file = FilePart(blob="b", media_type="text/plain", name="a.txt")
    scene.put(e.MessageAccepted, message_id="m1", text="hi", parts=(file,))
    scene.put(e.RunQueued, run_id="r1", message_id="m1")
    scene.begin("r1")
    scene.call()
    scene.text("hello")
    scene.ends()
    upto_seq = scene.seq
    scene.send("next", run_id="r2")
    scene.of_run(e.ContextCompacted, upto_seq=upto_seq, summary="S", pinned=("m1", "r1", "r2", "gone"))
    told = f"{SUMMARY_MARK}S\n\n{PINNED}\nUSER: hi\n\n{PINNED}\nASSISTANT: hello"
    assert context_for(fold(scene.log), "r2") == (UserMessage(told, (file,)), UserMessage("next"))


def test_only_what_is_in_the_transcript_counts_as_pinned() -> None:
    """Neither an open run, one without a word, a rewound one nor an unknown one has an answer."""
    scene = begun()
    assert pinned_message(fold(scene.log), "r1") is None
    scene.text("hello")
    scene.ends()
    answer = pinned_message(fold(scene.log), "r1")
    assert answer is not None
    assert (answer.text, answer.is_person, answer.seq) == ("hello", False, scene.seq)
    assert answer.tokens > 0
    message = pinned_message(fold(scene.log), "m1")
    assert message is not None
    assert (message.text, message.is_person) == ("hi", True)
    scene.put(e.SessionRewound, to_seq=message.seq)
    assert pinned_message(fold(scene.log), "r1") is None
    scene.send("and?", run_id="r2")
    scene.ends("failed")
    assert pinned_message(fold(scene.log), "r2") is None
    assert pinned_message(fold(scene.log), "r9") is None


def test_a_pinned_message_that_is_tried_again_is_shown_once() -> None:
    """It then follows the summary like any other message."""
    scene = begun()
    scene.text("hello")
    scene.ends()
    upto_seq = scene.seq
    scene.send("next", run_id="r2")
    scene.of_run(e.ContextCompacted, upto_seq=upto_seq, summary="S", pinned=("m1",))
    scene.ends()
    scene.put(e.RunQueued, run_id="r3", message_id="m1")
    scene.begin("r3")
    assert context_for(fold(scene.log), "r3") == (
        UserMessage(SUMMARY_MARK + "S"),
        UserMessage("next"),
        UserMessage("hi"),
    )


def test_pins_are_kept_in_order_and_removed() -> None:
    scene = begun()
    scene.put(e.MessagePinned, message_id="m1")
    scene.put(e.MessagePinned, answer_of="r1")
    scene.put(e.MessageUnpinned, message_id="m1")
    scene.put(e.MessageUnpinned, message_id="m1")
    assert list(fold(scene.log).pins) == ["r1"]


def test_a_reverted_summary_brings_back_the_one_before_it() -> None:
    scene = begun()
    scene.text("hello")
    scene.ends()
    first_upto = scene.seq
    scene.send("next", run_id="r2")
    first = scene.of_run(e.ContextCompacted, upto_seq=first_upto, summary="first")
    second = scene.of_run(e.ContextCompacted, upto_seq=scene.seq, summary="second", failure="It was down.")
    assert context_for(fold(scene.log), "r2") == (UserMessage(SUMMARY_MARK + "second"),)
    scene.put(e.ContextReverted, reverted_seq=second)
    assert context_for(fold(scene.log), "r2") == (UserMessage(SUMMARY_MARK + "first"), UserMessage("next"))
    scene.put(e.ContextReverted, reverted_seq=first)
    assert len(context_for(fold(scene.log), "r2")) == 3
    assert "without a summary by a model: It was down." in notices(scene)[1].text


def test_a_failed_summary_is_noted_with_its_size_until_one_succeeds() -> None:
    """P9: people are told; the model sees everything."""
    scene = begun()
    before = context_for(fold(scene.log), "r1")
    scene.of_run(e.ContextSet, reason="first")
    scene.of_run(e.ContextCompactionFailed, failure="It was down.", tokens=170)
    transcript = fold(scene.log)
    assert context_for(transcript, "r1") == before
    assert transcript.uncompacted_tokens == 170
    assert transcript.context is not None
    assert transcript.context.broken == ""
    assert notices(scene)[0].text.endswith("so the model still sees all of it. It was down.")
    trimmed = trim(scene, "t1")
    transcript = fold(scene.log)
    assert transcript.uncompacted_tokens == 0
    assert transcript.context is not None
    assert transcript.context.broken == "trimming"
    scene.put(e.ContextReverted, reverted_seq=trimmed)
    transcript = fold(scene.log)
    assert transcript.context is not None
    assert transcript.context.broken == "revert"


def test_the_context_as_it_would_be_after_a_revert() -> None:
    """It is computed from a copy: the transcript stays as it is."""
    scene = looked()
    trimmed = trim(scene, "t1")
    transcript = fold(scene.log)
    assert (newest_run(transcript), newest_run(fold([]))) == ("r1", "")
    assert list(shortened_now(transcript)) == [trimmed]
    reverted = without(transcript, trimmed)
    texts = [one.text for one in context_for(reverted, "r1") if isinstance(one, ToolMessage)]
    assert any(text.startswith(LONG) for text in texts)
    (notice,) = [entry for entry in reverted.entries if isinstance(entry, Notice)]
    assert notice.is_reverted
    assert not any(LONG in str(message) for message in results(scene))


def test_a_tool_that_was_called_by_another_tool_is_shown_as_the_model_called_it() -> None:
    scene = begun()
    scene.of_run(e.ToolAsked, tool_call_id="t1", name="schedule", args={"every": "1d"}, via="call_tool")
    scene.starts_tool("t1")
    scene.ends_tool("t1", "made")
    answer = next(one for one in context_for(fold(scene.log), "r1") if isinstance(one, AssistantMessage))
    (call,) = answer.items
    assert isinstance(call, AskedTool)
    assert (call.name, call.args) == ("call_tool", {"name": "schedule", "arguments": {"every": "1d"}})
