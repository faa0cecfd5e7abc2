"""Decides what an undo does with each file: put it back, leave it, or refuse. Blocks."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from stat import S_IFLNK, S_IFMT, S_IFREG
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from holdfast.features.undo.changes import Change, Turns, composed, turns_of
from holdfast.features.undo.folds import snapshots_of
from holdfast.features.undo.object_store import Batch
from holdfast.features.undo.packs import Entry, object_name, tree_data
from holdfast.features.undo.restore import (
    FileStep,
    Plan,
    contents_of,
    current_states,
    missing_folders,
    state_of,
)
from holdfast.features.undo.snapshots import SnapshotKey, Snapshots
from holdfast.folds.run import Run
from holdfast.safe_text import shown_path

OnConflict: TypeAlias = Literal["refuse", "overwrite", "keep_both"]
Effect: TypeAlias = Literal["restored", "recreated", "deleted"]
FileState: TypeAlias = Literal["as_run_left_it", "undone", "changed_since"]
CannotUndoCode: TypeAlias = Literal[
    "session_busy", "session_deleted", "nothing_to_undo", "nothing_to_redo", "snapshot_gone",
    "undo_conflict", "several_workspaces", "session_went_on", "workspace_unwritable", "file_not_changed",
    "plan_changed", "newer_undo_first",
]  # fmt: skip

KEPT_BESIDE: Final = b".before-undo"
NAMED_MAX: Final = 10
_NO_FILE: Final = (0, b"")


class CannotUndo(Exception):
    """Nothing was changed; the text says why, and what to do."""

    def __init__(self, code: CannotUndoCode, why: str) -> None:
        super().__init__(why)
        self.code: CannotUndoCode = code


class FileChange(Struct, frozen=True):
    """A change, how its file is now, and whether other runs took part."""

    change: Change
    now: tuple[int, bytes]
    shared: bool
    is_certain: bool  # False if the state after a turn was never stored

    @property
    def state(self) -> FileState:
        """How the file is now, compared with before and after the run."""
        if self.now == state_of(self.change.before):
            return "undone"
        return "as_run_left_it" if self.now == state_of(self.change.after) else "changed_since"

    @property
    def effect(self) -> Effect:
        """Return the undo's effect on the file."""
        if state_of(self.change.before) == _NO_FILE:
            return "deleted"
        return "recreated" if self.now == _NO_FILE else "restored"

    @property
    def conflict(self) -> str:
        """Why it isn't undone without being told to; empty if it is."""
        if self.state == "undone":
            return ""
        if self.state == "changed_since":
            return "changed since"
        if self.shared:
            return "another run changed it too"
        if self.change.interleaved:
            return "someone else changed it during the run"
        if self.change.may_have_existed and self.effect == "deleted":
            return "it may have existed before the run, among too many files that undo doesn't cover"
        return "" if self.is_certain else "the server stopped during the run, so others may have changed it"


class FoundChanges(Struct, frozen=True):
    """Changes that some runs made in their workspace."""

    workspace: str
    files: tuple[FileChange, ...]
    turns: Turns


def compared(snapshots: Snapshots, real: str, turns: Turns, *, others: Sequence[Run]) -> FoundChanges:
    """The changes of turns beside the files as they are now."""
    changes = composed(turns.trees, snapshots)
    now = current_states(real, changes)
    shared = _changed_by(others, snapshots, real)
    files = tuple(
        FileChange(change, now[path], shared=path in shared, is_certain=not turns.unknown)
        for path, change in changes.items()
    )
    return FoundChanges(real, files, turns)


def _changed_by(runs: Sequence[Run], snapshots: Snapshots, real: str) -> set[bytes]:
    """The paths in a workspace that other runs changed, wherever these worked."""
    paths: set[bytes] = set()
    for run in runs:
        places = {taken.workspace for taken in snapshots_of(run)}
        for path in composed(turns_of([run], snapshots, now=None).trees, snapshots):
            for place in places:
                absolute = os.fsencode(os.path.realpath(place)) + b"/" + path
                paths.add(os.path.relpath(absolute, os.fsencode(real)))
    return paths


def changed_by_undo(found: FoundChanges, wanted: Sequence[str]) -> tuple[FileChange, ...]:
    """The files that an undo would change; raises CannotUndo."""
    return tuple(each for each in _chosen(found, wanted) if each.state != "undone")


