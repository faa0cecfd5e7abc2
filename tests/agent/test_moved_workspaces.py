"""A workspace is the folder that was accepted: a link in its place leads no run, tool or undo elsewhere."""

import asyncio
from pathlib import Path

import pytest

from agent.world import Effect, asks_about, ending, process, send, tool_ends
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Say
from holdfast.features.undo.snapshots import NoSnapshot, SnapshotKey, Snapshots
from holdfast.interfaces.workspace_paths import WorkspaceMoved, unmoved
from holdfast.runner.asks import ApprovalVerdict
from holdfast.tools.files.contents import FilesSeen
from holdfast.tools.files.read_file import ReadFile
from holdfast.tools.files.workspace import PathRefused, Workspace


@pytest.fixture
def chosen(tmp_path: Path) -> Path:
    """A workspace, beside a folder that nobody chose."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "notes.txt").write_text("private")
    folder = tmp_path / "parent" / "chosen"
    folder.mkdir(parents=True)
    return folder


def swap(folder: Path) -> None:
    """Put a link where the folder was."""
    folder.rmdir()
    folder.symlink_to(folder.parents[1] / "outside")


def swap_above(folder: Path) -> None:
    """Put a link where its parent was; the name below it is a folder there too."""
    folder.rmdir()
    folder.parent.rmdir()
    (folder.parents[1] / "outside" / folder.name).mkdir()
    folder.parent.symlink_to(folder.parents[1] / "outside")


@pytest.mark.parametrize("swapped", [swap, swap_above])
async def test_a_run_whose_workspace_became_a_link_does_not_start(chosen: Path, swapped: object) -> None:
    """P11: it ends with the reason, and no model is called."""
    assert callable(swapped)
    await asyncio.to_thread(swapped, chosen)
    async with ChaosServer() as chaos, process(chaos) as world:
        await send(world, workspace=str(chosen))
        ended = ending(await world.until("s", e.RunEnded))
        assert (ended.outcome, ended.cause) == ("failed", "workspace_moved")
        assert ended.failure is not None
        assert str(chosen) in ended.failure.text
        assert chaos.seen.requests_seen == 0


async def test_a_tool_that_was_approved_before_the_swap_does_not_run(chosen: Path) -> None:
    """P8, P11: neither a tool of any kind nor a file tool acts in the other folder."""
    receiver: list[str] = []
    calls = (CallTool("send", {}), CallTool("read_file", {"path": "notes.txt"}))
    tools = (Effect("send", receiver), ReadFile(FilesSeen()))
    async with (
        ChaosServer(calls, [Say("done")]) as chaos,
        process(chaos, *tools, judge=asks_about("send")) as world,
    ):
        await send(world, workspace=str(chosen))
        records = await world.until("s", e.ApprovalAsked)
        asked = next(one.event for one in records if isinstance(one.event, e.ApprovalAsked))
        await asyncio.to_thread(swap, chosen)
        await world.inbox.answer(asked.approval_id, ApprovalVerdict("once"))
        ends = tool_ends(await world.until("s", e.RunEnded))
        assert [(one.ok, one.ending) for one in ends] == [(False, "not_started")] * 2
        assert all("leads through a link now" in one.result for one in ends)
        assert receiver == []


async def test_nothing_of_a_workspace_that_became_a_link_is_opened_or_stored(chosen: Path) -> None:
    """P11: at every place that opens a workspace."""
    snapshots = Snapshots(chosen.parents[1] / "snapshots")
    await asyncio.to_thread(swap, chosen)

    def look() -> None:
        with pytest.raises(WorkspaceMoved):
            unmoved(chosen)
        with (
            pytest.raises(PathRefused, match="leads through a link now"),
            Workspace(chosen).spot("notes.txt"),
        ):
            pass

    await asyncio.to_thread(look)
    with pytest.raises(WorkspaceMoved):
        async with snapshots.workspace(chosen):
            pass
    assert isinstance(await snapshots.take(chosen, SnapshotKey("s", "r", "0-before")), NoSnapshot)
