"""A process is killed within an undo: `python -m features.undo.kills` does so at every step of many cases."""

import asyncio
import os
import sys
from pathlib import Path

NOBODY = 65_534


async def test_a_kill_within_an_undo_leaves_all_files_before_or_after_and_a_persons_change_theirs() -> None:
    """P6, P13: a real kill -9 of a real process on a real store, which is not root's."""
    user = NOBODY if os.geteuid() == 0 else 0
    words = ["--seed", "1", "--files", "10", "--every", "8", "--user", str(user)]
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "features.undo.kills", *words),
        cwd=Path(__file__).parents[2],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, _ = await child.communicate()
    assert child.returncode == 0, said.decode()
    assert b"kills, nothing lost" in said
    assert not said.startswith(b"1 cases, 0 kills")
