"""Indexes that a store keeps for fast lists and lookups: rows, search text, blob names.

Each is a pure function of the previous row and one event. So a store can write it in the event's own
transaction, and can always rebuild it from the log.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec.structs import fields, replace

from holdfast import events as e
from holdfast.codec import FEATURE_EVENTS, UnreadableEvent, decode
from holdfast.folds.asks import SETTLED_STATES, AskKind, ask_kind
from holdfast.values import AskState, BlobRef, FilePart, ImagePart, OutcomeKind

RunStatus: TypeAlias = Literal["queued", "running", "stopping", "ended"]
TITLE_CHARS_MAX = 80  # for titles made from a message
GIVEN_TITLE_CHARS_MAX = 200
PREVIEW_CHARS_MAX = 200
OWED = "parent"
FRESH_MS = 1_000  # an open run's row is rewritten after this long, or when its status changes

# Features name blobs in fields of the type BlobRef. In an event that can't be decoded, any hash may be one.
_BLOB_NAME = re.compile(rb"(?<=\")[0-9a-f]{64}(?=\")")
_BLOB_FIELDS: Mapping[type[e.Event], tuple[str, ...]] = MappingProxyType(
    {kind: tuple(field.name for field in fields(kind) if field.type == BlobRef) for kind in FEATURE_EVENTS}
)

# Events of a streaming answer come by the thousand and change no row.
QUIET: frozenset[type[e.Event]] = frozenset({e.TextDelta, e.ReasoningDelta, e.ToolOutput})

# A store asks only about these whether they change the session's row, add text, or name blobs.
OF_SESSION: frozenset[type[e.Event]] = frozenset(
    {
        e.SessionCreated,
        e.ParentTold,
        e.MessageAccepted,
        e.MessageDispatched,
        e.MessageRemoved,
        e.RunQueued,
        e.TextDone,
        e.RunEnded,
        *get_args(e.AskAsked),
        e.OutputRecovered,
        e.SessionRenamed,
        e.SessionPinned,
        e.SessionUnpinned,
        e.SessionArchived,
        e.SessionUnarchived,
        e.SessionDeleted,
        e.SessionRestored,
    }
)
WITH_TEXT: frozenset[type[e.Event]] = frozenset(
    {
        e.MessageAccepted,
        e.MessageEdited,
        e.TextDone,
        e.QuestionAsked,
        e.SessionRenamed,
        e.SessionCreated,
        e.OutputRecovered,
    }
)
WITH_BLOBS: frozenset[type[e.Event]] = frozenset(
    {
        e.DeliveryIntended,
        e.MessageAccepted,
        e.MessageEdited,
        e.ToolEnded,
        e.ChildEnded,
        e.ClientToolsAnswered,
        e.RunQueued,
        e.ForeignEvent,
        e.OutputRecovered,
        *(kind for kind, names in _BLOB_FIELDS.items() if names),
    }
)


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the session list."""

    session_id: str
    epoch: str = ""
    title: str = ""
    titled: bool = False
    source: str = "api"
    workspace: str = ""
    preview: str = ""
    created_ms: int = 0
    updated_ms: int = 0
    pinned: bool = False
    archived: bool = False
    purge_at_ms: int = 0
    messages: int = 0
    # Pending deliveries, separated by spaces: ids of messages for a running agent that no run has
    # received, and `parent` in a sub-agent's session until its result was delivered.
    steers: str = ""


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run's session and state, for look-ups by id alone."""

    run_id: str
    session_id: str
    status: RunStatus = "queued"
    outcome: OutcomeKind | None = None
    model: str = ""
    first_seq: int = 0
    last_seq: int = 0
    created_ms: int = 0
    updated_ms: int = 0
    api_key: str = ""  # the name of the key that started it
    targets: str = ""  # the names of targets that it has used, separated by line ends


