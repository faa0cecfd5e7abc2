"""Every way out of the program: what a foreground tool started is dead before the program is."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest

from cli.lab import hang_ups
from cli.tmux import HOLDFAST, terminal
from forked import fork
from holdfast.chaos import CallTool, ChaosServer, Say
from holdfast.tools.shell.process_table import ProcessEntry, table
from runner.program import configure, program
from tools.calls import ENVIRONMENT, until

pytestmark = pytest.mark.long

ALLOW = '\n[[approvals.rules]]\nallow = "shell"\n'
# All that hides from a stop: a deaf shell, a session of its own, a daemon without its parent's environment.
STUBBORN = """
trap '' TERM HUP INT QUIT
(setsid sleep 600 &)
(env -i setsid bash -c "trap '' TERM HUP; sleep 600 & echo up > daemon; wait" >/dev/null 2>&1 &)
until test -s daemon; do sleep 0.01; done
touch begun
while :; do sleep 600; done
"""
RUN_IT = CallTool("shell", {"command": "bash stubborn.sh"})
T = TypeVar("T")


def living_in(folder: Path) -> list[ProcessEntry]:
    """The processes that work in the folder: only what tools started does."""
    found: list[ProcessEntry] = []
    for row in table():
        try:
            if not row.is_dead and Path(f"/proc/{row.pid}/cwd").readlink() == folder:
                found.append(row)
        except OSError:
            continue  # it is gone
    return found


async def prepared(folder: Path, chaos: ChaosServer, *, sandbox: str = "auto") -> Path:
    """The configuration, and the workspace, in which nothing lives yet."""
    await asyncio.to_thread(configure, folder, chaos.base_url, drain_s=60.0, sandbox=sandbox)
    config = folder / "holdfast.toml"
    text = await asyncio.to_thread(config.read_text)
    await asyncio.to_thread(config.write_text, text + ALLOW)
    await asyncio.to_thread((folder / "work" / "stubborn.sh").write_text, STUBBORN)
    return folder / "work"


async def end_all(work: Path) -> list[ProcessEntry]:
    """Who is alive; killed, so that a test that fails leaves nothing."""
    left = still = await asyncio.to_thread(living_in, work)
    while still:
        for one in still:
            with suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)
        still = await asyncio.to_thread(living_in, work)
    return left


async def at_once(
    work: Callable[[Path, str], Coroutine[None, None, T]], folder: Path, *ways: str
) -> dict[str, T]:
    """What became of each way out; they are taken side by side, because each mostly waits."""
    doing: dict[str, asyncio.Task[T]] = {}
    async with asyncio.TaskGroup() as tasks:
        for way in ways:
            (folder / way).mkdir()
            doing[way] = tasks.create_task(work(folder / way, way))
    return {way: one.result() for way, one in doing.items()}


def signals_of(way: str) -> list[signal.Signals]:
    return [signal.Signals[name] for name in way.split()]


async def test_whatever_signals_end_a_server_its_tools_are_dead_first(tmp_path: Path) -> None:
    """P5: the process group, whoever left it, and the daemon that kept nothing of its parent's."""
    with hang_ups(signal.SIG_DFL):
        left = await at_once(
            end_a_server, tmp_path, "SIGTERM SIGTERM", "SIGINT SIGINT SIGINT", "SIGHUP SIGTERM", "SIGQUIT"
        )
    assert left == {name: [] for name in left}


async def end_a_server(folder: Path, way: str) -> list[ProcessEntry]:
    """What is left when the server has ended."""
    first, *more = signals_of(way)
    async with ChaosServer([RUN_IT]) as chaos:
        work = await prepared(folder, chaos)
        async with program(folder) as server:
            await server.start("work")
            await until((work / "begun").exists)
            assert len(await asyncio.to_thread(living_in, work)) >= 4
            server.process.send_signal(first)
            if more:
                await server.until_draining()
            for number in more:
                server.process.send_signal(number)
            code, _ = await server.ended()
        left = await end_all(work)
    assert code in {128 + number for number in signals_of(way)}, way
    return left


async def test_whatever_signals_end_a_single_run_its_tools_are_dead_first(tmp_path: Path) -> None:
    """P5: `holdfast run` with a server of its own."""
    with hang_ups(signal.SIG_DFL):
        left = await at_once(
            end_a_run, tmp_path, "SIGTERM SIGTERM SIGTERM", "SIGINT SIGINT SIGINT", "SIGQUIT"
        )
    assert left == {name: [] for name in left}


async def end_a_run(folder: Path, way: str) -> list[ProcessEntry]:
    """What is left when the run has ended."""
    async with ChaosServer([RUN_IT]) as chaos:
        work = await prepared(folder, chaos)
        process = await fork("run", "work", "--config", str(folder / "holdfast.toml"), cwd=folder)
        await until((work / "begun").exists)
        for number in signals_of(way):
            process.send_signal(number)
            await asyncio.sleep(0)
        await process.communicate()
        return await end_all(work)


