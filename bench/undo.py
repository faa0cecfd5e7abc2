"""How long snapshots of a workspace and undoing take, beside git on the same files in the same run.

Usage: python bench/undo.py [--files 20000]

Prints seconds for: the first snapshot, the second with nothing changed, one with ten files changed; and for
`git add -A` (first) and `git status` and `git add -A` (again) as peers. Then every file is changed and all of
that undone, safe from a power cut, beside `git checkout` and `cp -a` of the same files. Exits with 1 if the
second snapshot takes more than a second and more than the peers' second round.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from holdfast.features.undo.changes import TurnTrees, composed
from holdfast.features.undo.planning import store_plan
from holdfast.features.undo.restore import FileStep, Plan, Restorer, current_states, state_of
from holdfast.features.undo.scan import ScanLimits
from holdfast.features.undo.snapshots import Snapshot, SnapshotKey, Snapshots

GOAL_S = 1.0
PER_FOLDER = 100
SETTLE_S = 0.2


def fill(workspace: Path, files: int) -> None:
    """Make a tree of small, different files."""
    for number in range(files):
        folder = workspace / f"{number // PER_FOLDER % 20}" / f"{number // PER_FOLDER}"
        if number % PER_FOLDER == 0:
            folder.mkdir(parents=True)
        (folder / f"file{number}.py").write_text(f"# file {number}\n" * 20)
    (workspace / ".gitignore").write_text("*.log\n*.py[co]\nnode_modules/\n/build/\n.venv/\n")


def git(workspace: Path, repository: Path, *words: str) -> float:
    """How long git takes for something, without any configuration."""
    environment = {
        "PATH": os.defpath,
        "GIT_DIR": str(repository),
        "GIT_WORK_TREE": str(workspace),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    began_s = time.perf_counter()
    subprocess.run(["git", *words], env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began_s


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    """How long it takes."""
    began_s = time.perf_counter()
    taken = await work()
    assert isinstance(taken, Snapshot), taken
    return time.perf_counter() - began_s


def restored(workspace: Path, snapshots: Snapshots, before: Snapshot, after: Snapshot) -> tuple[float, int]:
    """How long it takes to put every changed file back, safe from a power cut, and how many there are."""
    found = composed([TurnTrees(before.root, after.root, before.name)], snapshots)
    began_s = time.perf_counter()
    now = current_states(str(workspace), found)
    steps = tuple(FileStep(one.path, now[one.path], state_of(one.before)) for one in found.values())
    plan = Plan(steps)
    store_plan(plan, str(workspace), snapshots, SnapshotKey("s", "run", "undo"))
    blob = partial(snapshots.store.read, kind="blob")
    restorer = Restorer(str(workspace), plan, undo_id="bench", blob=blob, reach=lambda _: None)
    restorer.stage()
    done = restorer.apply().done
    return time.perf_counter() - began_s, done


def copied(workspace: Path, target: Path) -> float:
    """How long `cp -a` and a sync take for the same files."""
    began_s = time.perf_counter()
    subprocess.run(["cp", "-a", str(workspace), str(target)], check=True)
    os.sync()
    return time.perf_counter() - began_s


def change_all(workspace: Path) -> None:
    """Give every file other contents."""
    for path in workspace.rglob("*.py"):
        path.write_text(f"changed: {path.name}\n")


async def measure_restore(folder: Path, snapshots: Snapshots) -> None:
    """Change every file, undo that, and print how long it took beside git and cp."""
    workspace, repository = folder / "workspace", folder / "peer.git"
    before = await snapshots.take(workspace, SnapshotKey("s", "run", "all-before"))
    git(workspace, repository, "add", "-A")
    change_all(workspace)
    await asyncio.sleep(SETTLE_S)
    after = await snapshots.take(workspace, SnapshotKey("s", "run", "all-after"))
    assert isinstance(before, Snapshot), before
    assert isinstance(after, Snapshot), after
    taken, files = restored(workspace, snapshots, before, after)
    change_all(workspace)
    checkout = git(workspace, repository, "checkout", "-f", "--", ".")
    copy = copied(workspace, folder / "copy")
    print(f"undo of {files:,} changed files  {taken:8.3f} s {checkout:8.3f} s (checkout, nothing synced)")
    print(f"                                         {copy:8.3f} s (cp -a and sync)")
    print(f"undo / checkout {taken / checkout:.2f}, undo / cp {taken / copy:.2f}")


async def measure(folder: Path, files: int) -> bool:
    """Measure and print; whether the goal is met."""
    workspace, repository = folder / "workspace", folder / "peer.git"
    fill(workspace, files)
    await asyncio.sleep(SETTLE_S)
    snapshots = Snapshots(folder / "snapshots", limits=ScanLimits(seconds=600))

    async def take(nth: int) -> float:
        return await timed(lambda: snapshots.take(workspace, SnapshotKey("s", "run", f"{nth}-before")))

    first, second = await take(0), min([await take(nth) for nth in (1, 2, 3)])
    for number in range(10):
        (workspace / "0" / "0" / f"file{number}.py").write_text("changed\n")
    third = await take(4)
    git(workspace, repository, "init", "-q")
    added = git(workspace, repository, "add", "-A")
    status = min(git(workspace, repository, "status", "--porcelain") for _ in range(3))
    again = min(git(workspace, repository, "add", "-A") for _ in range(3))
    print(f"{files:,} files                    holdfast      git")
    print(f"first                         {first:8.3f} s {added:8.3f} s (add -A)")
    print(f"again, nothing changed        {second:8.3f} s {again:8.3f} s (add -A), {status:.3f} s (status)")
    print(f"again, 10 files changed       {third:8.3f} s")
    await measure_restore(folder, snapshots)
    return second <= max(GOAL_S, status + again)


def main() -> int:
    """Run it in a folder that is removed afterwards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20_000)
    with tempfile.TemporaryDirectory() as folder:
        return 0 if asyncio.run(measure(Path(folder), parser.parse_args().files)) else 1


if __name__ == "__main__":
    sys.exit(main())
