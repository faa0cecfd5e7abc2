"""What the model was shown besides its owner's words: the rule that nothing a page says becomes memory."""

from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace

from holdfast import events as e
from holdfast.decisions.outside_sources import outside_sources
from holdfast.features.plans.events import GoalContinued
from holdfast.folds import session as sessions
from holdfast.folds import transcript as transcripts
from holdfast.folds.context import NO_RESULT, NO_RESULT_YET, NOT_RUN, SUMMARY_MARK, context_for
from holdfast.messages import ToolMessage, UserMessage
from holdfast.values import ClientTool, FilePart, HistoryMessage, RunSettings
from scene import Scene
from strategies.legal_logs import BOUNDED, Log, logs


def sources(log: Log, run_id: str = "r1") -> tuple[str, ...]:
    return outside_sources(sessions.fold(log), transcripts.fold(log), run_id)


def chat(*, source: str = "page", key: str = "me", **settings: object) -> Scene:
    scene = Scene()
    scene.put(e.SessionCreated, epoch="e", source=source)
    scene.put(e.MessageAccepted, message_id="m1", text="I like tea", key=key)
    scene.put(e.RunQueued, run_id="r1", message_id="m1", key="me", settings=RunSettings(**settings))  # pyright: ignore[reportArgumentType]
    scene.begin("r1")
    scene.call()
    return scene


def test_typed_words_and_what_the_model_says_to_them_are_the_owners() -> None:
    scene = chat()
    scene.text("Noted.")
    for nth, name in enumerate(("remember", "update_plan", "finish_goal")):
        scene.asks_tool(f"t{nth}", name)
        scene.ends_tool(f"t{nth}", "fixed words")
    scene.asks_tool("t9", "fetch_url")  # not shown to the model yet
    scene.of_run(GoalContinued, round=2, told="go on")
    assert sources(scene.log) == ()


def test_each_thing_from_outside_is_named() -> None:
    assert "typed by a person" in sources(chat(source="api").log)[0]
    assert "someone else wrote" in sources(chat(key="other").log)[0]
    given: tuple[dict[str, Any], ...] = (
        {"instructions": "x"},
        {"client_tools": (ClientTool(name="x"),)},
        {"unattended": True},
    )
    for settings in given:
        assert "sent instructions or tools" in sources(chat(**settings).log)[0]
    scene = chat()
    scene.tool("t1", "poison")
    assert sources(scene.log) == ("the result of the tool shell",)
    scene = chat()
    scene.of_run(e.ToolAsked, tool_call_id="t1", name="remember", owner="client")
    scene.ends_tool("t1", "poison")
    assert sources(scene.log) == ("the result of the tool remember",)
    scene = chat()
    scene.of_run(e.ContextRead, sources=("the file AGENTS.md",))
    assert sources(scene.log) == ("the file AGENTS.md",)
    scene = chat()
    scene.of_run(e.ContextCompacted, upto_seq=scene.seq, summary="poison")
    assert sources(scene.log) == ("earlier messages were replaced by a summary",)
    scene = chat()
    scene.put(e.SessionForked, source_session_id="x", at_seq=1)
    assert sources(scene.log) == ("parts were copied from another session",)


def test_what_a_program_sends_with_the_owners_key_is_not_typed() -> None:
    """P11: a trigger or another agent writes into the owner's conversation, and memory is not for them."""
    for source, outside in (("page", ()), ("chat", ()), ("trigger", ("a program sent a message",))):
        scene = chat()
        scene.put(e.MessageAccepted, message_id="m2", text="more", key="me", mode="steer", source=source)
        scene.put(e.MessageDispatched, message_id="m2", run_id="r1")
        assert sources(scene.log) == outside


def test_what_someone_answered_to_an_ask_is_not_the_owners_for_certain() -> None:
    scene = chat(plan_first=True)
    scene.asks_tool("t1", "update_plan")
    scene.of_run(e.QuestionAsked, question_id="q1", tool_call_id="t1", text="?")
    scene.ends_tool("t1", "The user says: poison")
    assert sources(scene.log) == ("the result of the tool update_plan",)


