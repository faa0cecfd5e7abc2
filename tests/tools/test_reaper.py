"""Orphans and dead children: found, killed and collected, and nobody else's taken."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from holdfast.tools.shell.marker import (
    VARIABLE,
    Marker,
    background,
    foreground,
    marked,
    markers_in,
    put_tag,
    tag_in,
    tagged,
    why_daemons_hide,
)
from holdfast.tools.shell.output import Capture
from holdfast.tools.shell.process import Command, run_command
from holdfast.tools.shell.process_table import look, tag_in_limits
from holdfast.tools.shell.reaper import OrphanReaper, reap
from holdfast.tools.shell.scope import KillPatience, Scope, find_marked, kill_leftovers, kill_scope
from tools.calls import ENVIRONMENT, QUICK, until
from tools.loops import ON_BOTH_LOOPS

TESTS = Path(__file__).parent.parent
AS_SUBREAPER = """
import asyncio, os, sys
from pathlib import Path
from holdfast.tools.shell.background import Background
from holdfast.tools.shell.process_table import table
from holdfast.tools.shell.reaper import OrphanReaper, become_subreaper
from tools.calls import Call, shell, uncollected

async def main():
    assert become_subreaper()
    call = Call(workspace=Path.cwd())
    tool = shell(Background(Path.cwd() / "jobs", now_ms=lambda: 0))
    commands = [
        "(setsid sleep 1000 >/dev/null 2>&1 &); (nohup sleep 1000 >/dev/null 2>&1 &); echo done",
        "(true &); (setsid true &); echo done",
        "for i in 1 2 3 4 5; do (setsid sleep 1000 &); (sleep 0 &); done; echo done",
    ]
    for command in commands:
        assert (await tool.run({"command": command}, call)).text.startswith("done")
        assert await call.left() == []
    running = asyncio.create_task(tool.run({"command": commands[2] + "; sleep 1000"}, call))
    await call.hears("done")
    running.cancel()
    await asyncio.wait([running])
    assert await call.left() == []
    now = [0.0]
    orphans = OrphanReaper(monotonic_s=lambda: now[0])
    orphans.collect()
    now[0] = 60.0
    orphans.collect()
    assert uncollected() == [], uncollected()
    assert [str(row) for row in table() if row.parent == os.getpid()] == []
    sys.stdout.write("all collected")

