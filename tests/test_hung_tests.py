"""A test that hangs or fails in an unusual way is a failure that is named, and the others run."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

# asyncio logs whatever a callback raises and goes on, so the timeout's exception never reaches the test.
HANGS = """
import asyncio
import threading

import pytest

async def test_that_hangs():
    asyncio.get_running_loop().call_soon(threading.Event().wait)
    await asyncio.Event().wait()

@pytest.mark.timeout(60)
def test_that_comes_afterwards():
    pass
"""
# As a retry that raises within the handling of the failure before it.
DEEP = """
def test_that_fails_after_many_tries():
    error = ValueError("the first")
    for nth in range(1_000):
        cause, error = error, ExceptionGroup("again", [ValueError(nth)])
        error.__context__ = cause
    raise error

def test_that_comes_afterwards():
    pass
"""
# Only garbage collection finds the socket.
LEAKING = """
import socket

def test_that_leaves_a_socket_open():
    cycle = [socket.socket()]
    cycle.append(cycle)
"""
RUN = "import sys; sys.path.insert(0, sys.argv.pop(1)); import pytest; sys.exit(pytest.main())"


def test_a_hung_test_whose_timeout_is_swallowed_is_named_with_its_stacks_and_the_others_run(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_hanging.py").write_text(HANGS, "utf-8")
    settings = ["-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider", "-p", "conftest"]
    short = ["--timeout", "0.5", "-o", "timeout_func_only=true", "-o", "faulthandler_timeout=4"]
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            RUN,
            str(ROOT / "tests"),
            *settings,
            *short,
            "--numprocesses",
            "1",
            str(tmp_path),
        ],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert "while running" in ended.stdout, ended.stdout + ended.stderr
    assert "test_hanging.py::test_that_hangs" in ended.stdout
    assert "Timeout (0:00:04)!" in ended.stderr
    assert "in run_until_complete" in ended.stderr  # where the test waits
    assert "1 failed, 1 passed" in ended.stdout


def test_a_failure_with_a_thousand_causes_is_shown_a_leak_fails_its_file_and_the_others_run(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_deep.py").write_text(DEEP, "utf-8")
    (tmp_path / "test_leaking.py").write_text(LEAKING, "utf-8")
    settings = ["-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider", "-p", "conftest"]
    ended = subprocess.run(
        [sys.executable, "-c", RUN, str(ROOT / "tests"), *settings, str(tmp_path)],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert "INTERNALERROR" not in ended.stdout + ended.stderr
    assert "1 failed, 2 passed, 1 error" in ended.stdout, ended.stdout + ended.stderr
    assert "at teardown of test_that_leaves_a_socket_open" in ended.stdout
