"""Responses about sessions: a row of the list, a page of the transcript.

How far each session has been read: notes, cached in memory because the list shows them all.

Where a sub-agent's session belongs: its parent, and the session on top, whose people hear what it asks.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast import events as e
from holdfast.api.sessions import Forked, HitShown, SessionMade, SessionShown
from holdfast.folds.entries import Ending, Entry, Notice, Person, Text
from holdfast.folds.entries import entry_json as entry_shown
from holdfast.folds.phases import Phase
from holdfast.folds.rows import AskRow, SessionRow
from holdfast.folds.session import Session
from holdfast.folds.transcript import Transcript, interruption_text, resumption_text
from holdfast.interfaces.index import ListedSession, SearchHit, SessionCursor
from holdfast.interfaces.journal import Notes, Record
from holdfast.server.problems import bad_request
from holdfast.values import CHILD, ParentLink


class ReadMark(msgspec.Struct, frozen=True):
    """The newest seq that a person has seen, and when."""

    seq: int = 0
    at_ms: int = 0


class ReadMarks:
    """The marks of all sessions; a mark never goes back."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._marks: dict[str, ReadMark] = {}

    async def load(self) -> None:
        """Load the marks of an earlier process."""
        for key, raw in (await self._notes.notes("session/")).items():
            session_id, _, name = key.removeprefix("session/").partition("/")
            if name == "read":
                self._marks[session_id] = msgspec.json.decode(raw, type=ReadMark)

    def of(self, session_id: str) -> ReadMark:
        """How far the session was read."""
        return self._marks.get(session_id, ReadMark())

    async def put(self, session_id: str, mark: ReadMark) -> None:
        """Mark the session as read up to here."""
        if mark.seq >= self.of(session_id).seq:
            await self._notes.put_note(_note(session_id), msgspec.json.encode(mark))
            self._marks[session_id] = mark

    async def drop(self, session_id: str) -> None:
        """Remove a mark that was written after its session's purge."""
        self.forget(session_id)
        await self._notes.drop_note(_note(session_id))

    def forget(self, session_id: str) -> None:
        """Forget a purged session; its notes are already gone."""
        self._marks.pop(session_id, None)


def _note(session_id: str) -> str:
    """The note's key; the session's purge removes it."""
    return f"session/{session_id}/read"


Wrapped = TypeVar("Wrapped", SessionShown, SessionMade, Forked)


def listed(found: ListedSession, marks: ReadMarks) -> SessionShown:
    """A session as the list shows it."""
    row = found.row
    seen = marks.of(row.session_id)
    return SessionShown(
        id=row.session_id,
        session_id=row.session_id,
        epoch=row.epoch,
        title=row.title,
        source=row.source,
        workspace=row.workspace,
        preview=row.preview,
        created_at=row.created_ms / 1000,
        started_at=row.created_ms / 1000,
        updated_at=row.updated_ms / 1000,
        last_active=row.updated_ms / 1000,
        message_count=row.messages,
        pinned=row.pinned,
        archived=row.archived,
        open_runs=found.open_runs,
        open_asks=found.open_asks,
        begun_runs=found.begun_runs,
        read_seq=seen.seq,
        unread=row.updated_ms > seen.at_ms,
        purge_at=row.purge_at_ms / 1000 if row.purge_at_ms else None,
    )


def wrapped(session: Wrapped) -> Wrapped:
    """One session as a response; hermes clients look for it under `session`."""
    return replace(session, session=session)


def hit(found: SearchHit) -> HitShown:
    """A session that was found by its text; `highlights` are (begin, end) pairs in the passage."""
    passage, highlights, begin = "", list[tuple[int, int]](), 0
    for letter in found.passage:
        if letter == "\x02":
            begin = len(passage)
        elif letter == "\x03":
            highlights.append((begin, len(passage)))
        else:
            passage += letter
    return HitShown(seq=found.seq, passage=passage, highlights=tuple(highlights))


def cursor_of(found: ListedSession) -> str:
    """Where the next page begins."""
    row = found.row
    return f"{int(row.pinned)}:{row.updated_ms}:{row.session_id}"


def cursor_in(given: str) -> SessionCursor | None:
    """The place that a cursor stands for; raises a Problem."""
    if not given:
        return None
    pinned, _, rest = given.partition(":")
    updated_ms, _, session_id = rest.partition(":")
    if pinned not in {"0", "1"} or not (updated_ms.isascii() and updated_ms.isdigit()) or not session_id:
        raise bad_request("'cursor' is invalid; use next_cursor from the previous page", param="cursor")
    return SessionCursor(pinned == "1", int(updated_ms[:18]), session_id)


