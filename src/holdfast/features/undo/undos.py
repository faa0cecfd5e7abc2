"""Takes back what runs changed: files of the workspace, and the conversation, as one event."""

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.shared_fold import SharedFold
from holdfast.features.undo.changes import turns_of
from holdfast.features.undo.folds import snapshots_of
from holdfast.features.undo.object_store import MissingObject
from holdfast.features.undo.packs import DamagedPack
from holdfast.features.undo.planning import (
    CannotUndo,
    FileChange,
    FoundChanges,
    OnConflict,
    changed_by_undo,
    compared,
    redo_plan,
    undo_plan,
)
from holdfast.features.undo.restore import state_of
from holdfast.features.undo.restores import Restores, RestoreWork, UndoDone, busy
from holdfast.features.undo.snapshots import NoSnapshot, SnapshotKey, Snapshots
from holdfast.folds.entries import Person
from holdfast.folds.run import Run
from holdfast.folds.session import OpenUndo
from holdfast.interfaces.ids import new_undo_id
from holdfast.runner.inbox import before_its_entries
from holdfast.runner.supervisor import Supervisor
from holdfast.safe_text import shown_path
from holdfast.tools.offload import offload
from holdfast.values import Undo


class UndoOptions(Struct, frozen=True):
    """An undo request: all files of a run or some, and how to handle conflicts.

    With `plan` from a preview, the undo fails if it would do anything else. `undo_id` selects the undo to
    redo.
    """

    files: tuple[str, ...] = ()
    keep_log: bool = False
    on_conflict: OnConflict = "refuse"
    by: str = ""
    plan: str = ""
    undo_id: str = ""


class RemovedTurn(Struct, frozen=True):
    """A run that an undo removes from the conversation: its number there, and what the person said."""

    run_id: str
    number: int
    text: str


class UndoPreview(Struct, frozen=True):
    """The changes of an undo, identified by `plan`."""

    turns: tuple[RemovedTurn, ...]
    files: tuple[FileChange, ...]
    runs: tuple[Run, ...]
    keeps_log: bool

    @property
    def plan(self) -> str:
        """The SHA-256 of the removed runs, and of each file before and after."""
        files = [(each.change.path, each.now, state_of(each.change.before)) for each in self.files]
        turns = [each.run_id for each in self.turns]
        return sha256(msgspec.msgpack.encode((turns, files))).hexdigest()


class _Draft(Struct, frozen=True):
    """An undo before its files are compared."""

    undo: Undo
    to_seq: int
    runs: tuple[Run, ...]
    turns: tuple[RemovedTurn, ...]

    def preview(self, files: tuple[FileChange, ...]) -> UndoPreview:
        return UndoPreview(self.turns, files, self.runs, self.undo.keeps_log)


def undos_of(supervisor: Supervisor) -> "Undos | None":
    """Return the undos of a server; None if undo is off."""
    deps = supervisor.deps
    snapshots: Snapshots | None = deps.features.get("undo")
    return None if snapshots is None else Undos(Restores(deps.store, snapshots, deps.clock), supervisor)


class Undos:
    """Shows, undoes and redoes the changes of runs. Raises CannotUndo."""

    def __init__(self, restores: Restores, supervisor: Supervisor) -> None:
        self._restores = restores
        self.snapshots = restores.snapshots
        self._supervisor = supervisor

    async def changes(self, session_id: str, run_id: str) -> FoundChanges:
        """Return a run's changes compared with the current files, including runs undone with it."""
        view = await self._supervisor.view(session_id)
        runs = [view.run(each) for each in view.session.undone_from(run_id) or (run_id,)]
        async with self._comparing(session_id, runs) as (_, found):
            return found

    async def preview(self, session_id: str, run_id: str, options: UndoOptions) -> UndoPreview:
        """Show what `undo` would change, including files that it would refuse to change."""
        draft = _draft(await self._idle_view(session_id), run_id, options)
        async with self._comparing(session_id, draft.runs) as (_, found):
            return draft.preview(changed_by_undo(found, options.files))

    async def undo(self, session_id: str, run_id: str, options: UndoOptions) -> UndoDone:
        """Restore the run's files and, without `keep_log`, rewind the log to before it.

        Rewinding also undoes later runs of the session.
        """
        draft = _draft(await self._idle_view(session_id), run_id, options)
        snapshots = self.snapshots
        async with self._comparing(session_id, draft.runs) as (real, found):
            preview = draft.preview(changed_by_undo(found, options.files))
            if options.plan not in {"", preview.plan}:
                raise CannotUndo(
                    "plan_changed", "The files or the chat changed since the preview. Preview the undo again."
                )
            plan = await offload(
                lambda: undo_plan(found, snapshots, wanted=options.files, on_conflict=options.on_conflict)
            )
            return await self._carry_out(RestoreWork(session_id, draft.undo, draft.to_seq, real, plan))

    async def redo(self, session_id: str, run_id: str, options: UndoOptions) -> UndoDone:
        """Reverse an undo of the run, by default the newest: its files and, without `keep_log`, its runs."""
        view, snapshots = await self._idle_view(session_id), self.snapshots
        known = _undo_to_redo(view, run_id, options.undo_id)
        earlier = known.undo
        keep_log = options.keep_log or earlier.keeps_log
        if not keep_log:
            _check_chat_returns(view, known)
        undo = replace(
            earlier, undo_id=new_undo_id(), redoes=earlier.undo_id, keeps_log=keep_log, by=options.by
        )
        with _refusals():
            async with snapshots.workspace(Path(earlier.workspace)) as real:
                stored = await self._restores.stored_plan(earlier)
                plan = await offload(lambda: redo_plan(real, stored, on_conflict=options.on_conflict))
                return await self._carry_out(RestoreWork(session_id, undo, view.last_seq, real, plan))

    async def undone_files(self, undo: Undo) -> tuple[str, ...]:
        """The files that an undo changed; raises CannotUndo if they're no longer stored."""
        with _refusals():
            return tuple(shown_path(step.path) for step in (await self._restores.stored_plan(undo)).steps)

    @asynccontextmanager
    async def _comparing(
        self, session_id: str, runs: Sequence[Run]
    ) -> AsyncGenerator[tuple[str, FoundChanges]]:
        """Lock the workspace of runs, and compare their changes with the current files."""
        workspace = _workspace(runs)
        others = await self._overlapping(runs)
        with _refusals():
            async with self.snapshots.workspace(Path(workspace)) as real:
                yield real, await self._found(session_id, runs, real, others=others)

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
            now = await snapshots.take_held(real, SnapshotKey(session_id, runs[0].run_id, "now"))
            if isinstance(now, NoSnapshot):
                raise CannotUndo("snapshot_gone", f"The files can't be compared: {now.why}.")
            turns = await offload(lambda: turns_of(runs, snapshots, now=now.root))
        return await offload(lambda: compared(snapshots, real, turns, others=others))

    async def _overlapping(self, runs: Sequence[Run]) -> list[Run]:
        """The other runs that could change the same files at the same time."""
        own = {run.run_id for run in runs}
        ids = {other for run in runs for taken in snapshots_of(run) for other in taken.overlaps}
        found: list[Run] = []
        for run_id in sorted(ids - own):
            row = await self._restores.store.run(run_id)
            if row is not None:
                found.append((await self._supervisor.view(row.session_id)).run(run_id))
        return found


