"""What a run was about: the first words of the message that it answers."""

from collections.abc import Sequence
from typing import Protocol

from holdfast import events as e
from holdfast.interfaces import Record, StoreDamaged
from holdfast.rows import RunRow

PREVIEW_CHARS_MAX = 80
HOPS_MAX = 8  # a run that was tried again so often is looked up through those before it
NEAR = 2  # a message and its run are written together
FAR = 500  # a message that came too late for another run is further away


class Log(Protocol):
    """Who can read a session's records."""

    async def read(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        """Records behind a seq, in order."""
        ...


async def preview_of(log: Log, row: RunRow) -> str:
    """One line of the message's beginning; nothing if it has no text, is nowhere near or cannot be read."""
    try:
        return await _found(log, row)
    except StoreDamaged:
        return ""  # a list is no place for it: whoever reads the session is told


async def _found(log: Log, row: RunRow) -> str:
    seq = row.first_seq
    for _ in range(HOPS_MAX):
        found = await log.read(row.session_id, after=max(0, seq - NEAR), limit=min(seq, NEAR))
        if not found or not isinstance(queued := found[-1].event, e.RunQueued):
            return ""  # the session was purged just now
        before = found[0].event
        if isinstance(before, e.SessionRewound) and before.to_seq < seq:
            seq = before.to_seq
        elif isinstance(before, e.MessageAccepted) and before.message_id == queued.message_id:
            return _line(before)
        else:
            return await _further_back(log, row, seq=seq, message_id=queued.message_id)
    return ""


async def _further_back(log: Log, row: RunRow, *, seq: int, message_id: str) -> str:
    records = await log.read(row.session_id, after=max(0, seq - FAR), limit=FAR)
    events = (record.event for record in records)
    said = (event for event in events if isinstance(event, e.MessageAccepted))
    return next((_line(event) for event in said if event.message_id == message_id), "")


def _line(message: e.MessageAccepted) -> str:
    words = " ".join(message.text[: PREVIEW_CHARS_MAX * 4].split())
    if not words:
        return "(attachments)" if message.parts else ""
    return words if len(words) <= PREVIEW_CHARS_MAX else words[: PREVIEW_CHARS_MAX - 1] + "…"
