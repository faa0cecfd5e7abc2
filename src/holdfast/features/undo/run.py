"""Snapshots around the turns of a run that may change files: before the first change, and after the last.

The snapshot before is on disk and named on the log before the change can happen. If there can't be one, the
log says why, and the run continues.
"""

import asyncio
from pathlib import Path
from typing import Literal

from holdfast.features.undo.changes import composed, turns_of
from holdfast.features.undo.events import SnapshotTaken
from holdfast.features.undo.folds import open_snapshot, snapshots_of
from holdfast.features.undo.git_heads import GitHead, read_head
from holdfast.features.undo.object_store import MissingObject
from holdfast.features.undo.packs import DamagedPack
from holdfast.features.undo.snapshots import NoSnapshot, Snapshot, SnapshotKey, Snapshots
from holdfast.folds.run import Run
from holdfast.interfaces.feature import FileEdit, RunContext, RunHooks
from holdfast.interfaces.workspace_paths import WorkspaceMoved, unmoved
from holdfast.tools.offload import offload

_HEAD_S = 2.0


async def before_change(context: RunContext, edit: FileEdit | None) -> bool:
    """Store the workspace before the turn's first change. Return whether that's possible and covers the edit.

    Raises WorkspaceMoved.
    """
    snapshots: Snapshots | None = context.deps.features.get("undo")
    if snapshots is None:
        return False
    run = context.view.run(context.log.run_id)
    newest = next(reversed(snapshots_of(run)), None)
    if newest is not None and newest.turn == run.turns and newest.when == "before":
        name = bytes.fromhex(newest.snapshot)
    else:
        if open_snapshot(run) is not None:
            await after_turn(context)  # an earlier process could not
        taken = await _take_before(context, snapshots, run)
        name = taken.name if isinstance(taken, Snapshot) else b""
    if not name or edit is None:
        return bool(name)
    real = await snapshots.real_path(Path(run.settings.workspace or context.deps.workspace))
    return await asyncio.to_thread(snapshots.restores, real, name, edit)


async def _take_before(context: RunContext, snapshots: Snapshots, run: Run) -> Snapshot | NoSnapshot:
    turn = _Turn(context, snapshots, run)
    overlaps = snapshots.turns.begin(run.run_id, await snapshots.real_path(turn.workspace))
    head = await turn.head()
    taken = await turn.take("before")
    await turn.record("before", taken, head, overlaps=overlaps)
    return taken


async def after_turn(context: RunContext, seconds: float | None = None) -> None:
    """Store the workspace as it is after the turn, if the turn could change anything."""
    snapshots: Snapshots | None = context.deps.features.get("undo")
    if snapshots is None:
        return
    run = context.view.run(context.log.run_id)
    if open_snapshot(run) is None:
        snapshots.turns.end(run.run_id)
        return
    turn = _Turn(context, snapshots, run)
    taken = await turn.take("after", seconds=seconds)
    changed = 0
    if isinstance(taken, Snapshot):
        changed = await asyncio.to_thread(_changed, snapshots, run, taken)
    head = await turn.head()
    await turn.record("after", taken, head, overlaps=snapshots.turns.end(run.run_id), changed=changed)


class _Turn:
    """A turn of a run that may change files."""

    def __init__(self, context: RunContext, snapshots: Snapshots, run: Run) -> None:
        self._context = context
        self._snapshots = snapshots
        self._run = run
        self.workspace = Path(run.settings.workspace or context.deps.workspace)

    async def head(self) -> GitHead:
        """Return git's branch and commit; empty if the disk doesn't answer soon."""
        try:
            async with asyncio.timeout(_HEAD_S):
                return await offload(lambda: read_head(unmoved(self.workspace)), linger_s=0.0)
        except (TimeoutError, WorkspaceMoved):
            return GitHead()

    async def take(
        self, when: Literal["before", "after"], *, seconds: float | None = None
    ) -> Snapshot | NoSnapshot:
        # A second snapshot of a turn, after a crash, must not replace the ref that keeps the first.
        label = f"{len(snapshots_of(self._run))}-{when}"
        place = SnapshotKey(self._context.log.session_id, self._run.run_id, label)
        return await self._snapshots.take(self.workspace, place, seconds=seconds)

    async def record(
        self,
        when: Literal["before", "after"],
        taken: Snapshot | NoSnapshot,
        head: GitHead,
        *,
        overlaps: tuple[str, ...],
        changed: int = 0,
    ) -> None:
        """Return when the snapshot is on the log."""
        run, log, newest = self._run, self._context.log, open_snapshot(self._run)
        stored = isinstance(taken, Snapshot)
        log.emit(
            SnapshotTaken(
                at_ms=log.now_ms(),
                run_id=run.run_id,
                turn=run.turns if newest is None else newest.turn,
                when=when,
                workspace=str(self.workspace),
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
        await self._context.view.flush(log)


def _changed(snapshots: Snapshots, run: Run, taken: Snapshot) -> int:
    """How many files the run has changed so far. Blocks."""
    try:
        turns = turns_of([run], snapshots, now=taken.root)
        return len(composed(turns.trees, snapshots))
    except (MissingObject, DamagedPack):
        return 0


RUN = RunHooks(before_change=before_change, after_turn=after_turn)
