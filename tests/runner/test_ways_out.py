"""Every way out of the program: what a foreground tool started is dead before the program is."""

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from cli.test_serve import hang_ups
from cli.tmux import HOLDFAST, terminal
from forked import forked
from holdfast.chaos import CallTool, ChaosServer, Say
from holdfast.tools.shell.process_table import ProcessEntry, table
from runner.program import Program, configure, program
from tools.calls import ENVIRONMENT, until

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
TERM, INT, HUP, QUIT = signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT


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


@pytest.mark.parametrize(
    "signals",
    [[TERM, TERM], [INT, INT, INT], [HUP, TERM], [QUIT]],
    ids=lambda signals: " ".join(one.name for one in signals),
)
async def test_whatever_signals_end_a_server_its_tools_are_dead_first(
    tmp_path: Path, signals: list[signal.Signals]
) -> None:
    """P5: the process group, whoever left it, and the daemon that kept nothing of its parent's."""
    first, *more = signals
    async with ChaosServer([RUN_IT]) as chaos:
        work = await prepared(tmp_path, chaos)
        with hang_ups(signal.SIG_DFL):
            async with program(tmp_path) as server:
                await server.start("work")
                await until((work / "begun").exists)
                assert len(await asyncio.to_thread(living_in, work)) >= 4
                server.process.send_signal(first)
                if more:
                    await until_draining(server)
                for number in more:
                    server.process.send_signal(number)
                code, _ = await server.ended()
        assert await end_all(work) == []
    assert code in {128 + number for number in signals}


async def until_draining(server: Program) -> None:
    """Wait until the server begins nothing more."""
    while b"finishing current work" not in (line := await server.process.stderr.readline()):
        assert line, "the server ended"


@pytest.mark.parametrize(
    "signals",
    [[TERM, TERM, TERM], [INT, INT, INT], [QUIT]],
    ids=lambda signals: " ".join(one.name for one in signals),
)
async def test_whatever_signals_end_a_single_run_its_tools_are_dead_first(
    tmp_path: Path, signals: list[signal.Signals]
) -> None:
    """P5: `holdfast run` with a server of its own."""
    async with ChaosServer([RUN_IT]) as chaos:
        work = await prepared(tmp_path, chaos)
        with hang_ups(signal.SIG_DFL):
            process = await forked(
                "run", "work", "--config", str(tmp_path / "holdfast.toml"), folder=tmp_path
            )
        await until((work / "begun").exists)
        for number in signals:
            process.send_signal(number)
            await asyncio.sleep(0)
        await process.communicate()
        assert await end_all(work) == []


@pytest.mark.parametrize("signals", [[TERM, TERM], [QUIT]], ids=str)
async def test_whatever_signals_end_a_chat_its_tools_are_dead_first(
    tmp_path: Path, signals: list[signal.Signals]
) -> None:
    """P5: the window is closed, or the machine goes down."""
    async with ChaosServer([RUN_IT]) as chaos:
        work = await prepared(tmp_path, chaos)
        command = (*HOLDFAST, "chat", "--config", str(tmp_path / "holdfast.toml"))
        async with terminal(*command, folder=tmp_path) as window:
            await window.until("Type /help or ? for commands")
            await window.say("work")
            await until((work / "begun").exists)
            (lock,) = await asyncio.to_thread(lambda: list(tmp_path.glob("data/lock")))
            pid = json.loads(await asyncio.to_thread(lock.read_bytes))["pid"]
            for number in signals:
                os.kill(pid, number)
            await window.until("exit=")
            assert await end_all(work) == []


@pytest.mark.parametrize("sandbox", ["off", "auto"])
async def test_after_a_kill_and_a_restart_a_daemon_without_an_environment_is_dead_too(
    tmp_path: Path, sandbox: str
) -> None:
    """P5, P6: before its run goes on; what was started as a background process lives, also without one.

    In a sandbox the foreground is dead as soon as the server is.
    """
    lives_on = ["bwrap", "sleep"] if sandbox == "auto" else ["sleep"]
    lasting = "env -i setsid -f bash -c 'echo up > lasting; exec sleep 600' >/dev/null 2>&1"
    keep = CallTool("shell", {"command": lasting, "background": True})
    async with ChaosServer([keep], [RUN_IT], [Say("ok")]) as chaos:
        work = await prepared(tmp_path, chaos, sandbox=sandbox)
        async with program(tmp_path) as server:
            run_id = await server.start("work")
            await until((work / "begun").exists)
            await until((work / "lasting").exists)
            server.process.kill()
            await server.ended()
        if sandbox == "auto":
            await until(lambda: [one.name for one in living_in(work)] == lives_on)
        else:
            assert len(await asyncio.to_thread(living_in, work)) >= 5
        async with program(tmp_path) as server:
            seen = await server.events(run_id)
            (job,) = await asyncio.to_thread(lambda: list(tmp_path.glob("data/background/*.state")))
            is_adopted = b'"ended":true' not in await asyncio.to_thread(job.read_bytes)
            left = await end_all(work)
    assert [one.name for one in left] == lives_on
    assert is_adopted
    assert [frame.data["ending"] for frame in seen if frame.data["type"] == "tool.ended"] == [
        "detached",
        "unknown",
    ]
    assert seen[-1].data["outcome"] == "completed"


async def test_a_single_run_after_a_crash_ends_what_other_runs_left(tmp_path: Path) -> None:
    """P5: it goes on with none of them, but nothing of theirs goes on by itself."""
    async with ChaosServer([RUN_IT], [Say("ok")]) as chaos:
        work = await prepared(tmp_path, chaos)
        async with program(tmp_path) as server:
            await server.start("work")
            await until((work / "begun").exists)
            server.process.kill()
            await server.ended()
        process = await forked(
            "run", "something else", "--config", str(tmp_path / "holdfast.toml"), folder=tmp_path
        )
        await process.communicate()
        assert process.returncode == 0
        assert await end_all(work) == []


UNWINDS = """
import asyncio, sys
from pathlib import Path
from holdfast.cli.exits import kill_tools_on_exit
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


@pytest.mark.parametrize("way", ["SystemExit", "RuntimeError", "KeyboardInterrupt"])
async def test_a_program_that_ends_by_an_exception_leaves_no_process(tmp_path: Path, way: str) -> None:
    """P5: whatever else of it is no longer tidied up."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", UNWINDS, way),
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parent.parent), "PATH": ENVIRONMENT["PATH"]},
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert await process.wait() != 0
    assert await end_all(tmp_path) == []
