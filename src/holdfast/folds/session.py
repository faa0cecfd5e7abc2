"""The state of a session and its runs, as a fold of the session's log.

`apply` changes the given session and returns it. An event that can't follow what came before raises
IllegalEvent and changes nothing; an event that was applied before (seq <= last_seq) changes nothing either.
Seqs increase, with gaps where old deltas were joined.

`session.rewound` removes nothing here, because the runs still happened; an undo is noted.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast import events as e
from holdfast.catalog import CHAT_SOURCES
from holdfast.codec import FEATURE_EVENTS
from holdfast.events.bases import RunEvent
from holdfast.events.modes import mode_of
from holdfast.folds.inputs import InputState, MessageState, SessionMessage
from holdfast.folds.phases import IllegalEvent, Phase
from holdfast.folds.run import ChildState, Run, Tally, apply_to_run, queued_run
from holdfast.values import (
    WORKSPACE_MODES,
    ApprovalMode,
    ParentLink,
    RunSettings,
    Undo,
)


class OpenUndo(Struct, frozen=True):
    """An undo; `returns_chat` says whether a redo brings the conversation back, too.

    With `files_redone` its files are back already, and only the removed turns are still away.
    """

    seq: int
    at_ms: int
    undo: Undo
    returns_chat: bool
    files_redone: bool = False

    @property
    def turns(self) -> int:
        """How many turns it removed from the conversation; logs of old versions name only the runs."""
        return 0 if self.undo.keeps_log else self.undo.turns or len(self.undo.runs)


class Session(Struct):
    """One session after `last_seq`; `runs` are in the order they were queued."""

    last_seq: int = 0
    epoch: str = ""
    source: str = ""
    chat: str = ""
    title: str = ""
    workspace: str = ""
    created_ms: int = 0
    updated_ms: int = 0
    pinned: bool = False
    archived: bool = False
    purge_at_ms: int | None = None
    forked_from: tuple[str, int] | None = None
    queue_paused: bool = False
    queue_paused_seq: int = 0
    queue_paused_by_stop: bool = False
    inbox: InputState = field(default_factory=InputState)
    grants: dict[str, e.GrantAdded] = field(default_factory=dict[str, e.GrantAdded])
    runs: dict[str, Run] = field(default_factory=dict[str, Run])
    children: dict[str, ChildState] = field(default_factory=dict[str, ChildState])  # of all runs, by session
    open_ids: dict[str, None] = field(default_factory=dict[str, None])  # an ordered set
    defaults: e.SessionDefaultsSet | None = None  # of runs that start later
    home: str = ""  # the machine or volume that has its files, as `node:NAME` or `volume:NAME`
    approval_mode: Literal["", ApprovalMode] = ""  # empty: as configured
    mode_set_by: str = ""  # empty: not set
    mode_workspace: str = ""  # where `edits` and `workspace` apply
    folder: str = ""  # the workspace of the newest run that started; empty: the configured one
    has_moved: bool = False  # a person let other machines continue it without its files
    parent: ParentLink | None = None  # of a sub-agent's session
    parent_told: bool = False  # the parent knows how it ended, or is gone
    undos: dict[str, OpenUndo] = field(default_factory=dict[str, OpenUndo])  # by id, oldest first

    def started_settings(self, run: Run) -> RunSettings | None:
        """Return the settings of a run that starts now, with the session's defaults; None if it has none."""
        if (defaults := self.defaults) is None:
            return None
        texts = (defaults.instructions, run.settings.instructions)
        return replace(
            run.settings,
            model=defaults.model or run.settings.model,
            instructions="\n\n".join(filter(None, texts)),
            reasoning_effort=run.settings.reasoning_effort or defaults.reasoning_effort,
        )

    def is_undone(self, run_id: str) -> bool:
        """Return whether the run's changes were undone."""
        return any(run_id in each.undo.runs and not each.files_redone for each in self.undos.values())

    def undone_from(self, run_id: str) -> tuple[str, ...]:
        """Return the runs that were undone with this run, including itself; empty if it wasn't undone."""
        found = (each.undo for each in self.undos.values() if not each.files_redone)
        return next((undo.runs for undo in found if undo.run_id == run_id and run_id in undo.runs), ())

    @property
    def open_runs(self) -> tuple[Run, ...]:
        """Runs without an ending."""
        return tuple([self.runs[run_id] for run_id in self.open_ids])

    @property
    def current_run(self) -> Run | None:
        """The run that has the session's slot; a run stopped while it waited never had it."""
        return next((run for run in self.open_runs if run.started_ms), None)

    def holds(self, message: SessionMessage) -> bool:
        """Whether the paused queue holds the message; a message sent while nothing runs isn't held."""
        run = self.runs.get(message.run_id)
        since = max(message.seq, run.first_seq if run is not None else 0)
        if not self.queue_paused or since <= self.queue_paused_seq:
            return self.queue_paused
        # A message and its run are queued together, except on a retry: then nothing was running.
        is_tried_again = since > message.seq + 1
        return message.mode == "queue" and not self.queue_paused_by_stop and not is_tried_again

    @property
    def delegated_run(self) -> Run | None:
        """The run that a sub-agent's session was made for; its ending is what the parent waits for."""
        return next(iter(self.runs.values()), None) if self.parent is not None else None

    @property
    def owes_ending(self) -> bool:
        """Whether the parent has yet to learn how the sub-agent ended."""
        run = self.delegated_run
        return run is not None and run.phase is Phase.ENDED and not self.parent_told

    @property
    def usage(self) -> Tally:
        """Return the usage of all runs."""
        total = Tally()
        for run in self.runs.values():
            total.add(run.usage)
        return total


