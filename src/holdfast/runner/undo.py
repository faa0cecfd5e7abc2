"""Takes back what runs changed: files of the workspace, and the conversation, as one event."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from holdfast.agent.shared_fold import SharedFold
from holdfast.folds.run import Run
from holdfast.interfaces.ids import new_undo_id
from holdfast.runner.inbox import before_its_entries
from holdfast.runner.restores import Restores, RestoreWork, UndoDone, busy
from holdfast.runner.supervisor import Supervisor
from holdfast.tools.offload import offload
from holdfast.undo.changes import turns_of
from holdfast.undo.object_store import MissingObject
from holdfast.undo.packs import DamagedPack
from holdfast.undo.planning import (
    CannotUndo,
    FoundChanges,
    OnConflict,
    compared,
    redo_plan,
    undo_plan,
)
from holdfast.undo.snapshots import NoSnapshot, Place
from holdfast.values import Undo


@dataclass(frozen=True, slots=True)
class UndoWanted:
    """What to undo: all files of a run or some, and what to do about files that others changed since."""

    files: tuple[str, ...] = ()
    keep_log: bool = False
    on_conflict: OnConflict = "refuse"
    by: str = ""


class Undos:
    """Shows, undoes and redoes what runs changed. What can't be done raises CannotUndo."""

    def __init__(self, restores: Restores, supervisor: Supervisor) -> None:
        self._restores = restores
        self.snapshots = restores.snapshots
        self._supervisor = supervisor

    async def changes(self, session_id: str, run_id: str) -> FoundChanges:
        """What one run changed, beside the files as they are now."""
        run = (await self._supervisor.view(session_id)).run(run_id)
        snapshots, workspace = self.snapshots, _workspace([run])
        others = await self._overlapping([run])
        with _saying_why():
            async with snapshots.workspace(Path(workspace)) as real:
                return await self._found(session_id, [run], real, others=others)

    async def undo(self, session_id: str, run_id: str, wanted: UndoWanted) -> UndoDone:
        """Put back what the run changed and, unless told otherwise, rewind the log to before it.

        With the log, later runs of the session are taken back too.
        """
        view, snapshots = await self._idle_view(session_id), self.snapshots
        if view.session.is_undone(run_id):
            raise CannotUndo("nothing_to_undo", "This run is already undone. Redo brings it back.")
        keep_log = wanted.keep_log or bool(wanted.files) or not _is_shown(view, run_id)
        runs = [view.run(run_id)] if keep_log else _from(view, run_id)
        runs = [one for one in runs if one.snapshots and not view.session.is_undone(one.run_id)]
        workspace = _workspace(runs)
        others = await self._overlapping(runs)
        undo = Undo(
            undo_id=new_undo_id(),
            run_id=run_id,
            workspace=workspace,
            files=0,
            digest="",
            plan="",
            runs=() if wanted.files else tuple(one.run_id for one in runs),
            keeps_log=keep_log,
            by=wanted.by,
        )
        to_seq = view.last_seq if keep_log else before_its_entries(view.transcript, run_id)
        with _saying_why():
            async with snapshots.workspace(Path(workspace)) as real:
                found = await self._found(session_id, runs, real, others=others)
                plan = await offload(
                    lambda: undo_plan(found, snapshots, wanted=wanted.files, on_conflict=wanted.on_conflict)
                )
                return await self._carry_out(RestoreWork(session_id, undo, to_seq, real, plan))

    async def redo(self, session_id: str, run_id: str, wanted: UndoWanted) -> UndoDone:
        """Take the newest undo of the run back: its files and, unless told otherwise, the log."""
        view, snapshots = await self._idle_view(session_id), self.snapshots
        known = [one for one in view.session.undos.values() if one[1].run_id == run_id]
        if not known:
            raise CannotUndo("nothing_to_redo", "There is no undo of this run to take back.")
        seq, earlier = known[-1]
        keep_log = wanted.keep_log or earlier.keeps_log
        if not keep_log and _went_on(view, seq, earlier):
            raise CannotUndo(
                "session_went_on",
                "The conversation continued after the undo, so it stays as it is. "
                "Use keep_log to bring back only the files.",
            )
        undo = replace(
            earlier, undo_id=new_undo_id(), redoes=earlier.undo_id, keeps_log=keep_log, by=wanted.by
        )
        with _saying_why():
            async with snapshots.workspace(Path(earlier.workspace)) as real:
                stored = await self._restores.stored_plan(earlier)
                plan = await offload(lambda: redo_plan(real, stored, on_conflict=wanted.on_conflict))
                return await self._carry_out(RestoreWork(session_id, undo, view.last_seq, real, plan))

    async def _carry_out(self, work: RestoreWork) -> UndoDone:
        return await self._restores.carry_out(work, decided=partial(self._supervisor.wake, work.session_id))

    async def _idle_view(self, session_id: str) -> SharedFold:
        view = await self._supervisor.view(session_id)
        if view.session.open_runs:
            raise busy()
        return view

    async def _found(
        self, session_id: str, runs: Sequence[Run], real: str, *, others: Sequence[Run]
    ) -> FoundChanges:
        """The changes of runs; the caller holds the workspace."""
        snapshots = self.snapshots
        turns = await offload(lambda: turns_of(runs, snapshots, now=None))
        if turns.unknown:
            now = await snapshots.take_held(real, Place(session_id, runs[0].run_id, "now"))
            if isinstance(now, NoSnapshot):
                raise CannotUndo("snapshot_gone", f"The files can't be compared: {now.why}.")
            turns = await offload(lambda: turns_of(runs, snapshots, now=now.root))
        return await offload(lambda: compared(snapshots, real, turns, others=others))

    async def _overlapping(self, runs: Sequence[Run]) -> list[Run]:
        """The other runs that could change the same files at the same time."""
        own = {run.run_id for run in runs}
        ids = {other for run in runs for taken in run.snapshots for other in taken.overlaps}
        found: list[Run] = []
        for run_id in sorted(ids - own):
            row = await self._restores.store.run(run_id)
            if row is not None:
                found.append((await self._supervisor.view(row.session_id)).run(run_id))
        return found


