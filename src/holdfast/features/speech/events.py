"""The transcript of a voice note as an event, and how people and models are shown it."""

from types import MappingProxyType
from typing import TYPE_CHECKING

from holdfast.events.bases import Event, RunEvent
from holdfast.folds.entries import Notice
from holdfast.interfaces.feature import FoldHooks, RunContext, RunHooks
from holdfast.safe_text import safe_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.cli.terminal.renderer import Renderer
    from holdfast.folds.run_view import RunView
    from holdfast.messages import Message


class AudioTranscribed(RunEvent, frozen=True, kw_only=True, omit_defaults=True, tag="audio.transcribed"):
    """The text of a voice note, or the reason why there is none. `by` is the program or the target."""

    blob: str
    name: str
    text: str = ""
    by: str = ""
    failure: str = ""
    ms: int = 0


def for_model(event: AudioTranscribed) -> str:
    """Return the text that follows the voice note."""
    if event.failure:
        return f"[{event.name} couldn't be transcribed: {event.failure}. Tell the user.]"
    return f"[The user says in {event.name}, as transcribed by a program:]\n{event.text}"


def for_people(event: AudioTranscribed) -> str:
    """Return the transcript, or why there is none."""
    if event.failure:
        return f"{event.name} couldn't be transcribed: {event.failure}"
    return f"{event.name}, transcribed: {event.text}"


def _noticed(run: "RunView", seq: int, event: AudioTranscribed) -> Notice:
    return Notice(seq=seq, at_ms=event.at_ms, run_id=run.run_id, notice="transcribed", text=for_people(event))


def _in_terminal(renderer: "Renderer", event: AudioTranscribed) -> str:
    return renderer.notice(safe_line(for_people(event)))


async def _attachments(context: RunContext, _: "Sequence[Message]") -> bool:
    """Transcribe the run's voice notes, if this server does."""
    speech = context.deps.features.get("speech")
    if speech is None:
        return False
    from holdfast.features.speech.voice_notes import transcribe_new  # few runs have voice notes

    return await transcribe_new(context, speech)


EVENTS: tuple[type[Event], ...] = (AudioTranscribed,)
TERMINAL = MappingProxyType({AudioTranscribed: _in_terminal})
FOLDS = FoldHooks(
    view={AudioTranscribed: _noticed},
    attachment_texts={AudioTranscribed: for_model},
    timeline={AudioTranscribed: lambda event: event.failure or event.text},
)
RUN = RunHooks(attachments=_attachments)
