"""Resources shared by the owners of all sessions."""

from msgspec import Struct, field

from holdfast.agent.runlog import DeltaBatcher
from holdfast.folds.activity import WORDS
from holdfast.runner.crash_history import CrashHistory
from holdfast.runner.orphaned_processes import OrphanedProcesses
from holdfast.runner.shared_folds import SharedFolds
from holdfast.runner.slots import Slots
from holdfast.runner.suspects import SuspectTurns
from holdfast.values import OnRestart

SUSPECT_FROM = 2


class QueuePosition(Struct, frozen=True):
    """The position of a run in the queue for a slot, starting at 1, and why it has to wait."""

    position: int
    why: str


class RunnerShared(Struct):
    """Shared by all owners: slots for runs, and turns for suspects, which may have crashed the server.

    A suspect keeps its turn until it completes something, for up to `suspect_alone_s`. `crash_history` knows
    which earlier processes crashed. `absent_features` has the sessions with unfinished work of a feature that
    this program doesn't have, and the need for it (see `agent/offers.py`).
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