async def test_whatever_signals_end_a_chat_its_tools_are_dead_first(tmp_path: Path) -> None:
    """P5: the window is closed, or the machine goes down."""
    left = await at_once(end_a_chat, tmp_path, "SIGTERM SIGTERM", "SIGQUIT")
    assert left == {name: [] for name in left}


async def end_a_chat(folder: Path, way: str) -> list[ProcessEntry]:
    """What is left when the chat has ended."""
    async with ChaosServer([RUN_IT]) as chaos:
        work = await prepared(folder, chaos)
        command = (*HOLDFAST, "chat", "--config", str(folder / "holdfast.toml"))
        async with terminal(*command, folder=folder) as window:
            await window.until("Type /help or ? for commands")
            await window.say("work")
            await until((work / "begun").exists)
            (lock,) = await asyncio.to_thread(lambda: list(folder.glob("data/lock")))
            pid = json.loads(await asyncio.to_thread(lock.read_bytes))["pid"]
            for number in signals_of(way):
                os.kill(pid, number)
            await window.until("exit=")
            return await end_all(work)


async def test_after_a_kill_and_a_restart_a_daemon_without_an_environment_is_dead_too(tmp_path: Path) -> None:
    """P5, P6: before its run goes on; what was started as a background process lives, also without one.

    In a sandbox the foreground is dead as soon as the server is.
    """
    left = await at_once(kill_and_restart, tmp_path, "off", "auto")
    assert left == {"off": ["sleep"], "auto": ["bwrap", "sleep"]}


async def kill_and_restart(folder: Path, sandbox: str) -> list[str]:
    """What lives on after the next start."""
    lasting = "env -i setsid -f bash -c 'echo up > lasting; exec sleep 600' >/dev/null 2>&1"
    keep = CallTool("shell", {"command": lasting, "background": True})
    async with ChaosServer([keep], [RUN_IT], [Say("ok")]) as chaos:
        work = await prepared(folder, chaos, sandbox=sandbox)
        async with program(folder) as server:
            run_id = await server.start("work")
            await until((work / "begun").exists)
            await until((work / "lasting").exists)
            server.process.kill()
            await server.ended()
        if sandbox == "auto":
            await until(lambda: [one.name for one in living_in(work)] == ["bwrap", "sleep"])
        else:
            assert len(await asyncio.to_thread(living_in, work)) >= 5
        async with program(folder) as server:
            seen = await server.events(run_id)
            (job,) = await asyncio.to_thread(lambda: list(folder.glob("data/background/*.state")))
            is_adopted = b'"ended":true' not in await asyncio.to_thread(job.read_bytes)
            left = [one.name for one in await asyncio.to_thread(living_in, work)]
            session_id = (await server.call("GET", f"/v1/runs/{run_id}"))[1]["session_id"]
            await server.call("DELETE", f"/api/sessions/{session_id}?now=true")
            assert await end_all(work) == [], f"{sandbox}: they end with their session"
    assert is_adopted, sandbox
    endings = [frame.data["ending"] for frame in seen if frame.data["type"] == "tool.ended"]
    assert endings == ["detached", "unknown"], sandbox
    assert seen[-1].data["outcome"] == "completed", sandbox
    return left


async def test_a_single_run_after_a_crash_ends_what_other_runs_left(tmp_path: Path) -> None:
    """P5: it goes on with none of them, but nothing of theirs goes on by itself."""
    async with ChaosServer([RUN_IT], [Say("ok")]) as chaos:
        work = await prepared(tmp_path, chaos)
        async with program(tmp_path) as server:
            await server.start("work")
            await until((work / "begun").exists)
            server.process.kill()
            await server.ended()
        process = await fork(
            "run", "something else", "--config", str(tmp_path / "holdfast.toml"), cwd=tmp_path
        )
        await process.communicate()
        assert process.returncode == 0
        assert await end_all(work) == []


UNWINDS = """
import asyncio, sys
from pathlib import Path
from holdfast.cli.serve import kill_tools_on_exit
from holdfast.tools.shell.background import Background
from holdfast.tools.shell.reaper import become_subreaper
from tools.calls import Call, shell

async def begin():
    call = Call(workspace=Path.cwd())
    tool = shell(Background(Path("jobs"), now_ms=lambda: 0))
    running = asyncio.create_task(tool.run({"command": "trap '' TERM; echo ready; sleep 600"}, call))
    await call.hears("ready")

become_subreaper()
with kill_tools_on_exit():
    asyncio.new_event_loop().run_until_complete(begin())  # and nobody ever closes it
    raise getattr(__builtins__, sys.argv[1])(7)
"""


async def test_a_program_that_ends_by_an_exception_leaves_no_process(tmp_path: Path) -> None:
    """P5: whatever else of it is no longer tidied up."""
    left = await at_once(unwind, tmp_path, "SystemExit", "RuntimeError", "KeyboardInterrupt")
    assert left == {name: [] for name in left}


async def unwind(folder: Path, way: str) -> list[ProcessEntry]:
    """What is left when the exception has ended the program."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", UNWINDS, way),
        cwd=folder,
        env={"PYTHONPATH": str(Path(__file__).parent.parent), "PATH": ENVIRONMENT["PATH"]},
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert await process.wait() != 0, way
    return await end_all(folder)
