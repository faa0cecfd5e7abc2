"""Snapshots around the turns of a run that may change files: before the first change, and after the last.

The snapshot before is on disk and named on the log before the change can happen. If there can't be one, the
log says why, and the run continues.
"""

import asyncio
from pathlib import Path
from typing import Literal

from holdfast import events as e
from holdfast.agent.deps import AgentDeps
from holdfast.agent.runlog import RunLog
from holdfast.agent.shared_fold import SharedFold
from holdfast.folds.run import Run
from holdfast.interfaces.workspace_paths import WorkspaceMoved, unmoved
from holdfast.tools.offload import offload
from holdfast.undo.changes import composed, turns_of
from holdfast.undo.git_heads import GitHead, read_head
from holdfast.undo.object_store import MissingObject
from holdfast.undo.packs import DamagedPack
from holdfast.undo.snapshots import NoSnapshot, Place, Snapshot, Snapshots

_HEAD_S = 2.0
AT_THE_END_S = 5.0  # a run that is stopped or has failed waits no longer than this for its last snapshot


class TurnSnapshots:
    """Takes the snapshots of one run; does nothing if undo is off."""

    def __init__(self, view: SharedFold, log: RunLog, deps: AgentDeps) -> None:
        self._view = view
        self._log = log
        self._snapshots = deps.snapshots
        run = view.run(log.run_id)
        self._workspace = Path(run.settings.workspace or deps.workspace)

    @property
    def _run(self) -> Run:
        return self._view.run(self._log.run_id)

    async def before_change(self) -> bool:
        """Store the workspace as it is before this turn's first change. Return whether that's possible.

        Raises WorkspaceMoved.
        """
        snapshots, run = self._snapshots, self._run
        if snapshots is None:
            return False
        newest = run.snapshots[-1] if run.snapshots else None
        if newest is not None and newest.turn == run.turns and newest.when == "before":
            return bool(newest.snapshot)
        if run.open_snapshot is not None:
            await self.after_turn()  # an earlier process could not
        overlaps = snapshots.turns.begin(run.run_id, await snapshots.real_path(self._workspace))
        head = await self._head()
        taken = await self._take(snapshots, "before")
        self._emit("before", taken, head, overlaps=overlaps)
        await self._view.settled(self._log)
        return isinstance(taken, Snapshot)

    async def after_turn(self, *, seconds: float | None = None) -> None:
        """Store what the turn made of the workspace, if it could change anything."""
        snapshots, run = self._snapshots, self._run
        if snapshots is None:
            return
        if run.open_snapshot is None:
            snapshots.turns.end(run.run_id)
            return
        taken = await self._take(snapshots, "after", seconds=seconds)
        changed = 0
        if isinstance(taken, Snapshot):
            changed = await asyncio.to_thread(_changed, snapshots, run, taken)
        head = await self._head()
        self._emit("after", taken, head, overlaps=snapshots.turns.end(run.run_id), changed=changed)
        await self._view.settled(self._log)

    async def _head(self) -> GitHead:
        """Where git stands; a disk that doesn't answer is no reason to wait."""
        try:
            async with asyncio.timeout(_HEAD_S):
                return await offload(lambda: read_head(unmoved(self._workspace)), linger_s=0.0)
        except (TimeoutError, WorkspaceMoved):
            return GitHead()

    async def _take(
        self, snapshots: Snapshots, when: Literal["before", "after"], *, seconds: float | None = None
    ) -> Snapshot | NoSnapshot:
        run = self._run
        # A second snapshot of a turn, after a crash, must not replace what keeps the first.
        place = Place(self._log.session_id, run.run_id, f"{len(run.snapshots)}-{when}")
        return await snapshots.take(self._workspace, place, seconds=seconds)

    def _emit(
        self,
        when: Literal["before", "after"],
        taken: Snapshot | NoSnapshot,
        head: GitHead,
        *,
        overlaps: tuple[str, ...],
        changed: int = 0,
    ) -> None:
        run, newest = self._run, self._run.open_snapshot
        stored = isinstance(taken, Snapshot)
        self._log.emit(
            e.SnapshotTaken(
                at_ms=self._log.now_ms(),
                run_id=run.run_id,
                turn=run.turns if newest is None else newest.turn,
                when=when,
                workspace=str(self._workspace),
                snapshot=taken.name.hex() if stored else "",
                files=taken.files if stored else 0,
                not_covered=taken.not_covered if stored else 0,
                changed=changed,
                overlaps=overlaps,
                why_not="" if stored else taken.why,
                branch=head.branch,
                commit=head.commit,
            )
        )


def _changed(snapshots: Snapshots, run: Run, taken: Snapshot) -> int:
    """How many files the run has changed so far. Blocks."""
    try:
        turns = turns_of([run], snapshots, now=taken.root)
        return len(composed(turns.roots, snapshots.tree))
    except (MissingObject, DamagedPack):
        return 0
