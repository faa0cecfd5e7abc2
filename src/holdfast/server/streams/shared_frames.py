"""The hermes frames of a run: made once for all readers at the head, or by a reader that lags behind.

The part of a run in one response, as frames of another protocol.
"""

import sys
from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from typing_extensions import override

from holdfast import events as e
from holdfast.agent.shared_fold import SharedFold
from holdfast.codec import UnreadableEvent
from holdfast.folds.phases import IllegalEvent
from holdfast.folds.rows import RunRow, run_of
from holdfast.folds.run import Tally
from holdfast.folds.session_fold import RunFold, RunReplay
from holdfast.interfaces.journal import Journal, Record
from holdfast.server.streams import hermes
from holdfast.server.streams.feeds import Live, RunFeed
from holdfast.server.streams.folds import Folds
from holdfast.server.streams.hermes import Frame
from holdfast.server.streams.stream import CLOSED, Feed

KEPT_BYTES_MAX = 2 * 1024 * 1024  # as much as the window of a log; the texts are shared with the fold
FRAME_BYTES = 500  # the size of a frame besides its text


class FrameGone(Exception):
    """The frame was made long ago and is no longer kept; a reader that far behind replays the run."""


class Added(NamedTuple):
    """The output that one event added to the answer. A reader's fold of the run may be ahead of the event."""

    text: str = ""
    reasoning: str = ""


NOTHING_ADDED = Added()


def added_by(event: e.Event, run: RunFold) -> Added:
    """Return what the event added; `run` is the run as it is after the event."""
    if run.added_text:
        return Added(run.added_text)
    if isinstance(event, e.ReasoningDelta) and run.state.answers:
        return Added(reasoning=event.text)
    return NOTHING_ADDED


class RunFrame:
    """The frame of one event; its bytes are made when they're first needed."""

    __slots__ = ("_run_id", "_sse", "added", "at_ms", "frame", "seq", "size")

    def __init__(self, record: Record, *, run_id: str, at_ms: int, frame: Frame, added: Added) -> None:
        self.seq = record.seq
        self.added = added
        self.at_ms = at_ms
        self.frame = frame
        self.size = len(record.body) + FRAME_BYTES
        self._run_id = run_id
        self._sse: bytes | None = None

    @property
    def sse(self) -> bytes:
        """The frame as streams send it."""
        if self._sse is None:
            self._sse = hermes.sse(self.seq, self._run_id, at_ms=self.at_ms, frame=self.frame)
        return self._sse


