"""Crash points die at the nth passage, stay dead, and can be put around any call."""

import asyncio
import itertools
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fakes.crash import Crashed, CrashPoint, is_crash


class Log:
    """A stand-in for a journal: what was appended stays."""

    def __init__(self) -> None:
        self.kept: list[str] = []

    async def append(self, text: str) -> int:
        await asyncio.sleep(0)
        self.kept.append(text)
        return len(self.kept)


async def test_crash_at_every_append_is_a_loop() -> None:
    survivors: list[list[str]] = []
    for nth in itertools.count(1):
        log, crash = Log(), CrashPoint(nth)
        append = crash.around(log.append)
        try:
            for text in ("a", "b", "c"):
                await append(text)
        except Crashed:
            assert crash.has_crashed
        survivors.append(log.kept)
        if not crash.has_crashed:
            break
    assert survivors == [[], ["a"], ["a", "b"], ["a", "b", "c"]]


async def test_a_crash_after_the_call_leaves_its_effect_but_not_its_answer() -> None:
    log, crash = Log(), CrashPoint(2)
    append = crash.around(log.append, when="after")
    assert await append("a") == 1
    with pytest.raises(Crashed):
        await append("b")
    assert log.kept == ["a", "b"]


async def test_the_dead_do_not_append_a_last_word() -> None:
    log, crash = Log(), CrashPoint(1, name="start")
    append = crash.around(log.append, when="after")

    async def with_last_word() -> None:
        try:
            crash.reach("start")
        finally:
            await append("last word")

    with pytest.raises(Crashed):
        await with_last_word()
    assert log.kept == []


async def test_only_the_named_point_counts() -> None:
    crash = CrashPoint(2, name="commit")
    crash.reach("other")
    crash.reach("commit")
    crash.reach("other")
    with pytest.raises(Crashed):
        crash.reach("commit")


async def test_no_except_exception_survives_it_and_a_group_shows_it() -> None:
    crash = CrashPoint(1)

    async def careless() -> None:
        try:
            crash.reach()
        except Exception:  # noqa: BLE001 - that it does not catch a crash is the point
            pytest.fail("a crash is no Exception")

    with pytest.raises(BaseExceptionGroup) as caught:
        async with asyncio.TaskGroup() as group:
            group.create_task(careless())
    assert is_crash(caught.value)
    assert not is_crash(ValueError())


@pytest.mark.parametrize(("die", "status"), [("exit_now", 86), ("kill_self", -signal.SIGKILL)])
def test_a_child_process_dies_without_unwinding(die: str, status: int) -> None:
    program = f"""
from fakes.crash import CrashPoint, {die}
crash = CrashPoint(3, die={die})
try:
    for n in range(9):
        print(n, flush=True)
        crash.reach()
finally:
    print("unwound", flush=True)
"""
    child = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == status
    assert child.stdout.split() == ["0", "1", "2"]