class AskRow(msgspec.Struct, frozen=True, kw_only=True):
    """An ask, open or settled."""

    ask_id: str
    session_id: str
    run_id: str
    kind: AskKind
    state: AskState = "open"
    seq: int = 0
    asked_ms: int = 0
    expires_at_ms: int = 0

    @property
    def waits_for(self) -> Literal["person", "client", "nobody"]:
        """Return who can still answer it."""
        if self.state != "open":
            return "nobody"
        return "client" if self.kind == "client_tools" else "person"

    def is_open_at(self, at_ms: int) -> bool:
        """Whether it can be answered at this time."""
        return self.state == "open" and not 0 < self.expires_at_ms <= at_ms


class SearchText(msgspec.Struct, frozen=True):
    """Text by which a session is found; `seq` 0 is its title."""

    seq: int
    text: str


def apply_to_session(row: SessionRow, event: e.Event) -> SessionRow:
    """The session's row after the event; the caller creates the first row with only the id."""
    match event:
        case e.SessionCreated():
            return replace(
                row,
                epoch=event.epoch,
                title=event.title,
                titled=bool(event.title),
                source=event.source,
                workspace=event.workspace,
                created_ms=event.at_ms,
                updated_ms=event.at_ms,
                steers=OWED if event.parent is not None else "",
            )
        case e.ParentTold():
            return replace(row, steers=" ".join(one for one in row.steers.split() if one != OWED))
        case e.MessageAccepted():
            title = row.title if row.titled or row.title else _first_line(event.text)
            return replace(
                row,
                title=title,
                preview=event.text[:PREVIEW_CHARS_MAX],
                messages=row.messages + 1,
                updated_ms=event.at_ms,
                steers=_steers_after(row, event),
            )
        case e.MessageDispatched() | e.MessageRemoved() | e.RunQueued() if row.steers:
            left = [one for one in row.steers.split() if one != event.message_id]
            return replace(row, steers=" ".join(left))
        case e.TextDone():
            return replace(row, preview=event.text[:PREVIEW_CHARS_MAX], updated_ms=event.at_ms)
        case (
            e.RunEnded() | e.ApprovalAsked() | e.QuestionAsked() | e.ClientToolsAsked() | e.OutputRecovered()
        ):
            return replace(row, updated_ms=event.at_ms)
        case _:
            return _apply_arrangement(row, event)


def home_after(event: e.Event) -> str | None:
    """Where the session's files are after the event; None if it doesn't say."""
    match event:
        case e.ToolStarted(home=home) if home:
            return home
        case e.SessionMoved():
            return event.home
        case e.SessionCreated(parent=parent) if parent is not None and parent.home:
            return parent.home
        case _:
            return None


def _steers_after(row: SessionRow, event: e.MessageAccepted) -> str:
    is_steer = event.mode in {"steer", "redirect"} and event.run_id != ""
    return f"{row.steers} {event.message_id}".strip() if is_steer else row.steers


def _apply_arrangement(row: SessionRow, event: e.Event) -> SessionRow:
    """Title, pin, archive and deletion don't move a session in the list."""
    match event:
        case e.SessionRenamed():
            return replace(row, title=event.title[:GIVEN_TITLE_CHARS_MAX], titled=True)
        case e.SessionPinned():
            return replace(row, pinned=True)
        case e.SessionUnpinned():
            return replace(row, pinned=False)
        case e.SessionArchived():
            return replace(row, archived=True)
        case e.SessionUnarchived():
            return replace(row, archived=False)
        case e.SessionDeleted():
            return replace(row, purge_at_ms=event.purge_at_ms)
        case e.SessionRestored():
            return replace(row, purge_at_ms=0)
        case _:
            return row


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:TITLE_CHARS_MAX]


def run_of(event: e.Event) -> str:
    """The id of the run that the event is about, or an empty string."""
    return getattr(event, "run_id", "")