def _workspace(runs: Sequence[Run]) -> str:
    """The one workspace of runs; raises CannotUndo."""
    found = {taken.workspace for run in runs for taken in run.snapshots}
    if not found:
        raise CannotUndo("nothing_to_undo", "This run has no changes to undo.")
    if len(found) > 1:
        raise CannotUndo(
            "several_workspaces", "These runs worked in different folders. Undo each alone, with keep_log."
        )
    return found.pop()


def _is_shown(view: SharedFold, run_id: str) -> bool:
    """Whether the run is still part of the conversation."""
    return any(entry.run_id == run_id for entry in view.transcript.entries)


def _from(view: SharedFold, run_id: str) -> list[Run]:
    """The run and those after it that are still part of the conversation."""
    shown = {entry.run_id for entry in view.transcript.entries}
    ids = list(view.session.runs)
    return [view.run(one) for one in ids[ids.index(run_id) :] if one in shown]


def _went_on(view: SharedFold, seq: int, undo: Undo) -> bool:
    """Whether something was said after an undo, so that what it removed has no place any more."""
    undone = view.transcript.undone
    if undone is None or undone.undo_id != undo.undo_id:
        return True
    return any(run.first_seq > seq for run in view.session.runs.values())


@contextmanager
def _saying_why() -> Generator[None]:
    try:
        yield
    except MissingObject as error:
        raise CannotUndo("snapshot_gone", "The snapshot of this run isn't stored any more.") from error
    except DamagedPack as error:
        raise CannotUndo("snapshot_gone", f"The stored snapshots can't be read: {error}.") from error
    except OSError as error:
        raise CannotUndo("workspace_unwritable", f"The workspace can't be read: {error.strerror}.") from error
