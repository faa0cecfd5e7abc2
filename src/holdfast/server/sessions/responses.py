"""Responses about sessions: a row of the list, a page of the transcript."""

from typing import Any, TypeVar

from msgspec.structs import replace

from holdfast.api.sessions import Forked, HitShown, SessionMade, SessionShown
from holdfast.folds.entries import Ending, Entry, Notice, Person, Text
from holdfast.folds.entries import shown as entry_shown
from holdfast.folds.phases import Phase
from holdfast.folds.session import Session
from holdfast.folds.transcript import Transcript, interruption_text, resumption_text
from holdfast.interfaces.index import ListedSession, SearchHit, SessionCursor
from holdfast.server.problems import bad_request
from holdfast.server.sessions.read_marks import ReadMarks

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
