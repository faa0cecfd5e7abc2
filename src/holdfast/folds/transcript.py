"""The transcript of a session: a fold of its log into ordered entries.

This fold validates nothing (`session.apply` does): it accepts any event, and ignores events about something
unknown. A message gets its position when a run accepts it; until then it's in `inbox.waiting()`.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast import events as e
from holdfast.codec import decode
from holdfast.folds.activity import Activity
from holdfast.folds.entries import Entry, Notice, Person, Text, ToolCard
from holdfast.folds.feature_folds import ATTACHMENT_TEXTS, KEPT
from holdfast.folds.inputs import InputState, MessageState, SessionMessage
from holdfast.folds.run import Tally
from holdfast.folds.run_view import STEPS, RunView, close_asks, notice, of_attempt, see
from holdfast.values import HistoryMessage, RunSettings, SavedFile

History: TypeAlias = tuple[HistoryMessage, ...]

RECOVERING = "Interrupted; recovering the run's output."
RECOVERED = "Interrupted; output recovered from the run journal."
LOST = "Interrupted. Partial output may have been lost."
RECOVERY_GIVEN_UP_AFTER_MS = 24 * 60 * 60 * 1000


class SavedAttachment(Struct, frozen=True):
    """The outcome of saving an attached file, with its event and run."""

    seq: int
    run_id: str
    file: SavedFile


class Transcript(Struct):
    """The entries of a session up to `last_seq`; `placed` are those of messages, by message id.

    `entries` is a new list whenever an entry was removed or moved, or the content of an ended run changed.
    """

    last_seq: int = 0
    entries: list[Entry] = field(default_factory=list[Entry])
    placed: dict[str, Person] = field(default_factory=dict[str, Person])
    inbox: InputState = field(default_factory=InputState)
    runs: dict[str, RunView] = field(default_factory=dict[str, RunView])
    saved: dict[tuple[str, str], SavedAttachment] = field(  # by workspace and blob
        default_factory=dict[tuple[str, str], SavedAttachment]
    )
    # By blob: the newest event of a feature with text about the attachment. Rewinds don't change it.
    attachment_texts: dict[str, e.Event] = field(default_factory=dict[str, e.Event])
    # Events that features need later, with their seq.
    kept: list[tuple[int, e.Event]] = field(default_factory=list[tuple[int, e.Event]])
    context: "SystemContext | None" = None  # rewinds don't change it
    shortened: "dict[int, Shortened]" = field(default_factory=dict[int, "Shortened"])  # by the event's seq
    pins: dict[str, None] = field(default_factory=dict[str, None])  # ids of messages, and of runs: answers
    pinned_seq: int = 0  # of the last pin or unpin
    # Of the last compaction, trimming, revert or rewind: an earlier usage doesn't give today's size.
    reshaped_seq: int = 0
    used: tuple[int, e.Usage] | None = None  # by the last call that answered, with its seq
    summary_use: tuple[str, Tally] | None = None  # by the last other call, with its id
    uncompacted_tokens: int = 0  # of the context when a summary failed; 0 if another one succeeded since
    undone: list["Undone"] = field(default_factory=list["Undone"])  # what undos removed, the newest last

    def shown_parts(self, run_id: str) -> dict[str, str]:
        """Return the digests of the parts that the run's model was shown: the recorded ones, then notes."""
        if self.context is None:
            return {}
        parts = dict(self.context.parts)
        is_alone = self.runs[run_id].history is not None  # it has no notes of other runs
        for seq, event in self.kept:
            if not isinstance(event, e.ContextNoted) or seq < self.context.seq:
                continue
            if event.run_id == run_id or not is_alone:
                parts.update(event.parts)
        return parts


class SystemContext(Struct, frozen=True):
    """The recorded system text of the session's model calls."""

    seq: int
    run_id: str
    instructions: str
    blob: str  # of the text, if it's large
    parts: Mapping[str, str]  # digests, by name
    tools_digest: str
    model: str
    tools: tuple[str, ...] = ()
    broken: str = ""  # what changed the messages since, so that the next call isn't a continuation anyway


