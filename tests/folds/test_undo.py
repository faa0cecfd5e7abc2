"""What an undo means for a session, its runs and its transcript."""

from holdfast import events as e
from holdfast.folds import session, transcript
from holdfast.folds.timeline import timeline
from holdfast.values import Undo
from scene import Scene


def undo(undo_id: str, **fields: object) -> Undo:
    usual: dict[str, object] = {"run_id": "r1", "workspace": "/w", "files": 1, "digest": "d", "plan": "p"}
    return Undo(undo_id=undo_id, **{**usual, **fields})  # pyright: ignore[reportArgumentType]


def answered(scene: Scene, run_id: str) -> None:
    scene.send("go", run_id=run_id)
    scene.call()
    scene.text("done")
    scene.ends()


def test_an_undo_marks_the_runs_it_takes_back_until_it_is_redone() -> None:
    scene = Scene()
    scene.put(e.SessionCreated, epoch="e")
    answered(scene, "r1")
    scene.put(e.SessionRewound, to_seq=1, undo=undo("u1", runs=("r1", "gone")))
    state = session.fold(scene.log)
    assert (state.is_undone("r1"), list(state.undos)) == (True, ["u1"])
    assert (state.undone_from("r1"), state.undone_from("gone")) == (("r1", "gone"), ())
    scene.put(e.SessionRewound, to_seq=scene.seq, undo=undo("u9", redoes="unknown"))
    assert list(session.fold(scene.log).undos) == ["u1"]
    scene.put(e.SessionRewound, to_seq=scene.seq, undo=undo("u2", runs=("r1",), redoes="u1"))
    state = session.fold(scene.log)
    assert (state.is_undone("r1"), list(state.undos)) == (False, [])
    texts = [line.text for line in timeline(scene.log).lines if line.type == "session.rewound"]
    assert texts == [
        "to 1, 1 files as before",
        *(f"to {scene.seq - n}, 1 files as before the undo" for n in (2, 1)),
    ]


def test_what_an_undo_removed_comes_back_once_and_only_for_its_own_redo() -> None:
    scene = Scene()
    scene.put(e.SessionCreated, epoch="e")
    answered(scene, "r1")
    whole = len(transcript.fold(scene.log).entries)
    scene.put(e.SessionRewound, to_seq=1, undo=undo("u1"))
    assert transcript.fold(scene.log).entries == []
    other = [*scene.log, (scene.seq + 1, e.SessionRewound(at_ms=9, to_seq=99, undo=undo("u2", redoes="u0")))]
    assert transcript.fold(other).entries == []
    files = [
        *scene.log,
        (scene.seq + 1, e.SessionRewound(at_ms=9, to_seq=99, undo=undo("u2", redoes="u1", keeps_log=True))),
    ]
    assert transcript.fold(files).entries == []
    plain = [*scene.log, (scene.seq + 1, e.SessionRewound(at_ms=9, to_seq=0))]
    assert transcript.fold(plain).undone == []
    back = [*scene.log, (scene.seq + 1, e.SessionRewound(at_ms=9, to_seq=99, undo=undo("u2", redoes="u1")))]
    assert len(transcript.fold(back).entries) == whole
    kept = [*back, (scene.seq + 2, e.SessionRewound(at_ms=9, to_seq=0, undo=undo("u3", keeps_log=True)))]
    assert transcript.fold(kept).undone == []


def test_undos_are_redone_the_newest_first_until_the_conversation_continues() -> None:
    """P13."""
    scene = Scene()
    scene.put(e.SessionCreated, epoch="e")
    answered(scene, "r1")
    first = scene.seq
    answered(scene, "r2")
    whole = len(transcript.fold(scene.log).entries)
    scene.put(e.SessionRewound, to_seq=first, undo=undo("u2", run_id="r2", runs=("r2",)))
    scene.put(e.SessionRewound, to_seq=1, undo=undo("u1", turns=1, runs=("r1",)))
    log = list(scene.log)

    def then(*undos: Undo | None) -> list[tuple[int, e.Event]]:
        return [
            *log,
            *(
                (scene.seq + n, e.SessionRewound(at_ms=9, to_seq=99, undo=one))
                for n, one in enumerate(undos, 1)
            ),
        ]

    both = then(undo("u3", redoes="u1"), undo("u4", redoes="u2", run_id="r2"))
    assert len(transcript.fold(both).entries) == whole
    assert session.fold(both).undos == {}
    assert [one.returns_chat for one in session.fold(log).undos.values()] == [True, True]
    # Turn 1 stays away, so that turn 2 has no place either; the files of turn 2 can still be redone.
    files = session.fold(then(undo("u3", redoes="u1", keeps_log=True)))
    assert [one.returns_chat for one in files.undos.values()] == [False, False]
    assert [one.files_redone for one in files.undos.values()] == [False, True]
    assert (files.is_undone("r1"), files.is_undone("r2")) == (False, True)
    assert [one.returns_chat for one in session.fold(then(None)).undos.values()] == [False, False]
    late = session.fold(then(None, undo("u3", redoes="u1", keeps_log=True)))
    assert [one.files_redone for one in late.undos.values()] == [False, True]
    answered(scene, "r3")
    assert [one.returns_chat for one in session.fold(scene.log).undos.values()] == [False, False]
    assert [one.undo_id for one in transcript.fold(scene.log).undone] == ["u1"]