def undo_plan(
    found: FoundChanges, snapshots: Snapshots, *, wanted: Sequence[str], on_conflict: OnConflict
) -> Plan:
    """Plan the restoration of the files; raises CannotUndo."""
    chosen = _chosen(found, wanted)
    conflicts = [(one.change.path, one.conflict) for one in chosen if one.conflict]
    if conflicts and on_conflict == "refuse":
        raise _conflict(conflicts)
    steps = [
        FileStep(one.change.path, one.now, state_of(one.change.before))
        for one in chosen
        if one.state != "undone"
    ]
    if on_conflict == "keep_both":
        kept = {
            one.change.path: one.now
            for one in chosen
            if one.state == "changed_since" and S_IFMT(one.now[0]) in {S_IFREG, S_IFLNK}
        }
        steps += _beside(found.workspace, kept)
    for step in steps:
        if step.expected != _NO_FILE and not step.expected[1]:
            raise CannotUndo("undo_conflict", f"{shown_path(step.path)} is no file that can be put aside.")
    gone = _parents(step.path for step in steps if step.target == _NO_FILE)
    first = found.turns.trees[0].before if found.turns.trees else b""
    folders = tuple(folder for folder in gone if not _is_folder(snapshots.lookup(first, folder)))
    above = _parents(step.path for step in steps if step.target != _NO_FILE)
    return Plan(tuple(steps), folders, missing_folders(found.workspace, above))


def redo_plan(real: str, undone: Plan, *, on_conflict: OnConflict) -> Plan:
    """Plan the reversal of an undo; raises CannotUndo for files that changed since."""
    plan = undone.inverse()
    now = current_states(real, (step.path for step in plan.steps))
    conflicts = [
        (step.path, "changed since the undo")
        for step in plan.steps
        if now[step.path] not in {step.expected, step.target}
    ]
    if conflicts and on_conflict == "refuse":
        raise _conflict(conflicts)
    steps = [FileStep(step.path, now[step.path], step.target) for step in plan.steps]
    steps = [step for step in steps if step.expected != step.target]
    if on_conflict == "keep_both":
        kept = {path: now[path] for path, _ in conflicts if S_IFMT(now[path][0]) in {S_IFREG, S_IFLNK}}
        steps += _beside(real, kept)
    return Plan(tuple(steps), plan.folders, plan.new_folders)


def store_plan(plan: Plan, real: str, snapshots: Snapshots, place: SnapshotKey) -> tuple[bytes, bytes]:
    """Store the plan, and every file as it is now and as it is to be.

    Returns the names of all that and of the plan. Raises CannotUndo if a file is no longer as planned.
    """
    encoded = plan.encoded
    plan_name = object_name("blob", encoded)
    entries: list[tuple[bytes, Entry]] = [(b"plan", Entry(S_IFREG | 0o644, plan_name))]
    with snapshots.store.using():
        with snapshots.store.batch() as batch:
            batch.add("blob", encoded, name=plan_name)
            for nth, step in enumerate(plan.steps):
                _store_file(real, step, snapshots, batch)
                for label, (mode, name) in ((b"now", step.expected), (b"then", step.target)):
                    entries += [(b"%d-%s" % (nth, label), Entry(mode, name))] if mode else []
            tree = tree_data(entries)
            name = object_name("tree", tree)
            batch.add("tree", tree, name=name)
        snapshots.store.keep(place.session_id, place.run_id, label=place.label, name=name)
    return name, plan_name


def _store_file(real: str, step: FileStep, snapshots: Snapshots, batch: Batch) -> None:
    """Store a file as it is now; raises CannotUndo if it is no longer as planned."""
    mode, name = step.expected
    if mode and not snapshots.store.has(name):
        data = contents_of(real, step.path)
        if object_name("blob", data) != name:
            raise _conflict([(step.path, "changing right now")])
        batch.add("blob", data, name=name)


def _chosen(found: FoundChanges, wanted: Sequence[str]) -> list[FileChange]:
    names = {shown_path(one.change.path) for one in found.files}
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise CannotUndo("file_not_changed", f"This run didn't change {unknown[0]}.")
    if not wanted:
        return list(found.files)
    return [one for one in found.files if shown_path(one.change.path) in wanted]


def _beside(real: str, kept: Mapping[bytes, tuple[int, bytes]]) -> Iterable[FileStep]:
    """Steps that keep people's own versions beside the files."""
    for original, now in kept.items():
        number, path = 1, original + KEPT_BESIDE
        while os.path.lexists(os.fsencode(real) + b"/" + path):
            number += 1
            path = original + KEPT_BESIDE + b"-%d" % number
        yield FileStep(path, _NO_FILE, now)


def _parents(paths: Iterable[bytes]) -> list[bytes]:
    """Every folder above these paths, once."""
    joined: Callable[[bytes, bytes], bytes] = lambda above, name: above + b"/" + name  # noqa: E731
    found = {folder for path in paths for folder in accumulate(path.split(b"/")[:-1], joined)}
    return sorted(found)


def _is_folder(entry: Entry | None) -> bool:
    return entry is not None and entry.is_folder


def _conflict(conflicts: Sequence[tuple[bytes, str]]) -> CannotUndo:
    named = "; ".join(f"{shown_path(path)} ({why})" for path, why in conflicts[:NAMED_MAX])
    more = f"; and {len(conflicts) - NAMED_MAX} more" if len(conflicts) > NAMED_MAX else ""
    return CannotUndo(
        "undo_conflict",
        f"Nothing was changed, because this would lose changes that aren't this run's: {named}{more}. "
        "Use force to overwrite them, keep_both to keep a copy beside each, or name the files to undo.",
    )