def fold(pairs: Iterable[tuple[int, e.Event]]) -> Session:
    """The session after a whole log, or after the first part of one."""
    session = Session()
    for seq, event in pairs:
        apply(session, seq, event)
    return session


def apply(session: Session, seq: int, event: e.Event) -> Session:
    """The same session after one more event."""
    if seq <= session.last_seq:
        return session
    step = _STEPS.get(type(event), _of_run)
    step(session, seq, event)
    session.last_seq = seq
    session.updated_ms = event.at_ms
    return session


def _of_run(session: Session, seq: int, event: Any) -> None:
    run = session.runs.get(event.run_id)
    if run is None:
        raise IllegalEvent("the run is unknown", event=event, seq=seq, run_id=event.run_id)
    apply_to_run(run, seq, event)


def _tool_started(session: Session, seq: int, event: e.ToolStarted) -> None:
    _of_run(session, seq, event)
    session.home = event.home or session.home


def _child_started(session: Session, seq: int, event: e.ChildStarted) -> None:
    _of_run(session, seq, event)
    session.children[event.child_id] = session.runs[event.run_id].children[event.child_id]


def _session_moved(session: Session, _: int, event: e.SessionMoved) -> None:
    session.home = event.home
    session.has_moved = True


def _mode_set(session: Session, _: int, event: e.ModeSet) -> None:
    session.approval_mode, session.mode_set_by = mode_of(event), event.by
    session.mode_workspace = session.folder if event.workspace is None else event.workspace


def _parent_told(session: Session, _: int, _event: e.ParentTold) -> None:
    session.parent_told = True


def _apart(session: Session, seq: int, event: e.Event) -> None:
    """Ignore events with other folds: relayed calls, and logs of features."""


def _created(session: Session, _: int, event: e.SessionCreated) -> None:
    session.epoch = event.epoch
    session.source = event.source
    session.chat = event.chat
    session.title = event.title
    session.workspace = session.folder = event.workspace
    session.created_ms = event.at_ms
    session.parent = event.parent
    session.home = event.parent.home if event.parent is not None else ""


def _renamed(session: Session, _: int, event: e.SessionRenamed) -> None:
    session.title = event.title


def _defaults_set(session: Session, _: int, event: e.SessionDefaultsSet) -> None:
    session.defaults = event


def _pinned(session: Session, _: int, event: e.SessionPinned | e.SessionUnpinned) -> None:
    session.pinned = type(event) is e.SessionPinned


def _archived(session: Session, _: int, event: e.SessionArchived | e.SessionUnarchived) -> None:
    session.archived = type(event) is e.SessionArchived


def _deleted(session: Session, _: int, event: e.SessionDeleted) -> None:
    session.purge_at_ms = event.purge_at_ms


def _restored(session: Session, _: int, _event: e.SessionRestored) -> None:
    session.purge_at_ms = None


def _forked(session: Session, _: int, event: e.SessionForked) -> None:
    session.forked_from = (event.source_session_id, event.at_seq)


def _rewound(session: Session, seq: int, event: e.SessionRewound) -> None:
    undo = event.undo
    if undo is None:
        _chat_went_on(session)
    elif undo.redoes:
        _redone(session, undo)
    else:
        session.undos[undo.undo_id] = OpenUndo(seq, event.at_ms, undo, returns_chat=not undo.keeps_log)


def _redone(session: Session, redo: Undo) -> None:
    undone = session.undos.get(redo.redoes)
    if undone is None:
        return
    if not (undone.turns and redo.keeps_log):
        del session.undos[redo.redoes]
        return
    # Its turns stay away, but can still be opened in a new chat.
    session.undos[redo.redoes] = replace(undone, files_redone=True)
    if undone.returns_chat:
        # Those of earlier undos came after them.
        _chat_went_on(session)


def _chat_went_on(session: Session) -> None:
    """From now on, a redo of an earlier undo brings back files only."""
    for id_, each in session.undos.items():
        session.undos[id_] = replace(each, returns_chat=False)


def _accepted(session: Session, seq: int, event: e.MessageAccepted) -> None:
    steers = event.mode in {"steer", "redirect"} and event.run_id != ""
    run = session.runs.get(event.run_id)
    if steers and run is None:
        raise IllegalEvent("the run is unknown", event=event, seq=seq, run_id=event.run_id)
    session.inbox.accept(seq, event, run_is_open=run is not None and run.phase is not Phase.ENDED)


