"""A run's events for clients that poll instead of following."""

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from holdfast.api.runs import RunEvents
from holdfast.codec import numbered
from holdfast.folds.rows import RunRow, run_of
from holdfast.interfaces.journal import Journal, Record
from holdfast.server.sessions.exports import ANSWER_BYTES_MAX, with_events
from holdfast.server.streams.shared_frames import FrameGone, FrameReader, SharedFrames

EVENTS_MAX = 1000
READ_AT_ONCE = 64  # a record may have a megabyte
_encode = msgspec.json.Encoder().encode


class NativePoll:
    """The events of a run after a cursor, as they are journaled."""

    def __init__(self, row: RunRow, *, after: int) -> None:
        self._run_id = row.run_id
        self.at = max(row.first_seq - 1, after)

    def read(self, records: Sequence[Record]) -> list[tuple[int, bytes]]:
        """Return the client's frames of the next log records, with their seqs."""
        self.at = records[-1].seq
        return [
            (record.seq, numbered(record.seq, record.body))
            for record in records
            if run_of(record.event) == self._run_id
        ]


class HermesPoll:
    """The same as hermes clients know them."""

    def __init__(
        self,
        row: RunRow,
        frames: SharedFrames | None,
        *,
        after: int,
        names: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._row = row
        self._names = names  # other names that the client has for some events
        self._reader = FrameReader(row, frames, after=after)

    @property
    def at(self) -> int:
        """The seq of the last record read."""
        return self._reader.at

    def read(self, records: Sequence[Record]) -> list[tuple[int, bytes]]:
        """Return the client's frames of the next log records, with their seqs."""
        try:
            read = self._reader.read(records)
        except FrameGone:
            self._reader = self._reader.behind(self._row)
            return []
        found: list[tuple[int, bytes]] = []
        for record, made in read:
            if made is not None:
                name = made.frame["event"]
                head = {"run_id": self._row.run_id, "event": name}
                head |= {"timestamp": made.at_ms / 1000, "seq": record.seq}
                named = {"event": self._names[name]} if name in self._names else {}
                found.append((record.seq, _encode(head | made.frame | named)))
        return found


async def polled_response(
    journal: Journal, row: RunRow, poll: NativePoll | HermesPoll, *, after: int
) -> bytes:
    """The next events after a cursor of the run, as many as fit, and the cursor after them."""
    events: list[bytes] = []
    size, cursor = 0, after
    is_full = False
    while not is_full and (records := await journal.read(row.session_id, after=poll.at, limit=READ_AT_ONCE)):
        for seq, event in poll.read(records):
            events.append(event)
            size, cursor = size + len(event), seq
            is_full = len(events) >= EVENTS_MAX or size >= ANSWER_BYTES_MAX
            if is_full:
                break
        if row.status == "ended" and poll.at >= row.last_seq:
            break
        # A log in memory is read without waiting, so this must yield.
        await asyncio.sleep(0)
    body = RunEvents(run_id=row.run_id, cursor=cursor, last_event_id=cursor, events=())
    return with_events(body, events)