class SharedFrames:
    """The frames of one open run from some record on, made while its session's shared fold advances.

    The newest are kept for readers behind the fold. Without a reader this is garbage, and no frame is made.
    """

    def __init__(self, view: SharedFold, run_id: str, *, kept_bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._view = view
        self._run_id = run_id
        self._kept: dict[int, RunFrame] = {}
        self._kept_from = view.last_seq + 1
        self._bytes = 0
        self._bytes_max = kept_bytes_max
        self._is_broken = False
        self._unread_from = sys.maxsize  # frames that the reader who offered their records is about to read
        view.listen(self)

    @property
    def run(self) -> RunFold:
        """The run at the head of its log."""
        return self._view.runs[self._run_id]

    def covers(self, after: int) -> bool:
        """Whether a reader that has everything up to the seq can continue with these."""
        return self._kept_from - 1 <= after <= self._view.last_seq and not self._is_broken

    def offer(self, records: Sequence[Record], *, after: int) -> None:
        """Bring the shared fold up to these records, which the log has after the seq."""
        if records and records[-1].seq > self._view.last_seq:
            self._unread_from = records[0].seq
            try:
                self._view.apply(records, after=after)
            except (IllegalEvent, UnreadableEvent):
                # The error may be about another run, or come after the ending; a replay shows what it can.
                self._is_broken = True
            finally:
                self._unread_from = sys.maxsize

    def frame(self, record: Record) -> RunFrame | None:
        """The frame of the record, if it has one; raises FrameGone."""
        if record.seq < self._kept_from or self._is_broken:
            raise FrameGone
        return self._kept.get(record.seq)

    def applied(self, record: Record) -> None:
        """Make the record's frame, if it has one."""
        event = record.event
        if run_of(event) != self._run_id:
            return
        try:
            made = _made(record, event, run=self._view.runs[self._run_id])
        except Exception:  # noqa: BLE001  # the owner of the run may be calling; readers that replay meet it too
            self._is_broken = True
            return
        if made is None:
            return
        self._kept[record.seq] = made
        self._bytes += made.size
        while self._bytes > self._bytes_max and (oldest := next(iter(self._kept))) < self._unread_from:
            self._bytes -= self._kept.pop(oldest).size
            self._kept_from = oldest + 1


def _made(record: Record, event: e.Event, *, run: RunFold) -> RunFrame | None:
    frame = hermes.frame_of(event, run)
    if frame is None:
        return None
    return RunFrame(
        record, run_id=run.state.run_id, at_ms=event.at_ms, frame=frame, added=added_by(event, run)
    )


class FrameReader:
    """A reader's position in the frames of a run; `after` is a cursor of the run, or 0.

    It uses the shared frames as far as they reach, and replays the run up to there.
    """

    def __init__(self, row: RunRow, shared: SharedFrames | None, *, after: int) -> None:
        first = row.first_seq - 1
        self._run_id = row.run_id
        self._shared = shared
        self._after = max(after, first)
        self._replay = None
        self.at = self._after  # the seq of the last record read
        if shared is None or not shared.covers(self._after):
            self._replay, self.at = RunReplay(row.run_id), first
        self._seen = self._after

    @property
    def run(self) -> RunFold:
        """The run, at least as far as this reader has read."""
        found = self._replay.fold if self._replay else self._shared.run if self._shared else None
        assert found is not None, "the run's first event was read"
        return found

    def read(self, records: Sequence[Record]) -> list[tuple[Record, RunFrame | None]]:
        """The run's records among those that the log has next, each with the frame that the reader gets.

        They end with the run's ending: nothing after it has a frame.
        Raises FrameGone if the reader fell too far behind: continue with what `behind` returns.
        """
        shared, replay = self._shared, self._replay
        if shared is not None:
            shared.offer(records, after=self.at)
        found: list[tuple[Record, RunFrame | None]] = []
        for record in records:
            event, made = record.event, None
            if replay is not None:
                run = replay.apply(record.seq, event)
                if run is None:
                    continue
                made = _made(record, event, run=run)
            elif run_of(event) != self._run_id:
                continue
            elif shared is not None:
                made = shared.frame(record)
            found.append((record, made if record.seq > self._after else None))
            if isinstance(event, e.RunEnded):
                break
        if records:
            self.at = records[-1].seq
            self._seen = max(self._seen, self.at)
            if replay is not None and shared is not None and shared.covers(self.at):
                self._replay = None
        return found

    def behind(self, row: RunRow) -> "FrameReader":
        """The same reader, with its own replay until it has caught up."""
        return FrameReader(row, self._shared, after=self._seen)


class HermesFeed(RunFeed):
    """A run as hermes clients know it, with the frames that its readers share."""

    def __init__(
        self, journal: Journal, row: RunRow, *, after: int, live: Live, frames: SharedFrames | None
    ) -> None:
        self._reader = FrameReader(row, frames, after=after)
        super().__init__(journal, row, after=self._reader.at, live=live)

    def _frames(self, records: Sequence[Record]) -> list[bytes]:
        try:
            read = self._reader.read(records)
        except FrameGone:
            self._reader = self._reader.behind(self._row)
            self._records = self._follow(self._reader.at)
            return []
        frames = [made.sse for _, made in read if made is not None]
        if read and isinstance(read[-1][0].event, e.RunEnded):
            self.is_over = True
            frames.append(CLOSED)
        return frames


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
    def _encoded(self, record: Record, added: Added, run: RunFold) -> list[bytes]:
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


def _is_of_client(event: e.Event, run: RunFold) -> bool:
    """Whether the event only repeats what the client itself sent."""
    if isinstance(event, e.ClientToolsAnswered | e.ClientToolsExpired | e.ClientToolsWithdrawn):
        return True
    asked = run.view.client_asks.values()
    return isinstance(event, e.ToolEnded) and any(event.tool_call_id in one.tool_call_ids for one in asked)
