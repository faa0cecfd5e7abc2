"""The snapshots of a run in the folds."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.features.undo.events import SnapshotTaken
from holdfast.interfaces.feature import FoldHooks

if TYPE_CHECKING:
    from holdfast.folds.run import Run


def snapshots_of(run: "Run") -> Sequence[SnapshotTaken]:
    """Return the snapshots of the run, oldest first."""
    return run.features.get("undo", ())


def open_snapshot(run: "Run") -> SnapshotTaken | None:
    """Return the snapshot before the newest turn that changes files, if there is none after that turn yet."""
    newest = next(reversed(snapshots_of(run)), None)
    return newest if newest is not None and newest.when == "before" and newest.snapshot else None


def files_changed(run: "Run") -> int:
    """Return the number of files that the run has changed, as far as snapshots show."""
    return next((taken.changed for taken in reversed(snapshots_of(run)) if taken.when == "after"), 0)


def _snapshot_taken(run: "Run", event: SnapshotTaken) -> None:
    run.features.setdefault("undo", []).append(event)


def _run_fields(run: "Run") -> Mapping[str, Any]:
    return {"files_changed": files_changed(run)}


def _timeline_text(event: SnapshotTaken) -> str:
    changed = f", {event.changed} changed" if event.when == "after" else ""
    return f"{event.when} turn {event.turn}: {event.why_not or f'{event.files} files{changed}'}"


FOLDS = FoldHooks(
    run={SnapshotTaken: _snapshot_taken},
    run_fields=_run_fields,
    timeline={SnapshotTaken: _timeline_text},
)
