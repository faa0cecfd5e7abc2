"""A run's events for those who ask again and again instead of following."""

import asyncio

import msgspec

from holdfast.codec import numbered
from holdfast.folds.rows import RunRow, run_of
from holdfast.interfaces.journal import Journal, Record
from holdfast.server.sessions.exports import ANSWER_BYTES_MAX, with_events
from holdfast.server.streams.feeds import View
from holdfast.server.streams.hermes import RunFrames

EVENTS_MAX = 1000
READ_AT_ONCE = 64  # a record may have a megabyte
_encode = msgspec.json.Encoder().encode


async def polled_answer(journal: Journal, row: RunRow, *, view: View, after: int) -> bytes:
    """The next events after a cursor of the run, as many as one answer takes, and the cursor behind them."""
    events: list[bytes] = []
    size, cursor, frames = 0, after, RunFrames()
    at = row.first_seq - 1
    if view == "native":
        at = max(at, after)  # frames of hermes build on earlier events, these do not
    while records := await journal.read(row.session_id, after=at, limit=READ_AT_ONCE):
        for record in records:
            one = _one(record, row, view=view, after=after, frames=frames)
            if one is not None:
                events.append(one)
                size, cursor = size + len(one), record.seq
                if len(events) >= EVENTS_MAX or size >= ANSWER_BYTES_MAX:
                    break
        else:
            at = records[-1].seq
            if row.status != "ended" or at < row.last_seq:
                # A log in memory makes us wait for nothing, and others want to run too.
                await asyncio.sleep(0)
                continue
        break
    about = {"object": "list", "run_id": row.run_id, "cursor": cursor, "last_event_id": cursor}
    return with_events(about, events)


def _one(record: Record, row: RunRow, *, view: View, after: int, frames: RunFrames) -> bytes | None:
    if run_of(record.event) != row.run_id:
        return None
    if view == "native":
        return numbered(record.seq, record.body)
    event = record.event
    frame = frames.add(record.seq, event)
    if frame is None or record.seq <= after:
        return None
    head = {"run_id": row.run_id, "event": frame["event"], "timestamp": event.at_ms / 1000, "seq": record.seq}
    return _encode(head | frame)
