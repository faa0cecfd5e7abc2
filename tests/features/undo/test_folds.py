"""The snapshots of a run in the folds."""

from holdfast import events as e
from holdfast.features.undo.events import SnapshotTaken
from holdfast.features.undo.folds import files_changed, open_snapshot, snapshots_of
from holdfast.folds import session
from holdfast.folds.timeline import timeline
from scene import Scene


def taken(scene: Scene, when: str, **fields: object) -> None:
    scene.of_run(SnapshotTaken, turn=1, when=when, workspace="/w", **fields)


def test_a_turn_is_open_from_its_first_snapshot_to_its_second() -> None:
    scene = Scene()
    scene.put(e.SessionCreated, epoch="e")
    scene.send("go", run_id="r1")
    run = session.fold(scene.log).runs["r1"]
    assert (open_snapshot(run), files_changed(run)) == (None, 0)
    taken(scene, "before", snapshot="5a")
    run = session.fold(scene.log).runs["r1"]
    assert open_snapshot(run) is snapshots_of(run)[0]
    taken(scene, "after", snapshot="5b", changed=2)
    run = session.fold(scene.log).runs["r1"]
    assert (open_snapshot(run), files_changed(run)) == (None, 2)
    taken(scene, "before", why_not="the disk is full")
    run = session.fold(scene.log).runs["r1"]
    assert (open_snapshot(run), files_changed(run)) == (None, 2)
    texts = [line.text for line in timeline(scene.log).lines if line.type == "snapshot.taken"]
    assert texts == [
        "before turn 1: 0 files",
        "after turn 1: 0 files, 2 changed",
        "before turn 1: the disk is full",
    ]
