"""Records the transcripts of a run's voice notes, each once, before the model call that would show them."""

from holdfast.features.speech.events import AudioTranscribed
from holdfast.features.speech.transcribing import LATE, Speech, Transcription
from holdfast.folds.entries import Person
from holdfast.interfaces.feature import RunContext
from holdfast.interfaces.journal import JournalError
from holdfast.models.parts import bare_type
from holdfast.safe_text import safe_line
from holdfast.values import FilePart, ImagePart, TextPart

TEXT_CHARS_MAX = 20_000
GONE = "it's no longer available"


async def transcribe_new(context: RunContext, speech: Speech) -> bool:
    """Transcribe the voice notes in the run's messages that have no transcript. Return whether there are any.

    After one that is late, the others aren't tried.
    """
    log, deps = context.log, context.deps
    notes = _new_notes(context)
    failed: Transcription | None = None
    for nth, note in enumerate(notes, start=1):
        await deps.drain.checkpoint(log.run_id)
        began_s = deps.clock.monotonic_s()
        log.live = lambda nth=nth: f"Transcribing voice note {nth} of {len(notes)}"
        try:
            found = failed or await _transcribed(context, speech, note)
        finally:
            log.live = None
        failed = found if found.failure == LATE else None
        log.emit(
            AudioTranscribed(
                at_ms=log.now_ms(),
                run_id=log.run_id,
                blob=note.blob,
                name=_name(note),
                text=_shortened(found.text),
                by=speech.by,
                failure=found.failure,
                ms=int(1000 * (deps.clock.monotonic_s() - began_s)),
            )
        )
        await context.view.flush(log)
    return bool(notes)


def _new_notes(context: RunContext) -> list[FilePart | ImagePart]:
    """Return the audio files of the run's messages that aren't transcribed. A failure counts for its run."""
    view, run_id = context.view, context.log.run_id
    known = view.transcript.attachment_texts
    notes: dict[str, FilePart | ImagePart] = {}
    for entry in view.transcript.runs[run_id].entries:
        for part in entry.message.parts if isinstance(entry, Person) else ():
            if isinstance(part, TextPart) or not bare_type(part.media_type).startswith("audio/"):
                continue
            event = known.get(part.blob)
            is_done = isinstance(event, AudioTranscribed) and (not event.failure or event.run_id == run_id)
            if not is_done:
                notes[part.blob] = part
    return list(notes.values())


async def _transcribed(context: RunContext, speech: Speech, note: FilePart | ImagePart) -> Transcription:
    try:
        audio = await context.deps.store.blob(note.blob)
    except JournalError:
        audio = None
    if audio is None:
        return Transcription(failure=GONE)
    return await speech.transcribe(
        context, audio, blob=note.blob, name=_name(note), media_type=bare_type(note.media_type)
    )


def _name(note: FilePart | ImagePart) -> str:
    return safe_line(note.name) or "a voice note"


def _shortened(text: str) -> str:
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]} … [shortened]"
