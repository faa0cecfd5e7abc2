"""Background processes: listed, read, ended, and found again after a restart."""

import asyncio
import os
import re
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.cancel import CancelAt
from holdfast.interfaces.tool import ToolResult
from holdfast.tools.shell.background import Background, TooManyJobs
from holdfast.tools.shell.jobs import BackgroundJob, Ring
from holdfast.tools.shell.output import cleaned
from holdfast.tools.shell.process import Command
from holdfast.tools.shell.process_table import look
from holdfast.tools.shell.scope import find_marked, kill_leftovers
from holdfast.tools.shell.tool import ShellJobs, ShellKill
from tools.calls import ENVIRONMENT, QUICK, Call, DeadChildren, descriptors, shell, until
from tools.loops import ON_BOTH_LOOPS


async def start(background: Background, call: Call, command: str) -> str:
    # None of these ends at once, so nothing has to be waited for.
    result = await shell(background, early_end_s=0.0).run({"command": command, "background": True}, call)
    assert (result.ok, result.ending) == (True, "detached"), result.text
    found = re.search(r"job-\w+", result.text)
    assert found
    return found[0]


async def alive(call: Call, count: int) -> None:
    """Wait until so many processes of the run carry its mark; one that is being started has none yet."""
    await until(lambda: len(find_marked(lambda marker: marker.run_id == call.run_id)) == count)


async def read(
    background: Background, call: Call, job_id: str, *, wait_s: float = 20.0, since: int = 0
) -> str:
    args = {"job_id": job_id, "wait_s": wait_s, "since": since}
    return (await ShellJobs(background).run(args, call)).text


async def listed(background: Background, call: Call) -> list[str]:
    return (await ShellJobs(background).run({}, call)).text.splitlines()


async def kill(background: Background, call: Call, job_id: str) -> ToolResult:
    return await ShellKill(background).run({"job_id": job_id}, call)


@ON_BOTH_LOOPS
async def test_a_background_process_goes_on_is_read_and_ended(
    background: Background, call: Call, dead_children: DeadChildren
) -> None:
    gate = call.workspace / "gate"
    await asyncio.to_thread(os.mkfifo, gate)
    job_id = await start(background, call, "echo first; cat gate; setsid sleep 1000 & sleep 1000")
    assert "first" in await read(background, call, job_id)
    waiting = asyncio.create_task(read(background, call, job_id, since=6))
    await asyncio.to_thread(gate.write_text, "second\n")
    assert (await waiting).splitlines()[1:] == ["second"]
    assert [f"{job_id} is running" in line for line in await listed(background, call)] == [True]
    assert (await kill(background, call, job_id)).text == f"{job_id} has ended with signal SIGTERM."
    assert await call.left() == []
    assert await asyncio.to_thread(dead_children) == []
    assert "second" in await read(background, call, job_id)
    assert (await kill(background, call, job_id)).ok


async def test_one_that_ends_at_once_is_told_of_at_once(background: Background, call: Call) -> None:
    patient = shell(background, early_end_s=20.0)  # "at once" takes longer on a busy machine
    result = await patient.run({"command": "echo in use; exit 3", "background": True}, call)
    assert (result.ok, result.ending) == (False, "finished")
    assert "has ended with exit code 3" in result.text
    assert "in use" in result.text


async def test_a_job_is_its_sessions_own(background: Background, call: Call) -> None:
    job_id = await start(background, call, "sleep 1000")
    other = Call(workspace=call.workspace, session_id="session-2")
    assert await listed(background, other) == ["No background processes were started in this session."]
    assert not (await kill(background, other, job_id)).ok
    await alive(call, 1)