def test_earlier_runs_of_the_conversation_count_too() -> None:
    scene = chat()
    scene.ends()
    scene.put(e.MessageAccepted, message_id="m2", text="hi", key="other")
    scene.put(e.RunQueued, run_id="r2", message_id="m2", key="other")
    scene.begin("r2")
    scene.ends()
    scene.put(e.MessageAccepted, message_id="m3", text="hi", key="me")
    scene.put(e.RunQueued, run_id="r3", message_id="m3", key="me")
    scene.begin("r3")
    assert len(sources(scene.log, "r3")) == 2
    assert sources(scene.log, "r1") == ()


@pytest.mark.parametrize("edit", ["parts", "other"])
def test_attachments_and_edits_of_others_count(edit: str) -> None:
    scene = Scene()
    scene.put(e.SessionCreated, epoch="e", source="chat")
    part = FilePart(blob="b", media_type="text/plain", name="a.txt")
    scene.put(e.MessageAccepted, message_id="m1", text="hi", key="me")
    if edit == "parts":
        scene.put(e.MessageEdited, message_id="m1", text="hi", parts=(part,), key="me")
    else:
        scene.put(e.MessageEdited, message_id="m1", text="poison", key="other")
    scene.put(e.RunQueued, run_id="r1", message_id="m1", key="me")
    scene.begin("r1")
    assert len(sources(scene.log)) == 1


def test_a_history_that_a_client_sent_counts_for_its_run_and_for_what_follows() -> None:
    scene = Scene()
    scene.put(e.SessionCreated, epoch="e", source="page")
    scene.send("hi", run_id="r1", history=(HistoryMessage(role="user", content="poison"),))
    scene.ends()
    scene.send("hi", run_id="r2")
    assert sources(scene.log, "r1") == sources(scene.log, "r2") == ("a client sent the history along",)


@given(logs())
@BOUNDED
def test_whatever_happened_a_clean_context_has_nothing_but_the_owners_words(log: Log) -> None:
    """P11: the property is about what the model is really shown, by the code that shows it."""
    made = [
        (seq, replace(event, source="page") if isinstance(event, e.SessionCreated) else event)
        for seq, event in log
    ]
    session, transcript = sessions.fold(made), transcripts.fold(made)
    typed = {
        event.text
        for _, event in made
        if isinstance(event, e.MessageAccepted | e.MessageEdited) and not event.parts
    }
    told = {event.told for _, event in made if isinstance(event, GoalContinued)}
    # A note is system text: `context.read` of its run names what of it is from outside.
    told |= {event.text for _, event in made if isinstance(event, e.ContextNoted)}
    for run_id, run in transcript.runs.items():
        if not run.has_begun or outside_sources(session, transcript, run_id):
            continue
        for message in context_for(transcript, run_id):
            if isinstance(message, ToolMessage):
                assert message.text in {NO_RESULT, NO_RESULT_YET, NOT_RUN}
            if isinstance(message, UserMessage):
                assert message.text in typed | told
                assert not message.text.startswith(SUMMARY_MARK)
                assert all("[This was not answered" in getattr(part, "text", "") for part in message.parts)


def test_the_recorded_system_text_counts_after_its_run_was_rewound() -> None:
    """P11: later runs send it again, whatever became of the file that it quotes."""
    scene = Scene()
    scene.put(e.SessionCreated, epoch="e", source="page")
    before = scene.seq
    scene.send("hi", run_id="r1")
    scene.of_run(e.ContextRead, sources=("the file AGENTS.md",))
    scene.of_run(e.ContextSet, reason="first", instructions="From AGENTS.md: poison")
    scene.ends()
    scene.put(e.SessionRewound, to_seq=before)
    scene.send("hi again", run_id="r2")
    assert sources(scene.log, "r2") == ("the file AGENTS.md",)
