"""The part of a run in one response, as frames of another protocol."""

from abc import abstractmethod
from collections.abc import Sequence

from typing_extensions import override

from holdfast import events as e
from holdfast.folds.rows import RunRow
from holdfast.folds.run import Tally
from holdfast.folds.session_fold import RunReadModel
from holdfast.interfaces.journal import Journal, Record
from holdfast.server.streams.folds import Folds
from holdfast.server.streams.shared_frames import NOTHING_ADDED, Added, FrameGone, FrameReader
from holdfast.server.streams.stream import Feed


class SpanFeed(Feed):
    """The events of a run from some event on, up to the run's end or to a wait for its client."""

    def __init__(
        self, journal: Journal, folds: Folds, row: RunRow, *, after: int, pending: list[bytes]
    ) -> None:
        self._journal = journal
        self._folds = folds
        self._row = row
        self.begins_after = after  # of the run's events, those up to here belong to earlier responses
        self.is_over = False  # whether the response was sent to its end
        self._used = Tally()
        self._told_upto = after  # a reader that fell behind reads some events again
        self._reader: FrameReader | None = None
        self._records = journal.follow(row.session_id, after=row.first_seq - 1)
        self._pending = pending

    @abstractmethod
    def _encoded(self, record: Record, added: Added, run: RunReadModel) -> list[bytes]:
        """Return the frames of an event; sets `is_over` after the last. `run` may be ahead of the event."""

    @override
    async def more(self) -> Sequence[bytes] | None:
        if self._pending:
            pending, self._pending = self._pending, []
            return pending
        if self.is_over:
            return None
        if self._reader is None:
            frames = await self._folds.frames(self._row)
            self._reader = FrameReader(self._row, frames, after=self.begins_after)
            self._records = self._journal.follow(self._row.session_id, after=self._reader.at)
        records = await anext(self._records, None)
        return None if records is None else self._frames(self._reader, records)

    def _frames(self, reader: FrameReader, records: Sequence[Record]) -> list[bytes]:
        try:
            read = reader.read(records)
        except FrameGone:
            self._reader = reader.behind(self._row)
            self._records = self._journal.follow(self._row.session_id, after=self._reader.at)
            return []
        made: list[bytes] = []
        for record, frame in read:
            if record.seq <= self._told_upto:
                continue
            self._told_upto = record.seq
            if isinstance(record.event, e.Usage):
                self._used.add(record.event)
            if not _is_of_client(record.event, reader.run):
                made += self._encoded(record, NOTHING_ADDED if frame is None else frame.added, reader.run)
            if self.is_over:
                break
        return made

    @override
    def wake(self) -> None:
        self._records.wake()

    @override
    def ephemeral_frames(self, silent_s: float) -> Sequence[bytes]:
        del silent_s
        return ()

    @override
    def next_check_s(self, silent_s: float) -> float | None:
        del silent_s
        return None


def _is_of_client(event: e.Event, run: RunReadModel) -> bool:
    """Whether the event only repeats what the client itself sent."""
    if isinstance(event, e.ClientToolsAnswered | e.ClientToolsExpired | e.ClientToolsWithdrawn):
        return True
    asked = run.view.client_asks.values()
    return isinstance(event, e.ToolEnded) and any(event.tool_call_id in one.tool_call_ids for one in asked)
