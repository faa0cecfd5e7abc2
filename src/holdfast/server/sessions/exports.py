"""A session as a file, made piece by piece: its whole log as JSON, or the conversation as Markdown."""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from itertools import islice

import msgspec

from holdfast.api.runs import RunEvents
from holdfast.api.sessions import LogStretch, SessionExport, SessionShown
from holdfast.codec import numbered
from holdfast.folds.entries import Ending, Entry, Person, Text, ToolCard
from holdfast.folds.session import Session
from holdfast.folds.transcript import Transcript
from holdfast.interfaces.journal import Journal, Record, UnknownSession

RECORDS_AT_ONCE = 256
ENTRIES_AT_ONCE = 256
ANSWER_BYTES_MAX = 8 * 1024 * 1024
_FENCE = "~~~~"
_FENCES = re.compile(r"~{4,}")
_END = b"]}"  # of a body whose last field is its events
_encode = msgspec.json.Encoder().encode


async def json_of(journal: Journal, session_id: str, *, shown: SessionShown) -> AsyncGenerator[bytes]:
    """The session as it is listed, and its log as it stands now; raises UnknownSession if it is purged."""
    last_seq = await journal.last_seq(session_id)
    yield _encode(SessionExport(session=shown, events=())).removesuffix(_END)
    at = 0
    while at < last_seq:
        limit = min(RECORDS_AT_ONCE, last_seq - at)
        records = await journal.read(session_id, after=at, limit=limit)
        if not records:
            raise UnknownSession(f"session {session_id} was purged while it was exported")
        comma = b"," if at else b""
        yield comma + b",".join(numbered(record.seq, record.body) for record in records)
        at = records[-1].seq
        await asyncio.sleep(0)  # neither a log in memory nor an idle socket makes this wait, so it must yield
    yield _END


def within(records: Sequence[Record]) -> Sequence[Record]:
    """The first events that fit into one response, at least one."""
    size = 0
    for count, record in enumerate(records):
        size += len(record.body)
        if size > ANSWER_BYTES_MAX and count:
            return records[:count]
    return records


def with_events(body: LogStretch | RunEvents, events: Sequence[bytes]) -> bytes:
    """A response with events in it that are JSON already, in place of none."""
    return _encode(body).removesuffix(_END) + b",".join(events) + _END


async def markdown_in_pieces(state: Session, seen: Transcript) -> AsyncGenerator[bytes]:
    """The conversation as a document, a stretch at a time."""
    parts = _markdown(state, list(seen.entries))
    while piece := "\n".join(islice(parts, ENTRIES_AT_ONCE)):
        yield piece.encode() + b"\n"
        await asyncio.sleep(0)


def markdown_of(state: Session, entries: Sequence[Entry]) -> str:
    """A page of the conversation as a document."""
    return "\n".join(_markdown(state, entries))


def _markdown(state: Session, entries: Sequence[Entry]) -> Iterator[str]:
    yield f"# {state.title or 'Session'}\n"
    for one in entries:
        match one:
            case Person():
                yield f"## You\n\n{one.message.text}\n"
            case Text() if one.text.strip():
                yield f"## Assistant\n\n{one.text}\n"
            case ToolCard():
                fence = max([_FENCE, *(f"{found}~" for found in _FENCES.findall(one.result))], key=len)
                yield f"**{one.name}** ({one.ending or one.state})\n\n{fence}\n{one.result}\n{fence}\n"
            case Ending() if one.outcome != "completed":
                yield f"*{one.words}*\n"
            case _:
                pass