class Shortened(Struct):
    """A compaction or trimming, and who reverted it, if someone did."""

    event: e.ContextCompacted | e.ContextTrimmed
    used: Tally | None = None  # by the call that wrote the summary
    reverted: e.ContextReverted | None = None


class Undone(Struct, frozen=True):
    """Entries that an undo removed."""

    undo_id: str
    entries: tuple[Entry, ...]
    placed: Mapping[str, Person]
    saved: Mapping[tuple[str, str], SavedAttachment]
    kept: tuple[tuple[int, e.Event], ...] = ()


def fold(pairs: Iterable[tuple[int, e.Event]]) -> Transcript:
    """The transcript of a whole log, or of the first part of one."""
    transcript = Transcript()
    for seq, event in pairs:
        apply(transcript, seq, event)
    return transcript


def apply(transcript: Transcript, seq: int, event: e.Event) -> Transcript:
    """The same transcript after one more event; an event that was applied before changes nothing.

    Raises UnreadableEvent, and changes nothing, if recovered output has a record that can't be read.
    """
    if seq <= transcript.last_seq:
        return transcript
    kind = type(event)
    step = _STEPS.get(kind)
    if step is not None:
        step(transcript, seq, event)
    run = transcript.runs.get(getattr(event, "run_id", ""))
    if run is not None:
        if step is None and kind in STEPS and (entry := see(run, seq, event)) is not None:
            transcript.entries.append(entry)
        run.activity.take(event)
        if run.ending is not None and run.ending.seq != seq:
            transcript.entries = transcript.entries[:]  # something may have changed in an ended run
    transcript.last_seq = seq
    return transcript


def output(transcript: Transcript, run_id: str) -> str:
    """The clean answer: the text since the run's last tool card or, if there is none, the last text before.

    An empty line separates two texts that have a person's message between them.
    """
    texts: list[str] = []
    gap = ""
    before_tool = False
    for entry in reversed(transcript.runs[run_id].entries):
        if isinstance(entry, Text) and entry.text:
            texts.append(entry.text + gap)
            gap = ""
            if before_tool:
                break
        elif isinstance(entry, Person):
            gap = "\n\n" if texts else ""
        elif isinstance(entry, ToolCard):
            if texts:
                break
            before_tool = True
    return "".join(reversed(texts))


def interruption_text(transcript: Transcript, run_id: str, *, now_ms: int, owner_gone: bool) -> str | None:
    """Return the note under an interrupted run, as of `now_ms`; None if it isn't interrupted."""
    run = transcript.runs[run_id]
    if run.ending is None and not owner_gone:
        return None
    if run.ending is not None and run.ending.outcome != "interrupted":
        return None
    if any(_is_output(entry) for entry in run.entries):
        return RECOVERED
    too_old = now_ms - run.updated_ms >= RECOVERY_GIVEN_UP_AFTER_MS
    return LOST if run.ending is not None or too_old else RECOVERING


def text_while_recovering(said: str) -> str:
    """The text for an open run while the output of an earlier process hasn't all been read yet."""
    return RECOVERING if said == RECOVERED else said


def resumption_text(transcript: Transcript, resumed: Notice) -> str | None:
    """Return the note about recovered output, where a run resumed after a crash."""
    above = (entry for entry in transcript.runs[resumed.run_id].entries if entry.seq < resumed.seq)
    return RECOVERED if any(_is_output(entry) for entry in above) else None


def _is_output(entry: Entry) -> bool:
    return (isinstance(entry, Text) and entry.text != "") or (
        isinstance(entry, ToolCard) and entry.state == "ended"
    )


def _of_run(transcript: Transcript, seq: int, event: Any) -> None:
    run = transcript.runs.get(event.run_id)
    if run is None:
        return
    entry = see(run, seq, event)
    if entry is not None:
        transcript.entries.append(entry)


def _accepted(transcript: Transcript, seq: int, event: e.MessageAccepted) -> None:
    run = transcript.runs.get(event.run_id)
    transcript.inbox.accept(seq, event, run_is_open=run is not None and run.ending is None)


