"""A test that hangs ends as a failure that names it, even where an event loop swallows the timeout."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

# asyncio logs whatever a callback raises and goes on, so the timeout's exception never reaches the test.
HANGS = """
import asyncio
import threading

async def test_that_hangs():
    asyncio.get_running_loop().call_soon(threading.Event().wait)
    await asyncio.Event().wait()

def test_that_comes_afterwards():
    pass
"""


def test_a_hung_test_whose_timeout_is_swallowed_is_named_with_its_stacks_and_the_others_run(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_hanging.py").write_text(HANGS, "utf-8")
    settings = ["-c", str(ROOT / "pyproject.toml"), "-p", "no:randomly", "-p", "no:cacheprovider"]
    short = ["--timeout", "0.2", "-o", "faulthandler_timeout=0.6"]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "--numprocesses", "1", *settings, *short, str(tmp_path)],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "crashed while running" in ended.stdout, ended.stdout + ended.stderr
    assert "test_hanging.py::test_that_hangs" in ended.stdout
    assert "Timeout (0:00:00.600000)!" in ended.stderr
    assert "in run_until_complete" in ended.stderr  # where the test waits
    assert "1 failed, 1 passed" in ended.stdout
