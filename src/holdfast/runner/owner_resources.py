"""Resources shared by the owners of all sessions.

The shared folds of this process: one per session; recently used ones are kept.
"""

from collections import OrderedDict
from weakref import WeakValueDictionary

from msgspec import Struct, field

from holdfast.agent.runlog import DeltaBatcher
from holdfast.agent.shared_fold import SharedFold
from holdfast.folds.activity import WORDS
from holdfast.interfaces.journal import Store
from holdfast.runner.crash_history import CrashHistory, SuspectTurns
from holdfast.runner.orphaned_processes import OrphanedProcesses
from holdfast.runner.slots import Slots
from holdfast.values import OnRestart

SESSIONS_MAX = 256
EVENTS_MAX = 200_000  # of all kept logs together; the fold of one event takes a few hundred bytes
BYTES_MAX = 128 * 1024 * 1024  # of their records; a text takes as much memory in a fold as on the log


class SharedFolds:
    """One fold for each session in use, and the most recently used of the others, within limits."""

    def __init__(
        self,
        *,
        sessions_max: int = SESSIONS_MAX,
        events_max: int = EVENTS_MAX,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        self._in_use: WeakValueDictionary[str, SharedFold] = WeakValueDictionary()
        # the most recent one last, each with the events and bytes counted for it
        self._kept: OrderedDict[str, tuple[SharedFold, int, int]] = OrderedDict()
        self._events = 0
        self._bytes = 0
        self._sessions_max = sessions_max
        self._events_max = events_max
        self._bytes_max = bytes_max

    def of(self, session_id: str) -> SharedFold:
        """The session's fold as far as it was read; a new one if there is none."""
        fold = self._in_use.get(session_id)
        if fold is None or fold.is_broken:
            fold = self._in_use[session_id] = SharedFold()
        self._count(session_id, fold)
        return fold

    async def current(self, store: Store, session_id: str) -> SharedFold:
        """The session's fold; a new one if another node has purged the log and it was created again."""
        fold = self.of(session_id)
        if not store.node.name or not fold.last_seq:
            return fold
        row = await store.session(session_id)
        if row is None or row.epoch != fold.session.epoch:
            if self._in_use.get(session_id) is fold:
                self.forget(session_id)
            fold = self.of(session_id)
        return fold

    def known(self, session_id: str) -> SharedFold | None:
        """The session's fold, if there is one; this doesn't count as use."""
        return self._in_use.get(session_id)

    def keep(self, session_id: str, fold: SharedFold) -> None:
        """Keep the fold as the most recent one, at its current size; drops the oldest beyond the limits."""
        if self._in_use.get(session_id) is not fold:
            self._in_use[session_id] = fold
        self._count(session_id, fold)

    def _count(self, session_id: str, fold: SharedFold) -> None:
        if self._kept.get(session_id) == (fold, fold.last_seq, fold.bytes):
            self._kept.move_to_end(session_id)
            return
        self._drop(session_id)
        self._kept[session_id] = fold, fold.last_seq, fold.bytes
        self._events += fold.last_seq
        self._bytes += fold.bytes
        while len(self._kept) > 1 and self._is_too_much():
            self._drop(next(iter(self._kept)))

    def _is_too_much(self) -> bool:
        return (
            len(self._kept) > self._sessions_max
            or self._events > self._events_max
            or self._bytes > self._bytes_max
        )

    def _drop(self, session_id: str) -> None:
        _, events, size = self._kept.pop(session_id, (None, 0, 0))
        self._events -= events
        self._bytes -= size

    def count(self, session_id: str) -> None:
        """Update the counted size of the session's fold, if it's still kept."""
        if session_id in self._kept:
            self.of(session_id)

    def forget(self, session_id: str) -> None:
        """Drop the session's fold, because its log is gone or the fold can't be trusted."""
        self._drop(session_id)
        self._in_use.pop(session_id, None)


SUSPECT_FROM = 2


class QueuePosition(Struct, frozen=True):
    """The position of a run in the queue for a slot, starting at 1, and why it has to wait."""

    position: int
    why: str


class OwnerResources(Struct):
    """Shared by all owners: slots for runs, and turns for suspects, which may have crashed the server.

    A suspect keeps its turn until it completes something, for up to `suspect_alone_s`. `crash_history` knows
    which earlier processes crashed. `absent_features` has the sessions with unfinished work of a feature that
    this program doesn't have, and the need for it (see `agent/capabilities.py`).
    """

    slots: Slots
    suspects: SuspectTurns
    folds: SharedFolds = field(default_factory=SharedFolds)
    suspect_alone_s: float = 60.0
    on_restart: OnRestart = "resume"
    crash_history: CrashHistory = field(default_factory=CrashHistory)
    orphans: OrphanedProcesses = field(default_factory=OrphanedProcesses)
    batcher: DeltaBatcher = field(default_factory=DeltaBatcher)
    absent_features: dict[str, str] = field(default_factory=dict[str, str])

    def queue_position(self, run_id: str) -> QueuePosition | None:
        """The run's position in the queue for a slot; None if it isn't waiting for one."""
        if position := self.suspects.position(run_id):
            why = (
                f"the server crashed {SUSPECT_FROM} times in a row while this run was working, so such runs "
                f"resume one at a time; each waits up to {self.suspect_alone_s:g} s for the one before"
            )
            return QueuePosition(position, why)
        if position := self.slots.position(run_id):
            return QueuePosition(position, "other runs are using all slots")
        return None

    def queued_line(self, run_id: str) -> str:
        """The live line of a run that waits for a slot."""
        queue_position = self.queue_position(run_id)
        return (
            f"{WORDS['queued']} · place {queue_position.position} · {queue_position.why}"
            if queue_position is not None
            else ""
        )
