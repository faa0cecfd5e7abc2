"""Kills a process at every step of an undo, as `kill -9` does, and checks what the next one makes of it.

    python -m features.undo.kills --seed 1 --cases 20 --files 40 --user 65534

Each case has a workspace and a run that changed it, both made from the seed. For each step of the undo, a
process of its own is killed there. Sometimes a person changes a file then. The next process starts as a
server does, and each file must be as before the run or as after it, all alike, as the log says; but what
the person changed must be theirs. The processes are forked, so that they need no new interpreter.
"""

import argparse
import asyncio
import importlib
import json
import os
import pkgutil
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from agent.world import process
from features.undo.world import Changes, Scene, model, state
from holdfast import agent, models, runner
from holdfast.chaos import ChaosServer
from holdfast.features.undo.snapshots import Snapshots
from holdfast.features.undo.undos import UndoOptions, Undos
from stores import SqliteStore

PERSON = b"a person was here"
STEPS_MAX = 200_000


class Broken(Exception):
    """A promise was broken; the text says where."""


@dataclass(frozen=True, slots=True)
class Case:
    """One workspace and its run."""

    seed: int
    files: int
    folder: Path
    user: int = 0  # 0 is whoever runs this
    every: int = 1  # kill at each of so many steps

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def notes(self) -> Path:
        return self.folder / "notes.json"

    def read(self) -> dict[str, Any]:
        return json.loads(self.notes.read_text())

    def write(self, **fields: object) -> None:
        known = self.read() if self.notes.exists() else {}
        self.notes.write_text(json.dumps(known | fields))


def fill(case: Case) -> None:
    """Files of every kind, in folders of some depth."""
    rng = Random(case.seed)
    for nth in range(case.files):
        folder = case.workspace / "/".join(f"d{rng.randrange(4)}" for _ in range(rng.randrange(4)))
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"f{nth}"
        kind = rng.randrange(5)
        if kind == 0:
            path.symlink_to(f"f{nth - 1}")
            continue
        path.write_bytes(rng.randbytes(rng.randrange(200)) if kind == 1 else b"text %d\n" % nth)
        path.chmod({2: 0o755, 3: 0o444}.get(kind, 0o644))


def change_one(path: Path, rng: Random) -> None:
    """Do something to a file or link, or nothing."""
    match rng.randrange(9):
        case 0:
            path.unlink()
            path.write_bytes(rng.randbytes(20))
        case 1:
            path.unlink()
        case 2 if not path.is_symlink():
            path.chmod(0o700)
        case 3:
            path.rename(path.with_name(f"renamed-{path.name}"))
        case 4:
            path.unlink()
            path.symlink_to("/etc/passwd")
        case 5:
            path.unlink()
            path.mkdir()
            (path / "inner").write_text("inside")
        case _:
            pass


def changes(case: Case) -> Callable[[Path], None]:
    """What the run does: it edits, deletes, renames, relinks and replaces."""

    def change(root: Path) -> None:
        rng = Random(case.seed + 1)
        for path in sorted(root.rglob("f*")):
            if os.path.lexists(path):
                change_one(path, rng)
        (root / "new" / "deep").mkdir(parents=True)
        for nth in range(5):
            (root / "new" / "deep" / f"{nth}").write_text(f"new {nth}")

    return change


@asynccontextmanager
async def server(case: Case, *todo: Callable[[Path], None]) -> AsyncGenerator[Scene]:
    """A process as a server is one: on a real store, it finishes what the last one left."""
    store = await SqliteStore.open(case.folder / "holdfast.db")
    tool, snapshots = Changes(list(todo)), Snapshots(case.folder / "snapshots")
    try:
        async with (
            ChaosServer(choose=model) as chaos,
            process(
                chaos, tool, store=store, workspace=case.workspace, features={"undo": snapshots}
            ) as world,
        ):
            yield Scene(world, snapshots, case.workspace, tool)
    finally:
        await store.close()


async def first(case: Case) -> None:
    """Run the agent."""
    before = state(case.workspace)
    async with server(case) as scene:
        run_id = await scene.run(changes(case))
    case.write(run_id=run_id, before=_encoded(before), after=_encoded(state(case.workspace)), person="")


