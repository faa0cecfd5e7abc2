"""The hermes frames of the runs that are read now, made once for all readers of a run."""

from weakref import WeakValueDictionary

from holdfast.folds.rows import RunRow
from holdfast.interfaces.journal import Record
from holdfast.server.streams.hermes import RunFrames, sse

KEPT_BYTES_MAX = 256 * 1024


class FrameGone(Exception):
    """The frame was made for others long ago and is not kept; a reader that slow makes its own."""


class SharedFrames:
    """The frames of one run as far as any reader has come; the newest are kept for those behind it.

    Every reader hands in every record of the run that comes after its cursor, in order.
    """

    def __init__(self, row: RunRow, *, kept_bytes_max: int = KEPT_BYTES_MAX) -> None:
        self.last_seq = self._before = row.first_seq - 1
        self._run_id = row.run_id
        self._fold = RunFrames()
        self._kept: dict[int, bytes] = {}
        self._kept_from = row.first_seq
        self._bytes = 0
        self._bytes_max = kept_bytes_max

    def covers(self, after: int) -> bool:
        """Whether a reader that has everything up to the seq can go on with these."""
        return self._kept_from - 1 <= max(after, self._before) <= self.last_seq

    def frame(self, record: Record) -> bytes | None:
        """The frame of the record, if it has one; raises FrameGone."""
        if record.seq > self.last_seq:
            return self._made(record)
        if record.seq < self._kept_from:
            raise FrameGone
        return self._kept.get(record.seq)

    def _made(self, record: Record) -> bytes | None:
        event = record.event
        frame = self._fold.add(record.seq, event)
        self.last_seq = record.seq
        if frame is None:
            return None
        made = sse(record.seq, self._run_id, at_ms=event.at_ms, frame=frame)
        self._kept[record.seq] = made
        self._bytes += len(made)
        while self._bytes > self._bytes_max:
            seq = next(iter(self._kept))
            self._bytes -= len(self._kept.pop(seq))
            self._kept_from = seq + 1
        return made


class RunsRead:
    """The shared frames of every run that has a reader; without one they are garbage."""

    def __init__(self) -> None:
        self._runs: WeakValueDictionary[str, SharedFrames] = WeakValueDictionary()

    def frames(self, row: RunRow, after: int) -> SharedFrames:
        """Frames for a reader that has everything up to the seq: those of the others if they reach so far."""
        shared = self._runs.get(row.run_id)
        if shared is not None and shared.covers(after):
            return shared
        own = SharedFrames(row)
        self._runs.setdefault(row.run_id, own)
        return own