def apply_to_run(row: RunRow | None, seq: int, *, session_id: str, event: e.Event) -> RunRow | None:
    """The run's row after the event; None if the run isn't known."""
    if isinstance(event, e.RunQueued):
        if row is not None:
            return row
        return RunRow(
            run_id=event.run_id,
            session_id=session_id,
            model=event.settings.model,
            api_key=event.key,
            first_seq=seq,
            last_seq=seq,
            created_ms=event.at_ms,
            updated_ms=event.at_ms,
        )
    if row is None or row.session_id != session_id:
        return row
    match event:
        case _ if row.status == "ended":  # an ending is final: late events don't reopen the run
            status, outcome = row.status, row.outcome
        case e.RunStarted() if row.status == "queued":
            status, outcome = "running", None
        case e.StopRequested():
            status, outcome = "stopping", None
        case e.RunEnded():
            status, outcome = "ended", event.outcome
        case e.Usage() if event.target not in row.targets.split("\n"):
            status, outcome = row.status, row.outcome
        case _ if event.at_ms - row.updated_ms < FRESH_MS:
            return row
        case _:
            status, outcome = row.status, row.outcome
    targets = _targets_after(row, event)
    return replace(row, status=status, outcome=outcome, last_seq=seq, updated_ms=event.at_ms, targets=targets)


def _targets_after(row: RunRow, event: e.Event) -> str:
    if not isinstance(event, e.Usage) or event.target in row.targets.split("\n"):
        return row.targets
    return f"{row.targets}\n{event.target}".strip("\n")


def ask_of(event: e.Event) -> str:
    """The id of the ask that the event is about, or an empty string."""
    return getattr(event, "ask_id", "")


def apply_to_ask(row: AskRow | None, seq: int, *, session_id: str, event: e.Event) -> AskRow | None:
    """The row of an ask after the event."""
    if isinstance(event, e.AskAsked):
        return row or AskRow(
            ask_id=event.ask_id,
            session_id=session_id,
            run_id=event.run_id,
            kind=ask_kind(event),
            seq=seq,
            asked_ms=event.at_ms,
            expires_at_ms=event.expires_at_ms,
        )
    state = SETTLED_STATES.get(type(event))
    if state is None or row is None or row.session_id != session_id or row.state != "open":
        return row  # a copy in a forked session, or a late event, settles nothing
    return replace(row, state=state)


def search_text(seq: int, event: e.Event) -> SearchText | None:
    """The text that the event adds to, or replaces in, the session's searchable text."""
    match event:
        case e.MessageAccepted() | e.MessageEdited() | e.TextDone() | e.QuestionAsked():
            return SearchText(seq, event.text)
        case e.SessionRenamed():
            return SearchText(0, event.title)
        case e.SessionCreated() if event.title:
            return SearchText(0, event.title)
        case e.OutputRecovered():
            texts = [found.text for one in recovered_events(event) if (found := search_text(seq, one))]
            return SearchText(seq, "\n".join(texts)) if texts else None
        case _:
            return None


def recovered_events(recovered: e.OutputRecovered) -> Iterator[e.Event]:
    """The readable events of recovered output; unreadable ones are kept but can't be indexed."""
    for body in recovered.events:
        with contextlib.suppress(UnreadableEvent):
            yield decode(bytes(body))


def blobs_of(event: e.Event) -> tuple[str, ...]:
    """The blobs that the event names and keeps from being removed."""
    match event:
        case e.MessageAccepted() | e.MessageEdited():
            names = [part.blob for part in event.parts if isinstance(part, ImagePart | FilePart)]
        case e.ToolEnded():
            names = [part.blob for part in event.parts if isinstance(part, ImagePart | FilePart)]
            names += [event.blob] if event.blob else []
            names += [event.sent.blob] if event.sent is not None else []
        case e.DeliveryIntended(file=file):
            names = [file.blob] if file is not None else []
        case e.ChildEnded():
            names = [event.blob] if event.blob else []
        case e.ClientToolsAnswered():
            parts = [part for result in event.results for part in result.parts]
            names = [part.blob for part in parts if isinstance(part, ImagePart | FilePart)]
        case e.RunQueued():
            parts = [part for message in event.history or () for part in message.parts]
            names = [part.blob for part in parts if isinstance(part, ImagePart | FilePart)]
        case e.ForeignEvent():
            names = [name.decode() for name in _BLOB_NAME.findall(event.body)]
        case e.OutputRecovered():
            names = [name for one in recovered_events(event) for name in blobs_of(one)]
        case _:
            names = [name for field in _BLOB_FIELDS.get(type(event), ()) if (name := getattr(event, field))]
    return tuple(dict.fromkeys(names))