async def test_as_many_as_are_allowed_are_listed_and_ended_and_one_more_is_refused(
    call: Call, tmp_path: Path, dead_children: DeadChildren
) -> None:
    background = Background(tmp_path / "jobs", now_ms=lambda: 0, jobs_max=10, kill_patience=QUICK)
    starting = (start(background, call, "echo up; exec sleep 1000") for _ in range(10))
    job_ids = await asyncio.gather(*starting)
    assert len(await listed(background, call)) == 10
    await alive(call, 10)
    refused = await shell(background).run({"command": "true", "background": True}, call)
    assert (refused.ok, refused.ending) == (False, "not_started")
    assert "Stop some of them first" in refused.text
    killed = await asyncio.gather(*(kill(background, call, job_id) for job_id in job_ids))
    assert {one.text.partition(" ")[2] for one in killed} == {"has ended with signal SIGTERM."}
    assert await call.left() == []
    assert await asyncio.to_thread(dead_children) == []
    one_more = await start(background, call, "sleep 1000")
    assert any(one_more in line for line in await listed(background, call))
    assert len(await listed(background, call)) == 10
    await kill(background, call, one_more)
    await background.close()


async def test_a_session_that_runs_all_it_may_leaves_room_for_others(call: Call, tmp_path: Path) -> None:
    few = Background(
        tmp_path / "few", now_ms=lambda: 0, jobs_max=1, in_all_sessions_max=2, kill_patience=QUICK
    )
    sleeping = Command(argv=("sleep", "1000"), cwd=str(call.workspace), environment=ENVIRONMENT)

    async def one_more(session_id: str, key: str = "") -> BackgroundJob:
        return await few.start(sleeping, replace(call, session_id=session_id, api_key=key))

    first = await one_more("session-1")
    with pytest.raises(TooManyJobs, match=r"^1 background processes are running. Stop"):
        await one_more("session-1")
    await one_more("session-2")
    with pytest.raises(TooManyJobs, match=r"^2 background processes are running in all sessions. Stop"):
        await one_more("session-3")
    await few.kill(first)
    await one_more("session-3")
    assert few.jobs("session-1") == []
    for session_id in ("session-2", "session-3"):
        for job in few.jobs(session_id):
            await few.kill(job)
    await few.close()


async def test_a_key_that_runs_all_it_may_leaves_room_for_another_key_also_after_a_restart(
    call: Call, tmp_path: Path
) -> None:
    """P10: in any number of sessions; the extra process is found again."""
    folder, sleeping = (
        tmp_path / "few",
        Command(argv=("sleep", "1000"), cwd=str(call.workspace), environment=ENVIRONMENT),
    )
    few = Background(folder, now_ms=lambda: 0, in_all_sessions_max=4, kill_patience=QUICK)

    async def one_more(key: str) -> BackgroundJob:
        return await few.start(sleeping, replace(call, session_id=f"of {key}", api_key=key))

    for _ in range(4):
        await one_more("greedy")
    with pytest.raises(TooManyJobs):
        await one_more("greedy")
    await one_more("other")
    with pytest.raises(TooManyJobs):
        await one_more("third")
    await alive(call, 5)
    await few.close()
    later = Background(folder, now_ms=lambda: 0, in_all_sessions_max=4, kill_patience=QUICK)
    adopted = await later.adopt()
    assert [job.state.key for job in adopted].count("greedy") == 4
    assert len(adopted) == 5
    for job in adopted:
        await later.kill(job)
    await later.close()


async def test_two_that_come_at_once_do_not_share_the_place_of_one_that_ended(
    call: Call, tmp_path: Path
) -> None:
    """P10: the limit holds however many are started at the same moment."""
    few = Background(tmp_path / "few", now_ms=lambda: 0, jobs_max=2, kill_patience=QUICK)
    sleeping = Command(argv=("sleep", "1000"), cwd=str(call.workspace), environment=ENVIRONMENT)

    async def one_more() -> BackgroundJob:
        return await few.start(sleeping, replace(call, session_id="s"))

    await few.kill(await one_more())
    await one_more()
    started = await asyncio.gather(*(one_more() for _ in range(5)), return_exceptions=True)
    assert sum(isinstance(job, BackgroundJob) for job in started) == 1
    assert all(isinstance(job, BackgroundJob | TooManyJobs) for job in started)
    assert len(few.jobs("s")) == 2
    for job in few.jobs("s"):
        await few.kill(job)
    await few.close()