def _known(
    session: Session,
    seq: int,
    event: e.MessageEdited | e.MessageMoved | e.MessageRemoved | e.MessageDispatched | e.RunQueued,
) -> None:
    if event.message_id not in session.inbox.messages:
        raise IllegalEvent(f"message {event.message_id} is unknown", event=event, seq=seq)


def _edited(session: Session, seq: int, event: e.MessageEdited) -> None:
    _known(session, seq, event)
    session.inbox.edit(event)


def _moved(session: Session, seq: int, event: e.MessageMoved) -> None:
    _known(session, seq, event)
    session.inbox.move(event.message_id, event.position)


def _removed(session: Session, seq: int, event: e.MessageRemoved) -> None:
    _known(session, seq, event)
    session.inbox.remove(event.message_id)


def _dispatched(session: Session, seq: int, event: e.MessageDispatched) -> None:
    _known(session, seq, event)
    _of_run(session, seq, event)
    session.inbox.hand_over(event.message_id, event.run_id)


def _queue_paused(session: Session, seq: int, event: e.QueuePaused | e.QueueResumed) -> None:
    session.queue_paused = isinstance(event, e.QueuePaused)
    session.queue_paused_by_stop = isinstance(event, e.QueuePaused) and event.by_stop
    session.queue_paused_seq = seq


def _run_queued(session: Session, seq: int, event: e.RunQueued) -> None:
    _known(session, seq, event)
    known = session.runs.get(event.run_id)
    if known is not None:
        raise IllegalEvent(
            "the run was queued before", event=event, seq=seq, run_id=event.run_id, phase=known.phase
        )
    _chat_went_on(session)
    session.runs[event.run_id] = queued_run(seq, event)
    session.open_ids[event.run_id] = None
    session.inbox.queue_for(event.message_id, event.run_id)


def _run_started(session: Session, seq: int, event: e.RunStarted) -> None:
    _of_run(session, seq, event)
    message = session.inbox.messages[session.runs[event.run_id].message_id]
    if message.run_id == event.run_id and message.state is MessageState.QUEUED:
        session.inbox.hand_over(message.message_id, event.run_id)
    folder = session.runs[event.run_id].settings.workspace
    if folder != session.mode_workspace and session.approval_mode in WORKSPACE_MODES:
        # It was allowed for another workspace. The stricter modes apply anywhere.
        session.approval_mode, session.mode_set_by = "", ""
    session.folder = folder


def _run_ended(session: Session, seq: int, event: e.RunEnded) -> None:
    _of_run(session, seq, event)
    del session.open_ids[event.run_id]
    session.inbox.run_ended(event.run_id)


def _grant_added(session: Session, _: int, event: e.GrantAdded) -> None:
    session.grants[event.grant_id] = event


def _grant_removed(session: Session, _: int, event: e.GrantRemoved) -> None:
    session.grants.pop(event.grant_id, None)


def chat_of(session: Session | e.SessionCreated, session_id: str) -> str:
    """Return the chat on a platform that the session belongs to; empty if it's no such chat."""
    # Sessions of older versions don't name their chat, so each counts as a separate one.
    return session.chat or (session_id if session.source in CHAT_SOURCES else "")


_STEPS: Mapping[type[e.Event], Callable[[Session, int, Any], None]] = MappingProxyType(
    {
        e.SessionCreated: _created,
        e.RelayCalled: _apart,
        e.ContextReverted: _apart,
        e.MessagePinned: _apart,
        e.MessageUnpinned: _apart,
        e.ParentTold: _parent_told,
        e.SessionRenamed: _renamed,
        e.SessionDefaultsSet: _defaults_set,
        e.SessionPinned: _pinned,
        e.SessionUnpinned: _pinned,
        e.SessionArchived: _archived,
        e.SessionUnarchived: _archived,
        e.SessionDeleted: _deleted,
        e.SessionRestored: _restored,
        e.SessionForked: _forked,
        e.SessionRewound: _rewound,
        e.SessionMoved: _session_moved,
        e.SessionModeSet: _mode_set,
        e.PermissionModeSet: _mode_set,
        e.ToolStarted: _tool_started,
        e.ChildStarted: _child_started,
        e.MessageAccepted: _accepted,
        e.MessageEdited: _edited,
        e.MessageMoved: _moved,
        e.MessageRemoved: _removed,
        e.MessageDispatched: _dispatched,
        e.QueuePaused: _queue_paused,
        e.QueueResumed: _queue_paused,
        e.RunQueued: _run_queued,
        e.RunStarted: _run_started,
        e.RunEnded: _run_ended,
        e.GrantAdded: _grant_added,
        e.GrantRemoved: _grant_removed,
        e.ForeignEvent: _apart,
        **{kind: _apart for kind in FEATURE_EVENTS if not issubclass(kind, RunEvent)},
    }
)
