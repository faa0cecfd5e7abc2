"""The state of runs and sessions for readers: shared folds, and replays of single runs."""

from collections import OrderedDict
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from holdfast.folds.rows import RunRow
from holdfast.folds.session import Session
from holdfast.folds.session_fold import RunFold, RunReplay
from holdfast.folds.transcript import Transcript
from holdfast.interfaces.journal import Store
from holdfast.runner.supervisor import Supervisor
from holdfast.server.problems import run_not_found

if TYPE_CHECKING:
    from holdfast.server.streams.shared_frames import SharedFrames

REPLAYS_MAX = 128
REPLAYED_BYTES_MAX = 64 * 1024 * 1024
POLLED_MAX = 32
READ_AT_ONCE = 64  # a record may have a megabyte, and a whole batch is in memory at once


class Folds:
    """Folds on demand. Those of sessions are shared with their owners.

    An ended run of an unused session is replayed from its own first event: that reads less
    than the whole log.
    """

    def __init__(self, store: Store, supervisor: Supervisor) -> None:
        self._store = store
        self._supervisor = supervisor
        self._replays: OrderedDict[str, tuple[RunFold, int, int]] = (
            OrderedDict()
        )  # the seq it's folded up to, and its bytes
        self._replayed_bytes = 0
        self._frames: WeakValueDictionary[str, SharedFrames] = WeakValueDictionary()
        self._polled: OrderedDict[str, SharedFrames] = OrderedDict()

    async def run(self, row: RunRow) -> RunFold:
        """The run, up to date with its log; raises a Problem if the log is gone."""
        if row.status != "ended":
            view = await self._supervisor.view(row.session_id)
            if row.run_id not in view.runs:
                raise run_not_found(row.run_id)
            return view.runs[row.run_id]
        known = self._supervisor.resources.folds.known(row.session_id)
        if known is not None and row.run_id in known.runs and known.last_seq >= row.last_seq:
            return known.runs[row.run_id]
        return await self._replayed(row)

    async def _replayed(self, row: RunRow) -> RunFold:
        kept = self._replays.get(row.run_id)
        if kept is not None and kept[1] >= row.last_seq:
            self._replays.move_to_end(row.run_id)
            return kept[0]
        replay, at, size = RunReplay(row.run_id), row.first_seq - 1, 0
        while at < row.last_seq and (
            records := await self._store.read(row.session_id, after=at, limit=READ_AT_ONCE)
        ):
            for record in records:
                if replay.apply(record.seq, record.event) is not None:
                    size += len(record.body)
            at = records[-1].seq
        if replay.fold is None:
            raise run_not_found(row.run_id)
        self._keep(row.run_id, replay.fold, until=row.last_seq, size=size)
        return replay.fold

    def _keep(self, run_id: str, fold: RunFold, *, until: int, size: int) -> None:
        _, _, earlier = self._replays.pop(run_id, (None, 0, 0))
        self._replays[run_id] = fold, until, size
        self._replayed_bytes += size - earlier
        while len(self._replays) > REPLAYS_MAX or self._replayed_bytes > REPLAYED_BYTES_MAX:
            _, (_, _, oldest) = self._replays.popitem(last=False)
            self._replayed_bytes -= oldest

    async def frames(self, row: RunRow) -> "SharedFrames | None":
        """The frames that all readers of an open run share; None if the run has ended."""
        if row.status == "ended":
            return None
        from holdfast.server.streams.shared_frames import SharedFrames

        view = await self._supervisor.view(row.session_id)
        shared = self._frames.get(row.run_id)
        if shared is None:
            shared = self._frames[row.run_id] = SharedFrames(view, row.run_id)
        return shared

    async def polled_frames(self, row: RunRow) -> "SharedFrames | None":
        """The same for a polling reader: the frames are kept until its next request."""
        shared = await self.frames(row)
        if shared is not None:
            self._polled[row.run_id] = shared
            self._polled.move_to_end(row.run_id)
            if len(self._polled) > POLLED_MAX:
                self._polled.popitem(last=False)
        else:
            self._polled.pop(row.run_id, None)
        return shared

    def forget(self) -> None:
        """Forget everything about a purged session."""
        self._replays.clear()
        self._replayed_bytes = 0
        self._polled.clear()
        self._frames.clear()

    async def session(self, session_id: str) -> tuple[Session, Transcript]:
        """State and transcript of a session, up to date with its log; don't change them."""
        view = await self._supervisor.view(session_id)
        return view.session, view.transcript