def page_of(seen: Transcript, *, before: int, limit: int, reach: int = 0) -> tuple[list[Entry], int]:
    """The newest entries below a seq, in their order, and the seq below which there are more (0: none).

    The page is longer than the limit where it must reach up to a seq.
    """
    below = [entry for entry in seen.entries if not before or entry.seq < before]
    page = below[-limit:]
    if reach and page and page[0].seq > reach:
        page = [entry for entry in below if entry.seq >= reach]
    if page and len(below) > len(page):
        # Entries of one event stay together; otherwise the next page would miss some.
        first = page[0].seq
        page = [entry for entry in below if entry.seq >= first]
        return page, first if below[0].seq < first else 0
    return page, 0


def entry(one: Entry, state: Session, seen: Transcript, *, now_ms: int, owned: bool) -> dict[str, Any]:
    """An entry as JSON; messages and answers also in the form that other clients know."""
    answer = entry_shown(one)
    if isinstance(one, Person):
        answer |= {"role": "user", "content": one.message.text, "message_id": one.message.message_id}
    elif isinstance(one, Text):
        answer |= {"role": "assistant", "content": one.text}
    elif isinstance(one, Ending) and one.run_id in state.runs:
        said = interruption_text(seen, one.run_id, now_ms=now_ms, owner_gone=not owned)
        answer |= {"mark": said} if said else {}
    elif isinstance(one, Notice) and one.notice == "resumed":
        said = resumption_text(seen, one)
        answer |= {"mark": said} if said else {}
    return answer


def marks_of_open_runs(state: Session, seen: Transcript, *, now_ms: int) -> dict[str, str]:
    """Remarks on runs that have begun but aren't being executed, by run id."""
    begun = [run for run in state.open_runs if run.phase is not Phase.QUEUED]
    said = {run.run_id: interruption_text(seen, run.run_id, now_ms=now_ms, owner_gone=True) for run in begun}
    return {run_id: text for run_id, text in said.items() if text}


DEPTH_MAX = 16
ASKS_MAX = 1_000  # of sub-agents, at once


class SessionLogs(Protocol):
    """The required part of a store, read-only or not."""

    async def session(self, session_id: str) -> SessionRow | None:
        """One session's row."""
        ...

    async def read(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        """Some events of a log."""
        ...

    async def open_asks(
        self, *, limit: int = 200, session_id: str = "", source: str = ""
    ) -> Sequence[AskRow]:
        """Open approvals and questions."""
        ...


async def parent_link(logs: SessionLogs, session_id: str) -> ParentLink | None:
    """Whose sub-agent the session is; None if it is none."""
    records = await logs.read(session_id, limit=1)
    created = records[0].event if records else None
    return created.parent if isinstance(created, e.SessionCreated) else None


async def parent_of(logs: SessionLogs, session_id: str) -> str:
    """The session whose sub-agent this one is; empty if it is none."""
    parent = await parent_link(logs, session_id)
    return parent.session_id if parent is not None else ""


async def root_of(logs: SessionLogs, session_id: str) -> str:
    """The session itself or, if it is a sub-agent's, the one at the top of its tree."""
    for _ in range(DEPTH_MAX):
        row = await logs.session(session_id)
        parent_id = await parent_of(logs, session_id) if row is not None and row.source == CHILD else ""
        if not parent_id:
            break
        session_id = parent_id
    return session_id


async def with_family(logs: SessionLogs, rows: Sequence[SessionShown]) -> tuple[SessionShown, ...]:
    """The rows of the list: sub-agents name their parent, and what they ask counts at the session on top."""
    asking = [ask.session_id for ask in await logs.open_asks(limit=ASKS_MAX, source=CHILD)]
    more: Counter[str] = Counter()
    for session_id, count in Counter(asking).items():
        root = await root_of(logs, session_id)
        more[root] += count if root != session_id else 0
    shown: list[SessionShown] = []
    for row in rows:
        parent_id = await parent_of(logs, row.id) if row.source == CHILD else ""
        is_same = not parent_id and not more[row.id]
        changes = {"parent_session_id": parent_id, "open_asks": row.open_asks + more[row.id]}
        shown.append(row if is_same else replace(row, **changes))
    return tuple(shown)
