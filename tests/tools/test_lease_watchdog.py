"""The watchdog kills the foreground tools of a server that is frozen, dead or doesn't renew its lease."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from holdfast.interfaces.system_clock import steady_s
from holdfast.supervision import BackgroundTasks
from holdfast.tools.shell.background import Background
from holdfast.tools.shell.lease_watchdog import LeaseWatchdog, watched_tools
from holdfast.tools.shell.process_table import environ_of, look, table
from holdfast.tools.shell.server_tools import VARIABLE
from tools.calls import ENVIRONMENT, QUICK, Call, until
from tools.kept_shell import (
    NEVER_S,
    check_a_command_on_a_volume_is_killed_and_a_local_one_goes_on,
    kept_shell,
)
from tools.loops import ON_BOTH_LOOPS

TESTS = Path(__file__).parent.parent


async def test_a_command_is_killed_when_the_lease_is_not_renewed_and_a_background_process_is_not(
    tmp_path: Path,
) -> None:
    """P6: another server may continue the session from then on."""
    watchdog, call = LeaseWatchdog(volumes=[tmp_path], silence_s=0.2), Call(workspace=tmp_path)
    background = Background(tmp_path / "jobs", now_ms=lambda: 0, kill_patience=QUICK)
    tool = kept_shell(watchdog, background)
    await tool.run({"command": "sleep 1000", "background": True}, call)
    async with BackgroundTasks() as tasks, watched_tools(watchdog, tasks):
        # The trap keeps bash from ending by itself, and the daemon has neither group nor environment.
        command = "trap '' TERM; setsid env -i sleep 1000 & echo begun; sleep 1000; sleep 1000"
        result = await tool.run({"command": command}, call)
        assert result.ending == "killed"
        assert "couldn't reach the shared database in time" in result.text
        (job,) = background.jobs(call.session_id)
        assert job.running
        watchdog.renewed(steady_s() + NEVER_S)
        result = await tool.run({"command": "echo fine"}, call)
        assert (result.text, result.ending) == ("fine", "finished")
    await background.kill(job)
    await background.close()
    assert await call.left() == []


async def test_a_command_in_a_local_workspace_goes_on_while_the_database_is_away(tmp_path: Path) -> None:
    """P6: its session waits for this server, so nobody else works on its files."""
    await check_a_command_on_a_volume_is_killed_and_a_local_one_goes_on(
        lambda volume: LeaseWatchdog(volumes=[volume], silence_s=0.2), tmp_path
    )


@ON_BOTH_LOOPS
async def test_a_watchdog_that_is_killed_or_frozen_is_replaced() -> None:
    watchdog = LeaseWatchdog()
    async with BackgroundTasks() as tasks, watched_tools(watchdog, tasks):
        await until(lambda: watchdog.pid)
        first = watchdog.pid
        os.kill(first, signal.SIGKILL)
        await until(lambda: watchdog.pid not in {0, first})
        second = watchdog.pid
        os.kill(second, signal.SIGSTOP)

        def is_replaced() -> bool:
            watchdog.renewed(steady_s())
            return watchdog.pid not in {0, second}

        await until(is_replaced)
        third = watchdog.pid
    await until(lambda: not any(row.pid in {first, second, third} for row in table()))


SERVER = """
import asyncio, os, signal, sys
from pathlib import Path
from holdfast.interfaces.system_clock import steady_s
from holdfast.supervision import BackgroundTasks
from holdfast.tools.shell.background import Background
from holdfast.tools.shell.lease_watchdog import LeaseWatchdog, watched_tools
from tools.calls import Call
from tools.kept_shell import NEVER_S, kept_shell

async def main():
    watchdog = LeaseWatchdog()
    watchdog.renewed(steady_s() + NEVER_S)
    call = Call(workspace=Path.cwd())
    tool = kept_shell(watchdog, Background(Path.cwd() / "jobs", now_ms=lambda: 0))
    async with BackgroundTasks() as tasks, watched_tools(watchdog, tasks):
        while not watchdog.pid:
            await asyncio.sleep(0.01)
        command = "setsid env -i sleep 1000 & echo begun; sleep 1000; sleep 1000"
        running = asyncio.create_task(tool.run({"command": command}, call))
        await call.hears("begun")
        sys.stdout.write(f"{watchdog.pid} {watchdog.environment['HOLDFAST_SERVER']}\\n")
        sys.stdout.flush()
        await running

asyncio.run(main())
"""


async def test_when_a_server_is_killed_its_commands_are_killed_and_its_watchdog_ends(tmp_path: Path) -> None:
    """P6: nobody else on the machine would do it if another machine continues the session."""
    other = await asyncio.create_subprocess_exec(
        "sleep", "1000", env={VARIABLE: "of another server", "HOLDFAST_RUN": "run:call:nonce:foreground"}
    )
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SERVER),
        cwd=tmp_path,
        env={"PYTHONPATH": str(TESTS), "PATH": ENVIRONMENT["PATH"]},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert server.stdout is not None
        watchdog, token = (await server.stdout.readline()).split()
        mark = f"{VARIABLE}=".encode() + token

        def below() -> set[int]:
            found = {row.pid for row in table() if not row.is_dead and mark in environ_of(row.pid)}
            return found | {row.pid for row in table() if row.parent in found and not row.is_dead}

        begun = await asyncio.to_thread(below)
        assert len(begun) >= 2
        server.kill()
        await server.communicate()
        await until(lambda: look(int(watchdog)) is None or look(int(watchdog)).is_dead)  # pyright: ignore[reportOptionalMemberAccess]
        rows = await asyncio.to_thread(table)
        assert [str(row) for row in rows if row.pid in begun and not row.is_dead] == []
        assert other.returncode is None
    finally:
        for process in (server, other):
            if process.returncode is None:
                process.kill()
            await process.wait()
