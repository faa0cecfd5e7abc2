"""The end of a server process: what is under way comes to a safe point, and the next start goes on."""

import asyncio
import signal
from pathlib import Path

from holdfast.chaos import CallTool, ChaosServer, Gate, Hang, Say, Wait
from runner.program import Program, configure, program, types


async def prepared(folder: Path, chaos: ChaosServer, *, drain_s: float = 60.0) -> Path:
    # Without a sandbox, commands that leave the workspace ask.
    await asyncio.to_thread(configure, folder, chaos.base_url, drain_s=drain_s, sandbox="off")
    return folder


async def drain(server: Program) -> None:
    """Send the first signal, and wait until the server begins nothing more."""
    server.process.send_signal(signal.SIGTERM)
    await server.until_draining()


async def test_an_idle_server_ends_at_once_with_exit_code_0(tmp_path: Path) -> None:
    async with ChaosServer() as chaos, program(await prepared(tmp_path, chaos)) as server:
        server.process.send_signal(signal.SIGTERM)
        code, _ = await server.ended()
    assert code == 0


async def test_a_run_that_ends_within_the_drain_is_seen_to_its_end_and_nothing_new_begins(
    tmp_path: Path,
) -> None:
    """P2, P6: the reader sees the answer end; what was sent meanwhile waits on disk for the next start."""
    gate = Gate()
    async with ChaosServer([Say("half"), Wait(gate), Say(" and half")], [Say("later")]) as chaos:
        await prepared(tmp_path, chaos)
        async with program(tmp_path) as server:
            first = await server.start("a", session_id="s")
            await gate.reached()
            await server.until(first, "text.delta")
            reading = asyncio.create_task(server.events(first))
            await drain(server)
            assert (await server.call("GET", "/health/detailed"))[1]["draining"]
            second = await server.start("b", session_id="other")
            queued = await server.start("c", session_id="s")
            gate.open()
            assert types(await reading)[-1] == "run.ended"
            code, _ = await server.ended()
            assert code == 0
            assert len(chaos.seen.requests) == 1
        async with program(tmp_path) as server:
            for run_id in (second, queued):
                seen = types(await server.events(run_id))
                assert seen[-1] == "run.ended"
                assert "run.resumed" not in seen
            assert types(await server.events(first)).count("run.ended") == 1


async def test_a_run_rests_between_a_tool_and_the_next_call_and_repeats_neither(tmp_path: Path) -> None:
    """P6: the tool that runs at the signal ends and is recorded; the call after it is the next process's."""
    command = "echo once >> done; until test -e go; do read -t 0.02 < /dev/zero; done; echo ok"
    async with ChaosServer([CallTool("shell", {"command": command})], [Say("well done")]) as chaos:
        await prepared(tmp_path, chaos)
        async with program(tmp_path) as server:
            run_id = await server.start("work")
            asked = await server.until(run_id, "approval.asked")
            approval = {"choice": "once", "approval_id": asked.data["approval_id"]}
            assert (await server.call("POST", f"/v1/runs/{run_id}/approval", approval))[0] == 200
            await server.until(run_id, "tool.started")
            await drain(server)
            await asyncio.to_thread((tmp_path / "work" / "go").touch)
            code, _ = await server.ended()
            assert (code, len(chaos.seen.requests)) == (0, 1)
        async with program(tmp_path) as server:
            seen = await server.events(run_id)
    (ended,) = [frame.data for frame in seen if frame.data["type"] == "tool.ended"]
    assert ended["ok"], ended
    assert types(seen).index("tool.ended") < types(seen).index("run.resumed")
    (resumed,) = [frame.data for frame in seen if frame.data["type"] == "run.resumed"]
    assert resumed["after"] == "restart"
    assert await asyncio.to_thread((tmp_path / "work" / "done").read_text) == "once\n"
    assert len(chaos.seen.requests) == 2


async def test_an_open_approval_keeps_nobody_waiting_and_is_the_same_after_the_restart(
    tmp_path: Path,
) -> None:
    """P8: the next process waits for the answer to the same question."""
    async with ChaosServer([CallTool("shell", {"command": "touch ../x"})], [Say("ok")]) as chaos:
        await prepared(tmp_path, chaos)
        async with program(tmp_path) as server:
            run_id = await server.start("danger")
            asked = await server.until(run_id, "approval.asked")
            server.process.send_signal(signal.SIGTERM)
            code, _ = await server.ended()
            assert code == 0
        async with program(tmp_path) as server:
            approval = {"choice": "deny", "approval_id": asked.data["approval_id"]}
            assert (await server.call("POST", f"/v1/runs/{run_id}/approval", approval))[0] == 200
            seen = await server.events(run_id)
    assert (seen[-1].data["type"], seen[-1].data["outcome"]) == ("run.ended", "completed")


async def test_what_does_not_come_to_a_safe_point_in_time_is_cut_off_and_goes_on_at_the_next_start(
    tmp_path: Path,
) -> None:
    """P3, P6: the drain has an end; the attempt says what ended it."""
    async with ChaosServer([Say("half"), Hang()], [Say("whole")]) as chaos:
        await prepared(tmp_path, chaos, drain_s=0.1)
        async with program(tmp_path) as server:
            run_id = await server.start("a")
            await server.until(run_id, "text.delta")
            server.process.send_signal(signal.SIGTERM)
            code, _ = await server.ended()
            assert code == 0
        async with program(tmp_path) as server:
            seen = await server.events(run_id)
    failed = next(frame.data for frame in seen if frame.data["type"] == "attempt.failed")
    assert failed["failure"]["text"] == "stopped: shutdown"
    assert (seen[-1].data["type"], seen[-1].data["outcome"]) == ("run.ended", "completed")


async def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    """P6: even that is only a pause."""
    async with ChaosServer([Say("half"), Hang()], [Say("whole")]) as chaos:
        await prepared(tmp_path, chaos)
        async with program(tmp_path) as server:
            run_id = await server.start("a")
            await server.until(run_id, "text.delta")
            await drain(server)
            server.process.send_signal(signal.SIGTERM)
            code, _ = await server.ended()
            assert code == 128 + signal.SIGTERM
        async with program(tmp_path) as server:
            seen = await server.events(run_id)
    assert (seen[-1].data["type"], seen[-1].data["outcome"]) == ("run.ended", "completed")
