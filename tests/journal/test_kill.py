"""Processes that are killed or frozen: what was shown is kept, and who was replaced cannot write."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

from journal.kill_cycles import Witness, check_journal, write_until_killed
from journal.sample import delta
from stores import SqliteStore

CYCLES = 8


def test_seen_is_saved_p1_a_writer_killed_at_any_moment_takes_nothing_back(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    witness = Witness()
    for seed in range(CYCLES):
        write_until_killed(path, witness, seed=seed)
        if seed % 4 == 3:  # not each time, so that a log of several lives is recovered, too
            assert asyncio.run(check_journal(path, witness)) >= len(witness.shown)
    assert len(witness.shown) > CYCLES


FROZEN = """
import asyncio, os, signal, sys
from pathlib import Path
from holdfast import events as e
from holdfast.interfaces.journal import FenceLost
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.redaction import NO_SECRETS

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]), NO_SECRETS)
    fence = await store.claim("s1")
    await store.append("s1", [e.SessionCreated(at_ms=1, epoch="e")])
    mine = e.TextDelta(at_ms=1, run_id="r1", segment=0, text="before")
    await store.append_run("s1", [mine], fence=fence)
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    try:
        await store.append_run("s1", [mine], fence=fence)
    except FenceLost:
        print("lost", flush=True)
    await store.close()

asyncio.run(main())
"""


async def test_a_frozen_writer_that_wakes_after_a_take_over_cannot_append_p1(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FROZEN, str(path), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert await child.stdout.readline() == b"ready\n"
    child.send_signal(signal.SIGSTOP)
    store = await SqliteStore.open(path)
    fence = await store.claim("s1")
    await store.append_run("s1", [delta("after")], fence=fence)
    child.send_signal(signal.SIGCONT)
    child.stdin.write(b"go\n")
    assert await child.stdout.readline() == b"lost\n"
    assert await child.wait() == 0
    child.stdin.close()
    assert [record.event for record in await store.read("s1", after=2)] == [delta("after")]
    await store.close()


async def test_a_loop_that_is_closed_early_leaves_a_process_that_can_exit(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys; from pathlib import Path\n"
        "from holdfast.journal.sqlite.store import SqliteStore\n"
        "from holdfast.redaction import NO_SECRETS\n"
        "asyncio.run(SqliteStore.open(Path(sys.argv[1]), NO_SECRETS)); print('out')"
    )
    command = [sys.executable, "-W", "error", "-c", script, str(tmp_path / "journal.db")]
    child = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert await child.communicate() == (b"out\n", None)
    assert child.returncode == 0