async def test_output_is_cleaned_off_the_loop(call: Call, tmp_path: Path) -> None:
    seen: list[threading.Thread] = []

    def watched(text: str) -> str:
        seen.append(threading.current_thread())
        return cleaned(text)

    background = Background(tmp_path / "watched", now_ms=lambda: 0, kill_patience=QUICK, clean=watched)
    job_id = await start(background, call, "echo '\x1b[31mred'; sleep 1000")
    assert (await read(background, call, job_id)).endswith("\nred")
    assert seen
    assert threading.current_thread() not in seen
    await kill(background, call, job_id)
    await background.close()


async def test_after_a_restart_jobs_are_found_and_foreground_leftovers_killed(
    background: Background, call: Call, tmp_path: Path
) -> None:
    gate = call.workspace / "gate"
    await asyncio.to_thread(os.mkfifo, gate)
    staying = await start(background, call, "echo old; cat gate; (setsid sleep 1000 &); sleep 1000")
    gate_of_the_other = call.workspace / "gate of the other"
    await asyncio.to_thread(os.mkfifo, gate_of_the_other)
    ending = await start(background, call, "cat 'gate of the other'")
    await background.close()
    await asyncio.to_thread(gate_of_the_other.write_text, "end\n")
    await alive(call, 2)

    again = Background(tmp_path / "jobs", now_ms=lambda: 0, kill_patience=QUICK)
    await kill_leftovers(call.run_id, patience=QUICK)
    adopted = {job.state.job_id: job for job in await again.adopt()}
    await adopted[ending].ended
    assert adopted[staying].running
    assert not adopted[ending].running
    await asyncio.to_thread(gate.write_text, "new\n")
    assert "new" in await read(again, call, staying, since=4)
    assert "old\nnew" in await read(again, call, staying)
    assert (await kill(again, call, staying)).text.startswith(
        f"{staying} has ended; its exit code is unknown"
    )
    assert await call.left() == []
    await again.close()

    third = Background(tmp_path / "jobs", now_ms=lambda: 0, kill_patience=QUICK)
    assert not any(job.running for job in await third.adopt() if job.state.job_id == staying)
    assert "old\nnew" in await read(third, call, staying, wait_s=0)
    await third.close()


async def test_a_restart_with_too_many_jobs_drops_those_that_have_ended(
    background: Background, call: Call, tmp_path: Path
) -> None:
    staying = await start(background, call, "sleep 1000")
    ended = [await start(background, call, "true") for _ in range(2)]
    for job_id in ended:
        job = background.job(job_id, session_id=call.session_id)
        assert job
        await job.ended
    await background.close()

    again = Background(tmp_path / "jobs", now_ms=lambda: 0, kill_patience=QUICK, in_all_sessions_max=1)
    adopted = {job.state.job_id: job for job in await again.adopt()}
    assert list(adopted) == [staying], "the oldest, but it's running"
    assert adopted[staying].running
    assert not [path for path in (tmp_path / "jobs").iterdir() if path.stem in ended]
    await kill(again, call, staying)
    await again.close()


async def test_a_job_whose_server_is_gone_waits_and_does_not_die(
    background: Background, call: Call, tmp_path: Path
) -> None:
    gate = call.workspace / "gate"
    await asyncio.to_thread(os.mkfifo, gate)
    job_id = await start(background, call, "cat gate; seq 1 50000; echo the end; sleep 1000")
    await background.close()
    await asyncio.to_thread(gate.write_text, "go\n")
    again = Background(tmp_path / "jobs", now_ms=lambda: 0, kill_patience=QUICK)
    await again.adopt()
    job = again.job(job_id, session_id=call.session_id)
    assert job
    await until(lambda: job.output_bytes >= 288_905)
    assert "49999\n50000\nthe end" in await read(again, call, job_id)
    await kill(again, call, job_id)
    await again.close()


