"""Small wrong ways to take things back, with the check that must notice each."""

import asyncio
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from fakes.crash import Crashed, CrashPoint
from features.undo.world import scene, state, write
from holdfast.features.undo.planning import CannotUndo
from holdfast.features.undo.restores import Restores, UndoDone
from holdfast.features.undo.snapshots import NoSnapshot, Snapshot, SnapshotKey, Snapshots
from holdfast.features.undo.undos import UndoOptions, Undos
from sabotage import Sabotage

# P13: what was done can be taken back


class AfterTheWrite(Snapshots):
    """Takes the snapshot of before when the write has happened."""

    async def take(
        self, workspace: Path, place: SnapshotKey, *, seconds: float | None = None
    ) -> Snapshot | NoSnapshot:
        if place.label.endswith("-before"):
            await asyncio.to_thread(write("file", "after"), workspace)
        return await super().take(workspace, place, seconds=seconds)


async def check_the_files_are_as_before(kind: type[Snapshots]) -> None:
    """P13: after an undo the workspace is as it was before the run."""
    with TemporaryDirectory() as folder:
        async with scene(Path(folder), kind=kind) as one:
            await asyncio.to_thread(write("file", "first"), one.workspace)
            before = await asyncio.to_thread(state, one.workspace)
            run_id = await one.run(write("file", "after"))
            with suppress(CannotUndo):
                await one.undos.undo("s", run_id, UndoOptions())
            assert await asyncio.to_thread(state, one.workspace) == before


class Overwrites(Undos):
    """Undoes whatever a person did since."""

    async def undo(self, session_id: str, run_id: str, options: UndoOptions) -> UndoDone:
        return await super().undo(session_id, run_id, replace(options, on_conflict="overwrite"))


async def check_a_persons_change_survives(kind: type[Undos]) -> None:
    """P13: an undo refuses to take back what a person has changed since."""
    with TemporaryDirectory() as folder:
        async with scene(Path(folder)) as one:
            run_id = await one.run(write("file", "after"))
            await asyncio.to_thread(write("file", "mine"), one.workspace)
            with suppress(CannotUndo):
                await kind(one.restores(), one.world.supervisor).undo("s", run_id, UndoOptions())
            left = await asyncio.to_thread(state, one.workspace)
            assert left == {"file": (0o644, b"mine")}


class IgnoresThePreview(Undos):
    """Undoes whatever there is by now, although the person agreed to something else."""

    async def undo(self, session_id: str, run_id: str, options: UndoOptions) -> UndoDone:
        return await super().undo(session_id, run_id, replace(options, plan=""))


async def check_only_the_previewed_turns_are_removed(kind: type[Undos]) -> None:
    """P13: a turn that came after the preview isn't removed with the others."""
    with TemporaryDirectory() as folder:
        async with scene(Path(folder)) as one:
            run_id = await one.run(write("file", "after"))
            plan = (await one.undos.preview("s", run_id, UndoOptions())).plan
            await one.run(write("other", "later"))
            with suppress(CannotUndo):
                await kind(one.restores(), one.world.supervisor).undo("s", run_id, UndoOptions(plan=plan))
            assert sorted(await asyncio.to_thread(state, one.workspace)) == ["file", "other"]


class NeverFinishes(Restores):
    """Leaves an undo that a crash cut short as it is."""

    async def finish_open(self) -> None:
        return


async def check_an_undo_that_a_crash_cut_short_is_whole(kind: type[Restores]) -> None:
    """P6, P13: once the log says that it happened, the next process puts the remaining files back."""
    with TemporaryDirectory() as folder:
        async with scene(Path(folder)) as one:
            await asyncio.to_thread(write("a", "before", "b", "before"), one.workspace)
            before = await asyncio.to_thread(state, one.workspace)
            run_id = await one.run(write("a", "after", "b", "after"))
            crash = CrashPoint(5)  # two files are staged, the event is decided and written, one file is next
            with suppress(Crashed):
                await Undos(one.restores(crash.reach), one.world.supervisor).undo("s", run_id, UndoOptions())
            await kind(one.world.store, one.snapshots, one.world.clock).finish_open()
            assert (await one.world.supervisor.view("s")).session.is_undone(run_id)
            assert await asyncio.to_thread(state, one.workspace) == before


SABOTAGES = (
    Sabotage("P6", check_an_undo_that_a_crash_cut_short_is_whole, Restores, NeverFinishes),
    Sabotage("P13", check_the_files_are_as_before, Snapshots, AfterTheWrite),
    Sabotage("P13", check_a_persons_change_survives, Undos, Overwrites),
    Sabotage("P13", check_only_the_previewed_turns_are_removed, Undos, IgnoresThePreview),
)