def killing(nth: int) -> Callable[[str], None]:
    """Ends this very process at its nth step, without a word."""
    left = nth

    def reach(_step: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return reach


async def again(case: Case, nth: int) -> None:
    """Finish what the last process left, check it, and be killed at the nth step of another undo."""
    notes = case.read()
    run_id, person = str(notes["run_id"]), str(notes["person"])
    async with server(case) as scene:
        undone = (await scene.world.supervisor.view("s")).session.is_undone(run_id)
        expected = dict(_decoded(notes["before" if undone else "after"]))
        found = state(case.workspace)
        if person:
            # Permissions alone are undone or not, as the kill had it; the contents are what counts.
            expected[person] = (found.get(person, (0, b""))[0], PERSON)
        if found != expected:
            odd = sorted({one for one in found.keys() | expected if found.get(one) != expected.get(one)})
            raise Broken(f"killed before step {nth}, undone: {bool(undone)}, person: {person!r}: {odd[:5]}")
        left = [path.name for path in case.workspace.iterdir() if path.name.startswith(".holdfast")]
        if left or await scene.world.store.notes("undo/"):
            raise Broken(f"killed before step {nth}: {left} or a note is left over")
        if undone:
            await scene.undos.redo("s", run_id, UndoOptions(on_conflict="overwrite"))
        if person:
            mode, data = _decoded(notes["after"])[person]
            (case.workspace / person).write_bytes(data)
            (case.workspace / person).chmod(mode)
        case.write(person="")
        if state(case.workspace) != _decoded(notes["after"]):
            raise Broken(f"after step {nth - 1}: a redo did not bring back what the run did")
        undos = Undos(scene.restores(killing(nth)), scene.world.supervisor)
        await undos.undo("s", run_id, UndoOptions())
    if state(case.workspace) != _decoded(notes["before"]):
        raise Broken("an undo that nobody ended is not whole")


def forked(case: Case, work: Callable[[], None]) -> bool:
    """Do it in a process of its own; whether that came to its end. Raises Broken."""
    child = os.fork()
    if child == 0:
        try:
            if case.user:
                os.setgroups([])
                os.setgid(case.user)
                os.setuid(case.user)
            work()
        except BaseException as error:  # noqa: BLE001  # told to the parent, whatever it is
            case.write(broken=f"{type(error).__name__}: {error}")
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return False
    if os.waitstatus_to_exitcode(status) != 0:
        raise Broken(f"seed {case.seed}: {case.read().get('broken')}")
    return True


def _own(case: Case) -> None:
    for path in [case.folder, *case.folder.rglob("*")]:
        os.chown(path, case.user, case.user, follow_symlinks=False)


def import_all() -> None:
    """Import what a run imports when it needs it: another user can't read the program."""
    for package in (agent, models, runner):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(found.name)


def run(case: Case) -> int:
    """Kill at each step until there is none left; how many there were. Raises Broken."""
    import_all()
    case.workspace.mkdir(parents=True)
    fill(case)
    case.write(user=case.user)
    if case.user:
        _own(case)
    rng = Random(case.seed + 2)
    forked(case, lambda: asyncio.run(first(case)))
    notes = case.read()
    before, after = _decoded(notes["before"]), _decoded(notes["after"])
    common = [
        one for one in sorted(before) if before[one] != after.get(one) and after.get(one, (0,))[0] & 0o200
    ]
    for kills, nth in enumerate(range(1 + case.seed % case.every, STEPS_MAX, case.every)):
        if forked(case, lambda nth=nth: asyncio.run(again(case, nth))):
            return kills
        path = rng.choice(common) if common and rng.random() < 0.7 else ""
        if path and (case.workspace / path).is_file() and not (case.workspace / path).is_symlink():
            (case.workspace / path).write_bytes(PERSON)
            case.write(person=path)
    raise Broken(f"seed {case.seed}: the undo has no end")


def _encoded(found: dict[str, tuple[int, bytes]]) -> dict[str, list[object]]:
    return {path: [mode, data.hex()] for path, (mode, data) in found.items()}


def _decoded(stored: Any) -> dict[str, tuple[int, bytes]]:
    return {path: (mode, bytes.fromhex(data)) for path, (mode, data) in stored.items()}


def main() -> int:
    """Run the cases that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=1)
    parser.add_argument("--files", type=int, default=12)
    parser.add_argument("--user", type=int, default=0, help="work as this user; only root can")
    parser.add_argument("--every", type=int, default=1, help="kill at each of so many steps")
    given = parser.parse_args()
    steps = 0
    for seed in range(given.seed, given.seed + given.cases):
        folder = Path(tempfile.mkdtemp(prefix="undo-kills-"))
        folder.chmod(0o755)
        try:
            steps += run(Case(seed, given.files, folder / "case", given.user, given.every))
        except Broken as broken:
            print(f"BROKEN: {broken}")  # noqa: T201  # a command
            return 1
        finally:
            shutil.rmtree(folder)
    print(f"{given.cases} cases, {steps} kills, nothing lost")  # noqa: T201  # a command
    return 0


if __name__ == "__main__":
    sys.exit(main())
