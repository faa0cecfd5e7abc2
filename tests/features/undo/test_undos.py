"""What a run changed is known file by file, and can be undone unless that would lose others' work."""

import asyncio
import os
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from agent.world import CrashingStore, either, process
from fakes.crash import Crashed, CrashPoint
from features.undo.world import Changes, model, roles, scene, state, write
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Script, SeenRequest, Wait
from holdfast.features.undo import messenger
from holdfast.features.undo.folds import snapshots_of
from holdfast.features.undo.planning import CannotUndo
from holdfast.features.undo.restores import Restores
from holdfast.features.undo.scan import ScanLimits
from holdfast.features.undo.snapshots import Snapshots
from holdfast.features.undo.undos import UndoOptions, Undos
from holdfast.interfaces.journal import JournalError
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.runner.inbox import IncomingMessage
from holdfast.safe_text import shown_path
from stores import MemoryStore


async def test_a_run_is_taken_back_with_its_files_and_its_conversation(tmp_path: Path) -> None:
    """P13: whatever happened to the files."""
    async with scene(tmp_path) as one:
        ws = one.workspace
        (ws / "kept.txt").write_text("kept\n")
        (ws / "deleted.txt").write_text("deleted\n")
        (ws / "changed.txt").write_text("before\n")
        (ws / "tool.sh").write_text("#!/bin/sh\n")
        (ws / "binary").write_bytes(bytes(range(256)))
        (ws / "link").symlink_to("kept.txt")
        (ws / "deleted.txt").chmod(0o600)
        before = state(ws)

        def change(root: Path) -> None:
            (root / "deleted.txt").unlink()
            (root / "changed.txt").write_text("after\n")
            (root / "tool.sh").chmod(0o755)
            (root / "binary").write_bytes(b"\0\1")
            (root / "link").unlink()
            (root / "link").symlink_to("/etc/passwd")
            (root / "new" / "deep").mkdir(parents=True)
            (root / "new" / "deep" / "file").write_text("new\n")
            (root / "kept.txt").rename(root / "renamed.txt")

        run_id = await one.run(change)
        after = state(ws)
        found = await one.undos.changes("s", run_id)
        kinds = {shown_path(file.change.path): file.change.kind for file in found.files}
        assert kinds == {
            "binary": "changed",
            "changed.txt": "changed",
            "deleted.txt": "deleted",
            "kept.txt": "deleted",
            "link": "changed",
            "new/deep/file": "created",
            "renamed.txt": "created",
            "tool.sh": "mode",
        }
        done = await one.undos.undo("s", run_id, UndoOptions())
        assert state(ws) == before
        assert not (ws / "new").exists()
        assert done.left == ()
        assert await one.texts() == []
        again = await one.undos.redo("s", run_id, UndoOptions())
        assert state(ws) == after
        assert again.undo.redoes == done.undo.undo_id
        assert await one.texts() == ["Person", "ToolCard", "Text", "Ending"]


async def test_a_file_that_became_covered_during_the_run_is_not_deleted(tmp_path: Path) -> None:
    """P13: the snapshot before left it out, so the run didn't create it."""
    async with scene(tmp_path, limits_of_scan=ScanLimits(file_bytes=100)) as one:
        ws = one.workspace
        (ws / "build" / "deep").mkdir(parents=True)
        (ws / "build" / "deep" / "old").write_text("mine")
        (ws / "x.log").write_text("mine")
        (ws / "large").write_text("mine" * 100)
        (ws / ".gitignore").write_text("build/\n*.log\n")

        def change(root: Path) -> None:
            (root / "large").write_text("small")
            write(".gitignore", "", "x.log", "theirs", "created", "new")(root)

        run_id = await one.run(change)
        found = await one.undos.changes("s", run_id)
        assert {file.change.path: file.change.kind for file in found.files} == {
            b".gitignore": "changed",
            b"created": "created",
        }
        await one.undos.undo("s", run_id, UndoOptions())
        assert {name: text for name, (_, text) in state(ws).items()} == {
            ".gitignore": b"build/\n*.log\n",
            "build/deep/old": b"mine",
            "x.log": b"theirs",
            "large": b"small",
        }