def _edited(transcript: Transcript, _: int, event: e.MessageEdited) -> None:
    if event.message_id in transcript.inbox.messages:
        transcript.inbox.edit(event)
    if event.message_id in transcript.placed:
        transcript.entries = transcript.entries[:]  # a retried message, still at its old position


def _moved(transcript: Transcript, _: int, event: e.MessageMoved) -> None:
    transcript.inbox.move(event.message_id, event.position)


def _removed(transcript: Transcript, _: int, event: e.MessageRemoved) -> None:
    if event.message_id in transcript.inbox.messages:
        transcript.inbox.remove(event.message_id)


def _run_queued(transcript: Transcript, _: int, event: e.RunQueued) -> None:
    newest = next(reversed(transcript.runs.values()), None)
    history = _sharing(event.history, newest.history if newest is not None else None)
    activity = Activity(changed_ms=event.at_ms)
    run = RunView(
        event.run_id,
        event.message_id,
        history,
        purpose=event.settings.purpose,
        workspace=event.settings.workspace,
        key=event.key,
        is_given_more=_is_given_more(event.settings),
        updated_ms=event.at_ms,
        activity=activity,
    )
    transcript.runs.setdefault(event.run_id, run)
    # Only an undo that nothing followed can bring its entries back.
    del transcript.undone[:-1]
    if event.message_id in transcript.inbox.messages:
        transcript.inbox.queue_for(event.message_id, event.run_id)


def _is_given_more(settings: RunSettings) -> bool:
    return bool(settings.instructions or settings.client_tools or settings.unattended)


def _sharing(history: History | None, earlier: History | None) -> History | None:
    """The same history; what it has in common with the earlier one is kept in memory once."""
    if not history or not earlier:
        return history
    pairs = enumerate(zip(history, earlier, strict=False))
    common = next((nth for nth, (one, other) in pairs if one != other), min(len(history), len(earlier)))
    return (*earlier[:common], *history[common:])


def _dispatched(transcript: Transcript, seq: int, event: e.MessageDispatched) -> None:
    run = transcript.runs.get(event.run_id)
    message = transcript.inbox.messages.get(event.message_id)
    if run is None or message is None:
        return
    run.has_begun = True
    transcript.inbox.hand_over(message.message_id, run.run_id)
    _take_up(transcript, seq, run=run, message=message)
    if message.message_id != run.message_id:
        applied = notice(run, seq, event, kind="steered", text="Delivered to the running agent.")
        run.entries.append(applied)
        transcript.entries.append(applied)


def _take_up(transcript: Transcript, seq: int, *, run: RunView, message: SessionMessage) -> None:
    """Place the message; if another run had it before, it moves to the new place."""
    earlier = transcript.placed.get(message.message_id)
    if earlier is not None and earlier.run_id == run.run_id:
        return
    if earlier is not None:
        transcript.entries = [entry for entry in transcript.entries if entry is not earlier]
    person = Person(seq=seq, at_ms=message.at_ms, run_id=run.run_id, message=message)
    transcript.placed[message.message_id] = person
    run.entries.append(person)
    transcript.entries.append(person)


def _started(transcript: Transcript, seq: int, event: e.RunStarted) -> None:
    run = transcript.runs.get(event.run_id)
    if run is not None:
        message = transcript.inbox.messages.get(run.message_id)
        if message is not None and message.state is MessageState.QUEUED and message.run_id == run.run_id:
            transcript.inbox.hand_over(message.message_id, run.run_id)
            _take_up(transcript, seq, run=run, message=message)
    _of_run(transcript, seq, event)


def _ended(transcript: Transcript, seq: int, event: e.RunEnded) -> None:
    run = transcript.runs.get(event.run_id)
    if run is None or run.ending is not None:
        return
    for message in transcript.inbox.run_ended(run.run_id):
        _take_up(transcript, seq, run=run, message=message)
    _of_run(transcript, seq, event)


def _superseded(transcript: Transcript, seq: int, event: e.AttemptSuperseded) -> None:
    run_id, attempt_id = event.run_id, event.attempt_id
    transcript.entries = [
        entry for entry in transcript.entries if not of_attempt(entry, run_id, attempt_id=attempt_id)
    ]
    _of_run(transcript, seq, event)