asyncio.run(main())
"""


@ON_BOTH_LOOPS
async def test_a_server_that_is_a_subreaper_leaves_neither_orphans_nor_zombies(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        AS_SUBREAPER,
        cwd=tmp_path,
        env={"PYTHONPATH": str(TESTS), "PATH": ENVIRONMENT["PATH"]},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert output.decode() == "all collected"


def start_dying() -> "subprocess.Popen[bytes]":
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    return child


@ON_BOTH_LOOPS
async def test_a_death_that_somebody_waits_for_is_not_taken() -> None:
    child = await asyncio.to_thread(start_dying)
    now = [0.0]
    orphans = OrphanReaper(grace_s=10.0, monotonic_s=lambda: now[0])
    assert child.pid not in await asyncio.to_thread(orphans.collect)
    now[0] = 9.0
    assert child.pid not in await asyncio.to_thread(orphans.collect)
    assert await asyncio.to_thread(child.wait) == 0


@ON_BOTH_LOOPS
async def test_a_death_that_nobody_waits_for_is_taken_when_the_grace_is_over() -> None:
    child = await asyncio.to_thread(start_dying)
    now = [0.0]
    orphans = OrphanReaper(grace_s=10.0, monotonic_s=lambda: now[0])
    await asyncio.to_thread(orphans.collect)
    now[0] = 10.0
    assert child.pid in await asyncio.to_thread(orphans.collect)
    assert look(child.pid) is None
    child.wait()


async def test_only_the_dead_are_reaped() -> None:
    child = await asyncio.to_thread(subprocess.Popen, ["sleep", "1000"])
    assert not reap(child.pid)
    assert not reap(1)
    child.kill()
    await asyncio.to_thread(child.wait)


async def test_what_a_crashed_server_left_is_found_by_its_mark_and_killed(tmp_path: Path) -> None:
    run_id = f"run:of {tmp_path}"
    marks = [foreground(run_id, "a"), background(run_id, "b"), foreground("other", "c")]

    def start(marker: Marker) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(["sleep", "1000"], env=marked(ENVIRONMENT, marker), start_new_session=True)

    children = [await asyncio.to_thread(start, marker) for marker in marks]
    pids = {child.pid: marker for child, marker in zip(children, marks, strict=True)}
    await until(lambda: {one.process.pid: one.marker for one in find_marked(marks.__contains__)} == pids)
    assert await kill_leftovers(run_id, patience=QUICK) == ()
    living = await asyncio.to_thread(find_marked, marks.__contains__)
    assert [one.marker for one in living] == marks[1:]
    for child in children:
        child.kill()
        await asyncio.to_thread(child.wait)


async def test_who_survives_is_named() -> None:
    marker = foreground("run", "call")

    def start() -> "subprocess.Popen[bytes]":
        child = subprocess.Popen(
            ["bash", "-c", "trap '' TERM; echo ready; read"],
            env=marked(ENVIRONMENT, marker),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert child.stdout
        assert child.stdout.readline() == b"ready\n"
        return child

    child = await asyncio.to_thread(start)
    with child:
        no_time_to_die = KillPatience(term_s=0.0, kill_s=0.0)
        survivors = await asyncio.to_thread(
            kill_scope, Scope(belongs=lambda one: one == marker), patience=no_time_to_die
        )
        assert [str(one) for one in survivors] == [f"bash (pid {child.pid})"]
        await until(lambda: child.poll() is not None)


async def test_two_executions_with_one_tag_keep_their_processes_apart() -> None:
    first = foreground("run", "first")
    second = replace(first, nonce="another")
    assert first.tag == second.tag
    damaged = "run:call:nonsense:sideways"

    def start(environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        child = subprocess.Popen(
            tagged(("bash", "-c", "echo ready; read"), second),
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert child.stdout
        assert child.stdout.readline() == b"ready\n"
        return child

    environments = (marked(ENVIRONMENT, second), ENVIRONMENT, {**ENVIRONMENT, VARIABLE: damaged})
    children = [await asyncio.to_thread(start, environment) for environment in environments]
    of_first, of_second = (
        Scope(belongs=lambda one, nonce=each.nonce: one.nonce == nonce, tags=frozenset({each.tag}))
        for each in (first, second)
    )
    pids = [child.pid for child in children]
    found = await asyncio.to_thread(lambda: {one.pid for one in of_first.living()})
    assert found.intersection(pids) == set(pids[1:])
    found = await asyncio.to_thread(lambda: {one.pid for one in of_second.living()})
    assert found.issuperset(pids)
    for child in children:
        with child:
            child.kill()
    assert tag_in(damaged) == 0


def test_only_executions_in_the_foreground_share_the_tag_of_their_call() -> None:
    """P5: to end one background process is not to end another of the same call."""
    assert foreground("run", "call").tag == foreground("run", "call").tag
    assert background("run", "call").tag != background("run", "call").tag


def test_where_limits_have_no_effect_it_is_said_that_daemons_cannot_be_found(tmp_path: Path) -> None:
    deaf = tmp_path / "bash"
    deaf.write_text("#!/bin/sh\nexec cat /proc/self/limits\n")
    deaf.chmod(0o700)
    assert why_daemons_hide() == ""
    assert "cannot be found after a crash" in why_daemons_hide(str(deaf))
    assert "cannot be found after a crash" in why_daemons_hide(str(tmp_path / "none" / "bash"))


async def test_a_program_that_is_no_bash_carries_its_tag_too(tmp_path: Path) -> None:
    marker, capture = foreground("run", "call"), Capture()
    limits = Command(
        argv=("sh", "-c", "sleep 0.2; cat /proc/self/limits"), cwd=str(tmp_path), environment=ENVIRONMENT
    )
    await run_command(limits, capture, marker=marker, patience_s=20)
    text, _ = await asyncio.to_thread(capture.text)
    capture.close()
    assert tag_in_limits(text.encode()) == marker.tag
    put_tag(2**22 + 1, marker)  # nobody has this number: nothing happens


def test_a_mark_is_read_as_it_was_written_whatever_stands_in_it() -> None:
    inner = Marker(run_id="run:1", tool_call_id="call \0=\n", nonce="n1")
    outer = Marker(run_id="r", tool_call_id="c", nonce="n2", background=True)
    environment = marked(marked({"A": "b"}, outer), inner)
    data = b"\0".join(f"{name}={value}".encode() for name, value in environment.items())
    assert list(markers_in(data)) == [outer, inner]
    assert (
        list(markers_in(b"HOLDFAST_RUN=x\0HOLDFAST_RUN=a:b:c:d\0XHOLDFAST_RUN=" + str(inner).encode())) == []
    )


ADOPTS_FOR_A_WHILE = """
import asyncio, os, subprocess
from holdfast.supervision import BackgroundTasks
from holdfast.tools.shell.process_table import table
from holdfast.tools.shell.reaper import OrphanReaper, orphans_adopted

def orphan():
    said = subprocess.run(["sh", "-c", "sleep 1000 >/dev/null & echo $!"], stdout=subprocess.PIPE)
    pid = int(said.stdout)
    parent = next(row.parent for row in table() if row.pid == pid)
    os.kill(pid, 9)
    return pid, parent

async def main():
    async with BackgroundTasks() as tasks, orphans_adopted(OrphanReaper(grace_s=0.0), tasks, every_s=0.01):
        pid, parent = orphan()
        assert parent == os.getpid()
        while any(row.pid == pid for row in table()):
            await asyncio.sleep(0.01)
    assert orphan()[1] != os.getpid()
    print("adopted and let go")

asyncio.run(main())
"""


@ON_BOTH_LOOPS
async def test_orphans_are_adopted_only_while_somebody_collects_them() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ADOPTS_FOR_A_WHILE, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert said.decode() == "adopted and let go\n"