async def test_files_may_have_existed_if_too_many_are_left_out_to_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P13: it's unknown whether the run created such a file, so only a person decides to delete it."""
    monkeypatch.setattr("holdfast.features.undo.scan.NOT_COVERED_MAX", 2)
    monkeypatch.setattr("holdfast.features.undo.snapshots.NOT_COVERED_MAX", 2)
    async with scene(tmp_path) as one:
        ws = one.workspace
        write("a.log", "", "b.log", "", "c.log", "mine", ".gitignore", "*.log")(ws)
        run_id = await one.run(write(".gitignore", ""))
        with pytest.raises(CannotUndo, match="may have existed"):
            await one.undos.undo("s", run_id, UndoOptions())
        assert (ws / "c.log").read_text() == "mine"


async def test_what_a_person_changed_since_is_refused_and_named_and_kept(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        ws = one.workspace
        (ws / "a").write_text("a before")
        (ws / "b").write_text("b before")
        run_id = await one.run(write("a", "a after", "b", "b after"))
        (ws / "b").write_text("mine")
        with pytest.raises(CannotUndo, match=r"b \(changed since\)") as refused:
            await one.undos.undo("s", run_id, UndoOptions())
        assert refused.value.code == "undo_conflict"
        assert ((ws / "a").read_text(), (ws / "b").read_text()) == ("a after", "mine")
        assert len(await one.texts()) == 4
        await one.undos.undo("s", run_id, UndoOptions(files=("a",)))
        assert ((ws / "a").read_text(), (ws / "b").read_text()) == ("a before", "mine")
        assert len(await one.texts()) == 4
        done = await one.undos.undo("s", run_id, UndoOptions(on_conflict="keep_both"))
        assert ((ws / "b").read_text(), (ws / "b.before-undo").read_text()) == ("b before", "mine")
        assert done.files == ("b", "b.before-undo")
        await one.undos.redo("s", run_id, UndoOptions())
        assert (ws / "b").read_text() == "mine"
        assert not (ws / "b.before-undo").exists()
        await one.undos.undo("s", run_id, UndoOptions(on_conflict="overwrite"))
        assert (ws / "b").read_text() == "b before"
        with pytest.raises(CannotUndo, match="already undone"):
            await one.undos.undo("s", run_id, UndoOptions())


async def test_what_a_person_changes_while_the_model_thinks_is_theirs(tmp_path: Path) -> None:
    gate, asked = Gate(), asyncio.Event()

    def twice(request: SeenRequest) -> Script:
        results = roles(request).count("tool")
        if results == 1:
            asked.set()
            return [Wait(gate), CallTool("change")]
        return [Say("done")] if results == 2 else [CallTool("change")]

    async with scene(tmp_path, choose=twice) as one:
        ws = one.workspace
        running = asyncio.create_task(one.run(write("both", "first"), write("both", "second")))
        await asked.wait()
        await asyncio.to_thread(write("mine", "by a person"), ws)
        await asyncio.to_thread(write("both", "by a person"), ws)
        gate.open()
        run_id = await running
        found = await one.undos.changes("s", run_id)
        assert [shown_path(file.change.path) for file in found.files] == ["both"]
        with pytest.raises(CannotUndo, match=r"both \(someone else changed it during the run\)"):
            await one.undos.undo("s", run_id, UndoOptions())
        await one.undos.undo("s", run_id, UndoOptions(on_conflict="overwrite"))
        assert state(ws) == {"mine": (0o644, b"by a person")}


async def test_an_earlier_run_is_taken_back_with_those_after_it_or_alone(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        ws = one.workspace
        first = await one.run(write("a", "1"))
        second = await one.run(write("b", "2"))
        alone = await one.undos.undo("s", first, UndoOptions(keep_log=True))
        assert (alone.files, alone.undo.keeps_log) == (("a",), True)
        assert len(await one.texts()) == 8
        await one.undos.redo("s", first, UndoOptions())
        both = await one.undos.undo("s", first, UndoOptions())
        assert both.undo.runs == (first, second)
        assert (state(ws), await one.texts()) == ({}, [])
        await one.undos.redo("s", first, UndoOptions())
        assert sorted(state(ws)) == ["a", "b"]
        assert len(await one.texts()) == 8
        await one.undos.undo("s", second, UndoOptions())
        await one.run(write("c", "3"))
        with pytest.raises(CannotUndo, match="continued after"):
            await one.undos.redo("s", second, UndoOptions())
        await one.undos.redo("s", second, UndoOptions(keep_log=True))
        assert sorted(state(ws)) == ["a", "b", "c"]
        assert len(await one.texts()) == 8


async def test_a_preview_names_every_turn_and_file_and_nothing_else_is_undone(tmp_path: Path) -> None:
    """P13: what is asked is what is done."""
    async with scene(tmp_path) as one:
        ws = one.workspace
        (ws / "old").write_text("old")
        await one.run(write("a", "1"))
        second = await one.run(write("b", "2", "old", "new"))
        third = await one.run(lambda root: (root / "a").unlink())
        shown = await one.undos.preview("s", second, UndoOptions())
        assert [(turn.run_id, turn.number, turn.text) for turn in shown.turns] == [
            (second, 2, "go"),
            (third, 3, "go"),
        ]
        effects = {shown_path(each.change.path): each.effect for each in shown.files}
        assert effects == {"a": "recreated", "b": "deleted", "old": "restored"}
        alone = await one.undos.preview("s", second, UndoOptions(keep_log=True))
        assert (alone.turns, sorted(shown_path(each.change.path) for each in alone.files)) == (
            (),
            ["b", "old"],
        )
        (ws / "b").write_text("mine")
        with pytest.raises(CannotUndo, match="since the preview") as refused:
            await one.undos.undo("s", second, UndoOptions(plan=shown.plan, on_conflict="overwrite"))
        assert refused.value.code == "plan_changed"
        shown = await one.undos.preview("s", second, UndoOptions())
        assert [each.conflict for each in shown.files if each.change.path == b"b"] == ["changed since"]
        done = await one.undos.undo("s", second, UndoOptions(plan=shown.plan, on_conflict="keep_both"))
        assert (done.undo.turns, sorted(state(ws))) == (2, ["a", "b.before-undo", "old"])


async def test_an_undo_from_a_chat_platform_asks_before_it_removes_several_turns(tmp_path: Path) -> None:
    """P13: nothing is removed that the person wasn't told of."""

    def talk_second(request: SeenRequest) -> Script:
        return [Say("hello")] if roles(request).count("user") == 2 else model(request)

    async with scene(tmp_path, choose=talk_second) as one:

        async def undo(turns: str = "") -> str:
            return await messenger.undo(one.world.supervisor, "s", text=turns, by="ann")

        await one.run(write("a", "1"))
        await one.run()
        question = await undo()
        assert "removes 2 runs:\n\n- Run 1: go\n- Run 2: go\n\nTo confirm, send /undo 2." in question
        assert await undo("1") == question
        assert sorted(state(one.workspace)) == ["a"]
        done = "Undone: 2 runs and 1 file. You can redo this on the page.\n\n- `a`"
        assert (await undo("2"), state(one.workspace)) == (done, {})
        assert "already undone" in await undo()


async def test_undos_are_redone_one_by_one_and_a_file_by_its_own(tmp_path: Path) -> None:
    """P13: an undo of a turn, of an earlier one and of a file can each be taken back."""
    async with scene(tmp_path) as one:
        ws = one.workspace
        first = await one.run(write("a", "1", "b", "1"))
        second = await one.run(write("c", "2"))
        of_file = await one.undos.undo("s", first, UndoOptions(files=("b",)))
        await one.undos.undo("s", second, UndoOptions())
        await one.undos.undo("s", first, UndoOptions())
        assert (state(ws), await one.texts()) == ({}, [])
        with pytest.raises(CannotUndo, match="Redo that one first"):
            await one.undos.redo("s", second, UndoOptions())
        await one.undos.redo("s", first, UndoOptions())
        await one.undos.redo("s", second, UndoOptions())
        assert (sorted(state(ws)), len(await one.texts())) == (["a", "c"], 8)
        (ws / "b").write_text("mine")
        wanted = UndoOptions(undo_id=of_file.undo.undo_id, on_conflict="keep_both")
        await one.undos.redo("s", first, wanted)
        assert ((ws / "b").read_text(), (ws / "b.before-undo").read_text()) == ("1", "mine")
        with pytest.raises(CannotUndo, match="no undo of this run"):
            await one.undos.redo("s", first, wanted)


async def test_runs_that_overlap_in_a_workspace_share_what_both_changed(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        loop = asyncio.get_running_loop()
        gate, started = threading.Event(), asyncio.Event()

        def slow(root: Path) -> None:
            loop.call_soon_threadsafe(started.set)
            gate.wait(20)
            (root / "shared").write_text("slow")
            (root / "own").write_text("slow")

        long_run = asyncio.create_task(one.run(slow))
        await started.wait()
        other = await one.run(write("shared", "quick"), session_id="other")
        gate.set()
        run_id = await long_run
        found = await one.undos.changes("s", run_id)
        assert {shown_path(file.change.path): file.conflict for file in found.files} == {
            "own": "",
            "shared": "another run changed it too",
        }
        with pytest.raises(CannotUndo, match="another run"):
            await one.undos.undo("s", run_id, UndoOptions())
        with pytest.raises(CannotUndo, match="changed since"):
            await one.undos.undo("other", other, UndoOptions())
        await one.undos.undo("s", run_id, UndoOptions(files=("own",)))
        assert sorted(state(one.workspace)) == ["shared"]


async def test_an_undo_while_another_run_works_shares_what_that_run_changes_too(tmp_path: Path) -> None:
    """The other run found the files as the undo left them, not as its snapshot before has them."""
    async with scene(tmp_path) as one:
        undone = await one.run(write("shared", "undone"), session_id="other")
        loop = asyncio.get_running_loop()
        gate, started = threading.Event(), asyncio.Event()

        def slow(root: Path) -> None:
            loop.call_soon_threadsafe(started.set)
            gate.wait(20)
            (root / "shared").write_text("slow")

        long_run = asyncio.create_task(one.run(slow))
        await started.wait()
        await one.undos.undo("other", undone, UndoOptions())
        gate.set()
        with pytest.raises(CannotUndo, match="another run"):
            await one.undos.undo("s", await long_run, UndoOptions())
        assert (one.workspace / "shared").read_text() == "slow"


async def test_nothing_is_undone_while_a_run_of_the_session_is_active(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        first = await one.run(write("a", "1"))
        gate, started, loop = threading.Event(), asyncio.Event(), asyncio.get_running_loop()

        def slow(_root: Path) -> None:
            loop.call_soon_threadsafe(started.set)
            gate.wait(20)

        second = asyncio.create_task(one.run(slow))
        await started.wait()
        with pytest.raises(CannotUndo, match="active"):
            await one.undos.undo("s", first, UndoOptions())
        gate.set()
        await second
        await one.undos.undo("s", first, UndoOptions())
        assert state(one.workspace) == {}


async def test_a_crash_at_any_step_of_an_undo_leaves_the_files_before_or_after_and_the_log_says_which(
    tmp_path: Path,
) -> None:
    def change(root: Path) -> None:
        (root / "changed").write_text("after")
        (root / "gone").unlink()
        (root / "new").mkdir()
        (root / "new" / "file").write_text("new")
        (root / "folder" / "file").unlink()
        (root / "folder").rmdir()
        (root / "folder").symlink_to("/etc")

    async with scene(tmp_path) as one:
        ws = one.workspace
        (ws / "changed").write_text("before")
        (ws / "gone").write_text("gone")
        (ws / "folder").mkdir()
        (ws / "folder" / "file").write_text("deep")
        before = state(ws)
        run_id = await one.run(change)
        after = state(ws)
        decided: list[bool] = []
        for nth in count(1):
            crash = CrashPoint(nth)
            undos = Undos(one.restores(crash.reach), one.world.supervisor)
            with suppress(Crashed):
                await undos.undo("s", run_id, UndoOptions())
            await one.restores().finish_open()  # what the next process does first
            undone = (await one.world.supervisor.view("s")).session.is_undone(run_id)
            decided.append(bool(undone))
            assert state(ws) == (before if undone else after), f"step {nth}"
            assert not await one.world.store.notes("undo/")
            if undone:
                await one.undos.redo("s", run_id, UndoOptions())
                assert state(ws) == after
            if not crash.has_crashed:
                break
        assert decided == sorted(decided)
        assert {True, False} == set(decided)


async def test_an_undo_follows_no_link_out_of_the_workspace(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("precious")
    async with scene(tmp_path) as one:
        ws = one.workspace
        (ws / "folder").mkdir()
        (ws / "folder" / "file").write_text("before")
        run_id = await one.run(write("folder/file", "after"))
        (ws / "folder" / "file").unlink()
        (ws / "folder").rmdir()
        (ws / "folder").symlink_to(outside)
        with pytest.raises(CannotUndo, match="changed since"):
            await one.undos.undo("s", run_id, UndoOptions())
        done = await one.undos.undo("s", run_id, UndoOptions(on_conflict="overwrite"))
        assert [path for path, _ in done.left] == ["folder/file"]
        assert (outside / "file").read_text() == "precious"


async def test_a_run_without_room_for_a_snapshot_goes_on_and_says_so(tmp_path: Path) -> None:
    async with scene(tmp_path, limits_of_scan=ScanLimits(files=1)) as one:
        (one.workspace / "a").write_text("1")
        (one.workspace / "b").write_text("2")
        run_id = await one.run(write("c", "3"))
        (taken,) = snapshots_of((await one.world.supervisor.view("s")).run(run_id))
        assert (taken.snapshot, taken.why_not) == ("", "the workspace has more than 1 files")
        with pytest.raises(CannotUndo, match="already in their earlier state"):
            await one.undos.undo("s", run_id, UndoOptions(keep_log=True))
        assert (one.workspace / "c").read_text() == "3"


async def test_names_that_are_no_text_come_back_as_they_were(tmp_path: Path) -> None:
    names = [b"new\nline", b"\xff\xfe", b"-rf", b'quo"te', b" space "]

    def change(root: Path) -> None:
        for name in names[1:]:
            (root / os.fsdecode(name)).write_bytes(b"after")
        (root / os.fsdecode(names[0])).unlink()

    async with scene(tmp_path) as one:
        for name in names:
            (one.workspace / os.fsdecode(name)).write_bytes(b"before " + name)
        before = state(one.workspace)
        run_id = await one.run(change)
        await one.undos.undo("s", run_id, UndoOptions(files=("\\xff\\xfe",)))
        await one.undos.undo("s", run_id, UndoOptions())
        assert state(one.workspace) == before


async def test_a_crash_at_any_append_of_a_run_leaves_changes_that_can_be_undone(tmp_path: Path) -> None:
    """P6, P13: a snapshot is named on the log before the change, so nothing is changed without one."""
    workspace = tmp_path / "workspace"
    await asyncio.to_thread(workspace.mkdir)
    await asyncio.to_thread(write("file", "before"), workspace)
    before = await asyncio.to_thread(state, workspace)
    async with ChaosServer(choose=model) as chaos:
        for nth in count(1):
            crash, disk, sent = CrashPoint(nth), MemoryDisk(), asyncio.Event()
            snapshots = Snapshots(tmp_path / f"snapshots-{nth}")
            tool = Changes([write("file", "after"), write("file", "after")])
            with suppress(Crashed, JournalError, BaseExceptionGroup):
                store = CrashingStore(disk, crash, after=False)
                async with process(
                    chaos, tool, store=store, workspace=workspace, features={"undo": snapshots}
                ) as world:
                    await world.inbox.send("s", IncomingMessage(text="go"))
                    sent.set()
                    ended = asyncio.create_task(world.until("s", e.RunEnded))
                    dead = asyncio.create_task(crashed(crash))
                    await either(ended, dead)
            if not sent.is_set():
                continue
            kept = MemoryStore(disk)
            async with process(
                chaos, tool, store=kept, workspace=workspace, features={"undo": snapshots}
            ) as world:
                await world.until("s", e.RunEnded)
                (run_id,) = (await world.supervisor.view("s")).session.runs
                undos = Undos(Restores(world.store, snapshots, world.clock), world.supervisor)
                await undos.undo("s", run_id, UndoOptions(on_conflict="overwrite"))
            assert await asyncio.to_thread(state, workspace) == before, f"append {nth}"
            if not crash.has_crashed:
                break


async def crashed(crash: CrashPoint) -> None:
    """Return when the process is dead."""
    while not crash.has_crashed:  # noqa: ASYNC110  # a crash tells nobody
        await asyncio.sleep(0.01)
