"""Long and broken commands are read in a process of their own, which does not outlive its time or us."""

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.policy.shell.syntax import QUICK_BYTES_MAX, is_costly
from holdfast.policy.shell.verdicts import GUESSES_MAX, STEPS_MAX, TOO_MANY, steps_of
from holdfast.policy.shell.wrappers import ScriptStep
from holdfast.tools.shell.command_reader import CHILDREN_MAX, REMEMBERED_MAX, TOO_SLOW, CommandReader

SLOW = "?a" * 4_000
LONG = "grep -n 'some words' " + " ".join(f"src/{nth}.py" for nth in range(60))


def bash(text: str) -> tuple[str, ...]:
    return ("/bin/bash", "-c", text)


@pytest.fixture
def reader() -> Iterator[CommandReader]:
    reader = CommandReader(patience_s=60)  # a busy machine is no reason to give up here
    yield reader
    reader.close()


def why(steps: tuple[ScriptStep, ...]) -> list[str]:
    return [finding.text for step in steps for finding in step.findings]


def test_an_ordinary_command_is_read_here(reader: CommandReader) -> None:
    for text in ("ls -la src", "git log --oneline | head -5", "(cd src && make) > log", "echo ')' \"(\" \\)"):
        assert not is_costly(text)
        assert reader(bash(text)) == steps_of(bash(text))
    assert not reader.pids


@pytest.mark.parametrize(
    "text", [LONG, ")" * 200, "a=(" * 60, "(", "cat <<'E'\n" + "x\n" * 500 + "E", "é" * QUICK_BYTES_MAX]
)
def test_what_is_long_or_unbalanced_is_read_elsewhere_with_the_same_result(
    reader: CommandReader, text: str
) -> None:
    """P10: the parser would hold everybody up over such a text."""
    assert is_costly(text)
    assert reader(bash(text)) == steps_of(bash(text))
    assert len(reader.pids) == 1


def test_one_process_reads_many_texts(reader: CommandReader) -> None:
    used: set[int] = set()
    for nth in range(5):
        reader(bash(f"{LONG} {nth}"))
        used.update(reader.pids)
    assert len(used) == 1


def test_the_same_text_is_not_read_again_and_only_so_many_are_remembered(reader: CommandReader) -> None:
    first = reader(bash(LONG))
    assert reader(bash(LONG)) is first
    for nth in range(REMEMBERED_MAX):
        reader(bash(f"{LONG} {nth}"))
    assert reader(bash(LONG)) is not first


def test_a_text_that_takes_too_long_asks_unread_and_its_process_is_gone() -> None:
    """P3 P10: its process is killed at its deadline, and what the text shows is still refused."""
    reader = CommandReader(patience_s=0.001)
    assert why(reader(bash(f"{SLOW}; rm -rf /"))) == [TOO_SLOW]
    assert not reader.pids
    guesses = [step.command for step in reader(bash(f"{SLOW}; rm -rf /")) if step.guess]
    assert any([word.text for word in command.words] == ["rm", "-rf", "/"] for command in guesses)
    reader.close()


def test_a_process_that_somebody_killed_is_replaced(reader: CommandReader) -> None:
    reader(bash(LONG))
    (pid,) = reader.pids
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert reader(bash(f"{LONG} again")) == steps_of(bash(f"{LONG} again"))
    assert pid not in reader.pids


async def test_many_threads_share_few_processes(reader: CommandReader) -> None:
    texts = [bash(f"{LONG} {nth}") for nth in range(12)]
    found = await asyncio.gather(*(asyncio.to_thread(reader, text) for text in texts))
    assert found == [steps_of(text) for text in texts]
    assert 1 <= len(reader.pids) <= CHILDREN_MAX


def test_closed_it_has_no_process_and_reads_nothing_more() -> None:
    reader = CommandReader(patience_s=60)
    reader(bash(LONG))
    (pid,) = reader.pids
    reader.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert why(reader(bash(f"{LONG} again"))) == [TOO_SLOW]
    assert not reader.pids
    reader.close()


def test_one_that_nobody_holds_ends_its_process() -> None:
    reader = CommandReader(patience_s=60)
    reader(bash(LONG))
    (pid,) = reader.pids
    del reader
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


PARENT = """
import sys
from holdfast.tools.shell.command_reader import CommandReader
reader = CommandReader()
reader(("bash", "-c", "ls " + "a " * 300))
print(reader.pids[0], flush=True)
if sys.argv[1] == "busy":
    reader(("bash", "-c", "?a" * 4_000))
sys.stdin.read()
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs pidfd_open")
@pytest.mark.parametrize("state", ["idle", "busy"])
def test_the_process_does_not_outlive_one_that_was_killed(state: str) -> None:
    """P5: no orphan stays, even if we die while it parses."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, state], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child_fd = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
        gone, _, _ = select.select([child_fd], [], [], 30)
        os.close(child_fd)
        assert gone


def test_the_process_is_given_no_environment(reader: CommandReader) -> None:
    """P11: it reads what a model wrote, and needs no key for that."""
    reader(bash(LONG))
    (pid,) = reader.pids
    environment = Path(f"/proc/{pid}/environ")
    if not environment.exists():
        pytest.skip("needs /proc")
    assert environment.read_bytes() == b""


def test_how_much_is_judged_has_an_end() -> None:
    steps = steps_of(bash(";".join(f"a{nth}" for nth in range(1_500))))
    assert TOO_MANY in why(steps)
    assert len([step for step in steps if not step.guess]) == STEPS_MAX + 1
    assert len([step for step in steps if step.guess]) <= GUESSES_MAX