def _rewound(transcript: Transcript, seq: int, event: e.SessionRewound) -> None:
    to_seq, undo = event.to_seq, event.undo
    transcript.reshaped_seq = seq
    if undo is not None and undo.redoes:
        if not undo.keeps_log:
            _bring_back(transcript, undo.redoes)
        return
    if undo is None:
        transcript.undone.clear()
    elif not undo.keeps_log:
        removed = tuple(entry for entry in transcript.entries if entry.seq > to_seq)
        placed = {id_: person for id_, person in transcript.placed.items() if person.seq > to_seq}
        saved = {key: one for key, one in transcript.saved.items() if one.seq > to_seq}
        kept = tuple(pair for pair in transcript.kept if pair[0] > to_seq)
        transcript.undone.append(Undone(undo.undo_id, removed, placed, saved, kept))
    transcript.entries = [entry for entry in transcript.entries if entry.seq <= to_seq]
    transcript.placed = {id_: person for id_, person in transcript.placed.items() if person.seq <= to_seq}
    transcript.saved = {key: saved for key, saved in transcript.saved.items() if saved.seq <= to_seq}
    transcript.kept = [pair for pair in transcript.kept if pair[0] <= to_seq]
    # what a run says from now on gets a new entry
    for run in transcript.runs.values():
        run.texts = {segment: text for segment, text in run.texts.items() if text.seq <= to_seq}
        run.thoughts = {
            segment: thought for segment, thought in run.thoughts.items() if thought.seq <= to_seq
        }


def _bring_back(transcript: Transcript, undo_id: str) -> None:
    """Restore the entries that the newest undo removed. Nothing was added since."""
    if transcript.undone and transcript.undone[-1].undo_id == undo_id:
        undone = transcript.undone.pop()
        transcript.entries = [*transcript.entries, *undone.entries]
        transcript.placed = {**transcript.placed, **undone.placed}
        transcript.saved = {**transcript.saved, **undone.saved}
        transcript.kept = [*transcript.kept, *undone.kept]


def _attachments_saved(transcript: Transcript, seq: int, event: e.AttachmentsSaved) -> None:
    run = transcript.runs.get(event.run_id)
    if run is not None:
        for file in event.files:
            transcript.saved[run.workspace, file.blob] = SavedAttachment(seq, run.run_id, file)
    _of_run(transcript, seq, event)


def _attachment_text(transcript: Transcript, seq: int, event: Any) -> None:
    transcript.attachment_texts[event.blob] = event
    _of_run(transcript, seq, event)


def _context_set(transcript: Transcript, seq: int, event: e.ContextSet) -> None:
    if event.run_id in transcript.runs:
        transcript.context = SystemContext(
            seq=seq,
            run_id=event.run_id,
            instructions=event.instructions,
            blob=event.blob,
            parts=event.parts,
            tools_digest=event.tools_digest,
            model=event.model,
            tools=event.tools,
        )


def _noted(transcript: Transcript, seq: int, event: e.ContextNoted) -> None:
    transcript.kept.append((seq, event))
    _of_run(transcript, seq, event)


def _compacted(transcript: Transcript, seq: int, event: e.ContextCompacted) -> None:
    by, used = transcript.summary_use or ("", None)
    transcript.shortened[seq] = Shortened(event, used if by == event.call_id else None)
    _break(transcript, seq, "compaction")
    _of_run(transcript, seq, event)


def _trimmed(transcript: Transcript, seq: int, event: e.ContextTrimmed) -> None:
    transcript.shortened[seq] = Shortened(event)
    _break(transcript, seq, "trimming")
    _of_run(transcript, seq, event)
    for result in event.results:
        run = transcript.runs.get(result.run_id)
        card = run.tools.get(result.tool_call_id) if run is not None else None
        if card is not None:
            card.trimmed_seq = seq
    transcript.entries = transcript.entries[:]


