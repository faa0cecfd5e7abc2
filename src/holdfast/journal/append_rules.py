"""Rules of all stores: whether an append is refused, and the rows that an event changes.

A store looks things up and writes. What is written is decided here, without any I/O.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, assert_never

from msgspec import Struct
from msgspec.structs import replace

from holdfast.codec import encode
from holdfast.events import Event, SessionCreated, SessionForked
from holdfast.folds import rows
from holdfast.folds.usage import WITH_USAGE, UsageRow, usage_of
from holdfast.interfaces.index import ListedSession
from holdfast.interfaces.journal import (
    Condition,
    Declined,
    IdempotencyKey,
    IfAskOpen,
    IfRunKnown,
    IfRunOpen,
    IfRunsOpenBelow,
    IfSessionKnown,
    IfSessionNew,
    IfUntitled,
    KeyConflict,
    Record,
    Replayed,
    UnknownSession,
)

_TIME = re.compile(rb'"at_ms":(\d+)')
TIME_WITHIN = 200  # an event's time is among its first bytes, behind its type


class LogHead(Struct):
    """The end of a log: its last seq, the session's row, and how many runs and asks are open.

    `last_ms` is the time of the last event.
    """

    key: int
    row: rows.SessionRow
    last_seq: int = 0
    open_runs: int = 0
    open_asks: int = 0
    begun_runs: int = 0
    last_ms: int = 0

    def listed(self) -> ListedSession:
        """The session as the list shows it."""
        return ListedSession(self.row, self.open_runs, self.open_asks, self.begun_runs)


class KnownRows(Protocol):
    """The rows that a store has, including those that it is about to write."""

    def known_run(self, run_id: str) -> rows.RunRow | None:
        """The row of a run."""
        ...

    def known_ask(self, ask_id: str) -> rows.AskRow | None:
        """The row of an ask."""
        ...


class RowChanges(NamedTuple):
    """The rows that one event changes; None where a row stays the same."""

    session: rows.SessionRow | None
    run: rows.RunRow | None
    ask: rows.AskRow | None
    usage: Sequence[UsageRow]
    text: rows.SearchText | None
    blobs: tuple[str, ...]


def refusal(
    first: Event, head: LogHead | None, *, session_id: str, when: Sequence[Condition], known: KnownRows
) -> Declined | None:
    """Why an append to the log is refused; raises UnknownSession if there is no log and it begins none."""
    for condition in when:
        if not _holds(condition, head, session_id=session_id, known=known):
            return Declined(condition)
    if head is None and not isinstance(first, SessionCreated):
        raise UnknownSession(f"there is no session {session_id!r}; it may have been purged")
    return None


def keep_order(records: Iterable[Record], last_ms: int) -> int:
    """Raise the times of events that lie before the end of their log; returns the new end.

    Times are taken before it is known in which order events are written, and a clock may be set back.
    """
    for record in records:
        event = record.event
        if event.at_ms < last_ms:
            record.decoded = raised = replace(event, at_ms=last_ms)
            record.body, record.framed = encode(raised), None
        else:
            last_ms = event.at_ms
    return last_ms


def time_in(body: bytes) -> int:
    """The time of an encoded event, of which the beginning is enough; 0 if it has none."""
    found = _TIME.search(body[:TIME_WITHIN])
    return int(found[1]) if found is not None else 0


def timeless(body: bytes) -> bytes:
    """An encoded event without its time, which may have been raised when it was written."""
    return _TIME.sub(b"", body, count=1)


def earlier_answer(used: IdempotencyKey | None, *, digest: str, now_ms: int) -> Replayed | KeyConflict | None:
    """Return the stored answer for a used idempotency key; None if it's unused or expired."""
    if used is None or used.expires_at_ms <= now_ms:
        return None
    return Replayed(used.answer) if used.digest == digest else KeyConflict()


def _holds(condition: Condition, head: LogHead | None, *, session_id: str, known: KnownRows) -> bool:
    match condition:
        case IfRunOpen():
            run = known.known_run(condition.run_id)
            return run is not None and run.session_id == session_id and run.status != "ended"
        case IfRunKnown():
            run = known.known_run(condition.run_id)
            return run is not None and run.session_id == session_id
        case IfAskOpen():
            ask = known.known_ask(condition.ask_id)
            return ask is not None and ask.session_id == session_id and ask.is_open_at(condition.at_ms)
        case IfSessionNew():
            return head is None
        case IfSessionKnown():
            return head is not None and not head.row.purge_at_ms
        case IfRunsOpenBelow():
            return (0 if head is None else head.open_runs) < condition.count
        case IfUntitled():
            return head is not None and not head.row.titled and not head.row.purge_at_ms
        case _:
            assert_never(condition)


def counts_usage(events: Iterable[Event]) -> bool:
    """Whether the events' usage is added up: a fork copies events that were counted when they happened."""
    return not any(isinstance(event, SessionForked) for event in events)


def index_event(head: LogHead, seq: int, *, event: Event, known: KnownRows, counts: bool) -> RowChanges:
    """Return the changes of the event at this seq, and update the head's row and counts."""
    kind, row, changed = type(event), head.row, None
    session_id = row.session_id
    if kind in rows.OF_SESSION:
        head.row = rows.apply_to_session(row, event)
        if head.row is not row:
            row = changed = head.row
    earlier = run = ask = None
    if run_id := getattr(event, "run_id", ""):
        earlier = known.known_run(run_id)
        run = rows.apply_to_run(earlier, seq, session_id=session_id, event=event)
        if run is not earlier:
            head.open_runs += _is_open(run) - _is_open(earlier)
            head.begun_runs += _is_begun(run) - _is_begun(earlier)
    used: Sequence[UsageRow] = ()
    if counts and kind in WITH_USAGE:
        used = usage_of(event, source=row.source, before=earlier, after=run)
    if ask_id := getattr(event, "ask_id", ""):
        asked = known.known_ask(ask_id)
        ask = rows.apply_to_ask(asked, seq, session_id=session_id, event=event)
        head.open_asks += _needs_person(ask) - _needs_person(asked)
        ask = None if ask is asked else ask
    run = None if run is earlier else run
    text = rows.search_text(seq, event) if kind in rows.WITH_TEXT else None
    return RowChanges(changed, run, ask, used, text, rows.blobs_of(event) if kind in rows.WITH_BLOBS else ())


def _is_begun(row: rows.RunRow | None) -> bool:
    return row is not None and row.status in {"running", "stopping"}


def _is_open(row: rows.RunRow | None) -> bool:
    return row is not None and row.status != "ended"


def _needs_person(row: rows.AskRow | None) -> bool:
    return row is not None and row.waits_for == "person"
