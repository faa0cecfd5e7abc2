"""Forked programs: to a test, they are like programs that it started itself."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from forked import fork
from holdfast.tools.shell.process_table import look


async def test_a_forked_program_says_what_an_executed_one_does(tmp_path: Path) -> None:
    command = ("run", "hi", "--config", str(tmp_path / "missing.toml"))
    executed = subprocess.run(  # noqa: ASYNC221  # nothing else happens in this test
        [sys.executable, "-m", "holdfast", *command], cwd=tmp_path, capture_output=True, check=False
    )
    process = await fork(*command, cwd=tmp_path)
    assert await process.communicate() == (executed.stdout, executed.stderr)
    assert await process.wait() == executed.returncode == 1


async def test_a_forked_program_is_a_child_in_its_folder_that_can_be_killed(tmp_path: Path) -> None:
    process = await fork("serve", "--config", os.devnull, cwd=tmp_path)
    row = await asyncio.to_thread(look, process.pid)
    assert row is not None
    assert row.parent == os.getpid()
    process.kill()
    await process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert await asyncio.to_thread(look, process.pid) is None
    with pytest.raises(ProcessLookupError):
        process.kill()