def _break(transcript: Transcript, seq: int, why: str) -> None:
    """Note that the messages for the model have changed, so that prompt caches can't help."""
    transcript.reshaped_seq = seq
    transcript.uncompacted_tokens = 0
    if transcript.context is not None:
        transcript.context = replace(transcript.context, broken=why)


def _reverted(transcript: Transcript, seq: int, event: e.ContextReverted) -> None:
    shortened = transcript.shortened.get(event.reverted_seq)
    if shortened is None or shortened.reverted is not None:
        return
    shortened.reverted = event
    _break(transcript, seq, "revert")
    for run in transcript.runs.values():
        for entry in run.entries:
            if isinstance(entry, ToolCard) and entry.trimmed_seq == event.reverted_seq:
                entry.trimmed_seq = 0
            elif isinstance(entry, Notice) and entry.seq == event.reverted_seq:
                entry.is_reverted = True
    transcript.entries = transcript.entries[:]


def _not_compacted(transcript: Transcript, seq: int, event: e.ContextCompactionFailed) -> None:
    transcript.uncompacted_tokens = event.tokens
    _of_run(transcript, seq, event)


def _pinned(transcript: Transcript, seq: int, event: e.MessagePinned) -> None:
    transcript.pins[event.message_id or event.answer_of] = None
    transcript.pinned_seq = seq


def _unpinned(transcript: Transcript, seq: int, event: e.MessageUnpinned) -> None:
    transcript.pins.pop(event.message_id or event.answer_of, None)
    transcript.pinned_seq = seq


def _used(transcript: Transcript, seq: int, event: e.Usage) -> None:
    run = transcript.runs.get(event.run_id)
    if run is None:
        return
    if not run.answers:
        by, used = transcript.summary_use or ("", Tally())
        transcript.summary_use = (event.call_id, used if by == event.call_id else Tally())
        transcript.summary_use[1].add(event)
    elif not event.estimated:
        transcript.used = (seq, event)


def _keep(transcript: Transcript, seq: int, event: e.Event) -> None:
    transcript.kept.append((seq, event))


def _recovered(transcript: Transcript, seq: int, event: e.OutputRecovered) -> None:
    """Place the output above the run's ending, or nowhere if that was rewound."""
    where = f"output.recovered at seq {seq}, event"
    events = [decode(bytes(body), where=f"{where} {n}") for n, body in enumerate(event.events, start=1)]
    run = transcript.runs.get(event.run_id)
    if run is None or run.ending is None:
        return
    ending = run.entries.pop()
    at = next((n for n, entry in enumerate(transcript.entries) if entry is ending), None)
    below = [] if at is None else transcript.entries[at:]
    transcript.entries = transcript.entries[:at]
    for inner in events:
        # a late ending changes nothing, because the run already has one
        if type(inner) in STEPS:
            _STEPS.get(type(inner), _of_run)(transcript, ending.seq, inner)
    close_asks(run)
    run.entries.append(ending)
    if at is None:
        transcript.entries = [entry for entry in transcript.entries if entry.seq != ending.seq]
    transcript.entries += below


_STEPS: Mapping[type[e.Event], Callable[[Transcript, int, Any], None]] = MappingProxyType(
    {
        e.SessionRewound: _rewound,
        e.MessageAccepted: _accepted,
        e.MessageEdited: _edited,
        e.MessageMoved: _moved,
        e.MessageRemoved: _removed,
        e.MessageDispatched: _dispatched,
        e.RunQueued: _run_queued,
        e.RunStarted: _started,
        e.AttemptSuperseded: _superseded,
        e.AttachmentsSaved: _attachments_saved,
        e.RunEnded: _ended,
        e.OutputRecovered: _recovered,
        e.ContextSet: _context_set,
        e.ContextNoted: _noted,
        e.ContextCompacted: _compacted,
        e.ContextTrimmed: _trimmed,
        e.ContextCompactionFailed: _not_compacted,
        e.ContextReverted: _reverted,
        e.MessagePinned: _pinned,
        e.MessageUnpinned: _unpinned,
        e.Usage: _used,
        **dict.fromkeys(ATTACHMENT_TEXTS, _attachment_text),
        **dict.fromkeys(KEPT, _keep),
    }
)