def _workspace(runs: Sequence[Run]) -> str:
    """The one workspace of runs; raises CannotUndo."""
    found = {taken.workspace for run in runs for taken in snapshots_of(run)}
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


def _draft(view: SharedFold, run_id: str, options: UndoOptions) -> _Draft:
    """The undo of a run, or of it and all after it; raises CannotUndo."""
    if view.session.is_undone(run_id):
        raise CannotUndo("nothing_to_undo", "This run is already undone. To bring it back, redo it.")
    keep_log = options.keep_log or bool(options.files) or not _is_shown(view, run_id)
    after = [view.run(run_id)] if keep_log else _from(view, run_id)
    runs = tuple(each for each in after if snapshots_of(each) and not view.session.is_undone(each.run_id))
    turns = () if keep_log else _turns(view, after)
    undo = Undo(
        undo_id=new_undo_id(),
        run_id=run_id,
        workspace=_workspace(runs),
        files=0,
        digest="",
        plan="",
        runs=() if options.files else tuple(each.run_id for each in runs),
        keeps_log=keep_log,
        turns=len(turns),
        by=options.by,
    )
    to_seq = view.last_seq if keep_log else before_its_entries(view.transcript, run_id)
    return _Draft(undo, to_seq, runs, turns)


def _turns(view: SharedFold, runs: Sequence[Run]) -> tuple[RemovedTurn, ...]:
    """The removed runs, numbered as people count them."""
    entries = view.transcript.entries
    numbers = {run_id: nth for nth, run_id in enumerate(dict.fromkeys(each.run_id for each in entries), 1)}
    texts: dict[str, str] = {}
    for entry in entries:
        if isinstance(entry, Person):
            texts.setdefault(entry.run_id, entry.message.text)
    return tuple(RemovedTurn(run.run_id, numbers[run.run_id], texts.get(run.run_id, "")) for run in runs)


def _undo_to_redo(view: SharedFold, run_id: str, undo_id: str) -> OpenUndo:
    """The undo with this id or, without one, the newest of the run; raises CannotUndo."""
    known = [
        each
        for each in view.session.undos.values()
        if each.undo.run_id == run_id and undo_id in {"", each.undo.undo_id} and not each.files_redone
    ]
    if not known:
        raise CannotUndo("nothing_to_redo", "There is no undo of this run to redo.")
    return known[-1]


def _check_chat_returns(view: SharedFold, known: OpenUndo) -> None:
    """Raise CannotUndo if the runs that the undo removed can't return now."""
    if not known.returns_chat:
        raise CannotUndo(
            "session_went_on",
            "The conversation continued after the undo, so the removed runs can't return. "
            "To bring back only the files, set keep_log.",
        )
    newest = next(each for each in reversed(view.session.undos.values()) if each.returns_chat)
    if newest is not known:
        raise CannotUndo(
            "newer_undo_first",
            "A later undo removed earlier runs of this conversation. Redo that one first.",
        )


@contextmanager
def _refusals() -> Generator[None]:
    try:
        yield
    except MissingObject as error:
        raise CannotUndo("snapshot_gone", "The snapshot of this run isn't stored any more.") from error
    except DamagedPack as error:
        raise CannotUndo("snapshot_gone", f"The stored snapshots can't be read: {error}.") from error
    except OSError as error:
        raise CannotUndo("workspace_unwritable", f"The workspace can't be read: {error.strerror}.") from error
