"""A voice note's transcript, as people and models see it."""

from types import SimpleNamespace
from typing import Any, cast

from holdfast import events as e
from holdfast.features.speech.events import EVENTS, FOLDS, RUN, TERMINAL, AudioTranscribed
from holdfast.folds.context import context_for, with_attachment_texts
from holdfast.folds.entries import Notice, Person
from holdfast.folds.transcript import fold
from holdfast.messages import UserMessage
from holdfast.values import FilePart, TextPart
from scene import Scene
from tables import for_each_row

NOTE = FilePart(blob="b1", media_type="audio/ogg", name="voice.ogg")


def scene_with(**fields: Any) -> Scene:
    """A run with a voice note and the event."""
    scene = Scene()
    scene.put(e.MessageAccepted, message_id="m1", text="", parts=(NOTE,))
    scene.put(e.RunQueued, run_id="r1", message_id="m1")
    scene.begin("r1")
    scene.of_run(AudioTranscribed, blob="b1", name="voice.ogg", **fields)
    return scene


@for_each_row(
    "fields, people, model",
    [
        (
            {"text": "call me", "by": "whisper"},
            "voice.ogg, transcribed: call me",
            "[The user says in voice.ogg, as transcribed by a program:]\ncall me",
        ),
        (
            {"failure": "it took too long"},
            "voice.ogg couldn't be transcribed: it took too long",
            "[voice.ogg couldn't be transcribed: it took too long. Tell the user.]",
        ),
    ],
)
def test_a_transcript_follows_its_note_and_people_read_it(
    fields: dict[str, str], people: str, model: str
) -> None:
    scene = scene_with(**fields)
    transcript = fold(scene.log)
    (notice,) = [entry for entry in transcript.entries if isinstance(entry, Notice)]
    assert (notice.notice, notice.text) == ("transcribed", people)
    assert context_for(transcript, "r1") == (UserMessage("", (NOTE, TextPart(model))),)
    renderer = cast("Any", SimpleNamespace(notice=str))
    assert TERMINAL[AudioTranscribed](renderer, cast("AudioTranscribed", scene.log[-1][1])) == people
    (kind,) = EVENTS
    assert FOLDS.timeline[kind](scene.log[-1][1]) == fields.get("failure", fields.get("text"))


def test_a_summary_is_made_of_what_the_note_says() -> None:
    scene = scene_with(text="call me")
    transcript = fold(scene.log)
    (person, notice) = transcript.entries
    read = with_attachment_texts(transcript, person)
    assert isinstance(read, Person)
    assert read.message.text == "[The user says in voice.ogg, as transcribed by a program:]\ncall me"
    assert with_attachment_texts(transcript, notice) is notice
    assert with_attachment_texts(fold(scene.log[:-1]), person) is person


async def test_only_a_server_that_transcribes_looks_for_voice_notes() -> None:
    scene = Scene()
    scene.send("hi", run_id="r1")
    view = SimpleNamespace(transcript=fold(scene.log))
    assert RUN.attachments is not None
    for speech in ({}, {"speech": object()}):
        deps = SimpleNamespace(features=speech)
        context = SimpleNamespace(view=view, log=SimpleNamespace(run_id="r1"), deps=deps)
        assert not await RUN.attachments(cast("Any", context), ())
