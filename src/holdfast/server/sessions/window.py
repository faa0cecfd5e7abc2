"""A window on a session: a page of its transcript, and the state from which a client applies events."""

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.api.sessions import SupersededTextShown, TranscriptRun, UndoShown
from holdfast.catalog import FEATURES
from holdfast.folds.entries import AskCard, Entry, Text, Thinking, ToolCard
from holdfast.folds.feature_folds import run_fields
from holdfast.folds.run import Run
from holdfast.folds.run_view import RunView
from holdfast.folds.session import OpenUndo, Session
from holdfast.folds.transcript import Transcript

UNDOS_MAX = 20  # of a session, the newest


def unsettled_seq(state: Session, seen: Transcript) -> int:
    """The seq of the first entry that events may still change; 0 if there is none.

    The newest page reaches back to it, so that it contains everything that may still change.
    """
    seqs = [
        entry.seq
        for run in state.open_runs
        for entry in seen.runs[run.run_id].entries
        if _may_change(entry, seen.runs[run.run_id])
    ]
    return min(seqs, default=0)


def _may_change(entry: Entry, run: RunView) -> bool:
    match entry:
        case Text():
            return run.texts.get(entry.segment) is entry
        case Thinking():
            return run.thoughts.get(entry.segment) is entry
        case ToolCard():
            return entry.state != "ended"
        case AskCard():
            return entry.state == "open"
        case _:
            return False


def runs_of(
    state: Session, seen: Transcript, page: Iterable[Entry], *, is_newest: bool
) -> tuple[TranscriptRun, ...]:
    """The runs of a page of entries; the newest page also has all open runs."""
    ids = dict.fromkeys(entry.run_id for entry in page)
    if is_newest:
        ids |= dict.fromkeys(run.run_id for run in state.open_runs)
    return tuple(_run(state.runs[run_id], seen.runs[run_id]) for run_id in ids if run_id in state.runs)


def newest(state: Session, seen: Transcript) -> dict[str, Any]:
    """The fields that only the newest page has: the queue and the session's usage."""
    return {
        "title": state.title,
        "epoch": state.epoch,
        "workspace": state.workspace,
        "forked_from": state.forked_from[0] if state.forked_from else "",
        "queue_paused": state.queue_paused,
        "pins": tuple(seen.pins),
        "waiting": msgspec.to_builtins(seen.inbox.waiting()),
        "usage": msgspec.to_builtins(state.usage),
        **_feature_fields(seen),
        "undos": tuple(undo_shown(each) for each in list(state.undos.values())[-UNDOS_MAX:]),
    }


def undo_shown(known: OpenUndo) -> UndoShown:
    """An undo, as clients see it."""
    undo = known.undo
    return UndoShown(
        undo_id=undo.undo_id,
        run_id=undo.run_id,
        seq=known.seq,
        at_ms=known.at_ms,
        files=undo.files,
        turns=known.turns,
        returns_chat=known.returns_chat,
        partial=not undo.runs,
        files_redone=known.files_redone,
    )


def _feature_fields(seen: Transcript) -> dict[str, Any]:
    fields = dict[str, Any]()
    for feature in FEATURES.values():
        if feature.session_fields:
            fields |= feature.part(feature.session_fields)(seen)
    return fields


def _run(run: Run, view: RunView) -> TranscriptRun:
    return TranscriptRun(
        run_id=run.run_id,
        message_id=run.message_id,
        model=run.settings.model,
        first_seq=run.first_seq,
        created_ms=run.created_ms,
        started_ms=run.started_ms,
        updated_ms=view.updated_ms,
        phase=run.phase.value,
        stop_cause=run.stop_cause,
        gate_until_ms=run.gate_until_ms,
        call_id=view.call_id,
        attempt_id=view.attempt_id,
        target=view.target,
        answers=view.answers,
        context_tokens=run.context_tokens,
        usage=msgspec.to_builtins(run.usage),
        doing=msgspec.to_builtins(view.activity),
        texts=tuple(text.seq for text in view.texts.values()) if view.answers else (),
        thoughts=tuple(thought.seq for thought in view.thoughts.values()) if view.answers else (),
        superseded=_superseded(view),
        **run_fields(run),
    )


def _superseded(view: RunView) -> SupersededTextShown | None:
    old = view.superseded
    return None if old is None else SupersededTextShown(text=old.text, cause=old.cause)