async def test_a_job_whose_files_are_gone_is_still_found_and_ended(
    background: Background, call: Call, tmp_path: Path
) -> None:
    job_id = await start(background, call, "sleep 1000")
    await alive(call, 1)
    await background.close()
    (tmp_path / "jobs" / f"{job_id}.fifo").unlink()
    again = Background(tmp_path / "jobs", now_ms=lambda: 0, kill_patience=QUICK)
    (job,) = await again.adopt()
    assert job.running
    await until(lambda: job.output_lost)
    assert "[some output was lost: No such file or directory]" in await read(again, call, job_id, wait_s=0)
    await kill(again, call, job_id)
    assert await call.left() == []
    await again.close()


async def test_a_job_lives_as_long_as_anything_of_it(background: Background, call: Call) -> None:
    gate = call.workspace / "gate"
    await asyncio.to_thread(os.mkfifo, gate)
    script = f"cd /; setsid sleep 1000 >/dev/null 2>&1 & cat '{gate}'; exit 5"
    job_id = await start(background, call, script)
    job = background.job(job_id, session_id=call.session_id)
    assert job
    await asyncio.to_thread(gate.write_text, "end\n")
    await until(lambda: not Path(f"/proc/{job.state.pid}").exists())
    assert job.running
    assert (await kill(background, call, job_id)).text == f"{job_id} has ended with exit code 5."
    assert await call.left() == []


@ON_BOTH_LOOPS
async def test_cancelled_at_any_await_the_start_leaves_no_process_and_no_file(
    background: Background, call: Call, tmp_path: Path
) -> None:
    tool = shell(background, early_end_s=0.05)
    before = await asyncio.to_thread(descriptors)
    nth = 0
    while True:
        nth += 1
        attempt = CancelAt(
            tool.run({"command": "setsid sleep 1000 & sleep 1000", "background": True}, call), nth
        )
        task = await attempt.in_own_task()
        if not attempt.reached:
            assert task.result().ending == "detached"
            break
        assert task.cancelled()
        assert await call.left() == []
        assert not any(job.running for job in background.jobs(call.session_id))
        await until(lambda: descriptors() <= before)
    assert nth > 3
    assert len(await asyncio.to_thread(lambda: list((tmp_path / "jobs").glob("*.fifo")))) <= nth


def test_a_ring_keeps_the_end_of_what_was_written_and_where_it_was(tmp_path: Path) -> None:
    ring = Ring(tmp_path / "ring", size_bytes=10)
    assert ring.read(0) == (b"", 0)
    ring.take(b"abcdef")
    assert ring.read(0) == (b"abcdef", 0)
    assert ring.read(4) == (b"ef", 4)
    assert ring.read(99) == (b"", 6)
    ring.take(b"ghijkl")
    assert ring.read(0) == (b"cdefghijkl", 2)
    assert ring.read(11) == (b"l", 11)
    ring.take(b"0123456789ABCDEFGHIJKLM")
    assert ring.read(0) == (b"DEFGHIJKLM", 25)
    ring.close()
    again = Ring(tmp_path / "ring", size_bytes=10)
    assert again.read(30) == (b"IJKLM", 30)
    again.close()


async def test_a_state_that_cannot_be_read_is_left_alone(
    background: Background, call: Call, tmp_path: Path
) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir(exist_ok=True)
    broken = {"job-1.state": b"{", "job-2.state": b'{"job_id": 1}'}
    for name, data in broken.items():
        (folder / name).write_bytes(data)
    assert await background.adopt() == []
    assert await listed(background, call) == ["No background processes were started in this session."]
    assert {path.name: path.read_bytes() for path in folder.glob("*.state")} == broken


async def test_a_daemon_that_threw_its_environment_away_ends_with_its_job(
    background: Background, call: Call
) -> None:
    pid = call.workspace / "pid"
    daemon = "env -i setsid -f bash -c 'echo $$ > pid.new; mv pid.new pid; exec sleep 1000' >/dev/null 2>&1"
    job_id = await start(background, call, f"{daemon}; sleep 1000")
    await until(pid.exists)
    await kill(background, call, job_id)
    alive = await asyncio.to_thread(lambda: look(int(pid.read_text())))
    assert alive is None or alive.is_dead
