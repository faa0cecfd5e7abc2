"""A sandbox that fails is not a command that fails, and never a reason to run without one."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.tools.shell.process_table import table
from sandbox.confined_world import HAS_BUBBLEWRAP, ConfinedWorld, confined_world
from tools.calls import Call, until

pytestmark = pytest.mark.skipif(not HAS_BUBBLEWRAP, reason="needs bubblewrap")


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        (
            "AGENTS.md",
            "AGENTS.md was moved or removed while the sandbox was being set up. Run the command again.",
        ),
        (
            "src",
            "The sandbox couldn't start the command, so it didn't run. This isn't an error of the command",
        ),
    ],
)
async def test_a_sandbox_that_cannot_start_is_an_error_of_its_own_and_nothing_runs(
    tmp_path: Path, gone: str, said: str
) -> None:
    """P4, P13: a path is gone before anything is mounted, or bubblewrap itself can't go there."""
    async with confined_world(tmp_path) as world:
        call = await asyncio.to_thread(_with_a_path_that_is_gone, world, gone)
        result = await world.shell.run({"command": "touch ran"}, call)
        failed = await world.run("exit 1")
    assert (result.ok, result.ending) == (False, "not_started")
    assert said in result.text
    assert gone in result.text
    assert not await asyncio.to_thread((world.workspace / "ran").exists)
    assert (failed.ok, failed.ending) == (False, "finished")
    assert "[exit code 1]" in failed.text


def _with_a_path_that_is_gone(world: ConfinedWorld, name: str) -> Call:
    guide, folder = world.workspace / "AGENTS.md", world.workspace / "src"
    guide.write_text("x")
    folder.mkdir()
    args = {"command": "touch ran"}
    action = world.shell.action(args, workspace=world.workspace)
    confinement = world.shell.confinement(args, workspace=world.workspace, lift=action.lift)
    assert confinement is not None
    profile = replace(confinement.profile, cwd=str(folder))
    if name == "src":
        folder.rmdir()
    else:
        guide.unlink()
    return Call(
        workspace=world.workspace,
        judged_paths=action.paths,
        confinement=replace(confinement, profile=profile),
    )


async def test_a_sandbox_that_dies_says_so_and_leaves_no_process(tmp_path: Path) -> None:
    async with confined_world(tmp_path) as world:
        mark = world.workspace / "started"
        running = asyncio.create_task(world.run("touch started; sleep 1000.25"))
        await until(mark.exists)
        await asyncio.to_thread(_kill_our_sandbox)
        result = await running
        await until(lambda: not [row for row in table() if row.name == "sleep" and _is_ours(row.pid)])
    assert (result.ok, result.ending) == (False, "killed")
    assert "The sandbox died (signal SIGKILL)" in result.text


def _kill_our_sandbox() -> None:
    # Earlier tests may have left dead ones that nobody waited for.
    ours = [row for row in table() if row.name == "bwrap" and row.parent == os.getpid() and row.state != "Z"]
    assert len(ours) == 1
    os.kill(ours[0].pid, signal.SIGKILL)


def _is_ours(pid: int) -> bool:
    try:
        return b"1000.25" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
