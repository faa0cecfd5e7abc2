"""The server as a process of its own: started, killed, started again, stopped."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from cli.lab import KEY, configure, executed, hang_ups, serving, started
from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Wait


async def test_killed_in_mid_answer_and_started_again_the_run_goes_on_and_ends_once(tmp_path: Path) -> None:
    """P1, P6: kill -9 is a pause; what was shown is in the log, in its place before the resumption."""
    gate = Gate()
    async with ChaosServer([Say("half"), Wait(gate)], [Say("the whole answer")]) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        async with serving(tmp_path, end_with=signal.SIGKILL) as server:
            run_id = (await server.call("POST", "/v1/runs", {"input": "hi"}))["run_id"]
            await gate.reached()
            await server.until(run_id, "text.delta")
        async with serving(tmp_path) as server:
            types = await server.types(run_id)
            shown = await server.call("GET", f"/v1/runs/{run_id}")
    assert server.process.returncode == 0
    assert shown["output"] == "the whole answer"
    assert types.count("run.ended") == types.count("run.resumed") == 1
    assert types.index("text.delta") < types.index("run.resumed") < types.index("attempt.superseded")


async def test_a_second_server_on_the_same_directory_is_refused_and_told_who_is_there(tmp_path: Path) -> None:
    """P12: the error names the pid and the address of the first."""
    async with ChaosServer() as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        async with serving(tmp_path) as server:
            second = await started(tmp_path, "serve")
            _, said = await second.communicate()
            assert second.returncode == 1
            assert str(server.process.pid) in said.decode()
            assert server.url in said.decode()
        assert server.process.returncode == 0


@pytest.mark.parametrize(("act", "last"), [(signal.SIG_DFL, signal.SIGHUP), (signal.SIG_IGN, signal.SIGTERM)])
async def test_a_window_that_is_closed_ends_it_in_order_though_told_twice_and_never_under_nohup(
    tmp_path: Path, act: signal.Handlers, last: signal.Signals
) -> None:
    """P6: the run under way comes to its end, and the exit code is 0."""
    gate = Gate()
    async with ChaosServer([Say("half"), Wait(gate), Say(" and whole")]) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        with hang_ups(act):
            async with serving(tmp_path, end_with=last, start=executed) as server:
                await server.call("POST", "/v1/runs", {"input": "hi"})
                await gate.reached()
                server.process.send_signal(signal.SIGHUP)
                ends = act is signal.SIG_DFL
                while (await server.call("GET", "/health/detailed"))["draining"] != ends:
                    pass
                asyncio.get_running_loop().call_soon(gate.open)  # after the last signal, which is sent first
    assert server.process.returncode == 0


async def test_the_configuration_that_counts_is_not_the_agents_to_change(tmp_path: Path) -> None:
    """P11: neither in the workspace nor in a mode that allows everything there; a command asks."""
    write = CallTool("write_file", {"path": "holdfast.toml", "content": "[approvals]"})
    other = CallTool("shell", {"command": "echo '[approvals]' > holdfast.toml"})
    async with ChaosServer([write], [other], [Say("so be it")]) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        config = tmp_path / "holdfast.toml"
        text = await asyncio.to_thread(config.read_text)
        await asyncio.to_thread(config.write_text, f'{text}[approvals]\nmode = "workspace"\n')
        async with serving(tmp_path) as server:
            run_id = (await server.call("POST", "/v1/runs", {"input": "hi"}))["run_id"]
            await server.until(run_id, "approval.asked")
            asks = (await server.call("GET", "/v1/approvals"))["data"]
            assert f"{config} is Holdfast's configuration." in asks[0]["findings"]
            answer = {"choice": "deny", "approval_id": asks[0]["approval_id"]}
            await server.call("POST", f"/v1/runs/{run_id}/approval", answer)
            await server.types(run_id)
        assert "belongs to Holdfast, so tools can't access it" in str(chaos.seen.requests[-1].body)
    assert (await asyncio.to_thread(config.read_text)).startswith(text)


async def test_no_secret_is_in_the_data_directory_or_the_log_after_a_provider_echoed_it(
    tmp_path: Path,
) -> None:
    """P11: neither the target's key nor ours is anywhere on disk but in the configuration."""
    async with ChaosServer([Say("your key is sk-test-"), Say("of-a-key, is it not?")]) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        async with serving(tmp_path) as server:
            run_id = (await server.call("POST", "/v1/runs", {"input": "hi"}))["run_id"]
            await server.types(run_id)
            shown = await server.call("GET", f"/v1/runs/{run_id}")
    assert shown["output"] == "your key is [redacted], is it not?"
    found = await asyncio.to_thread(_files_with, tmp_path / "data", (b"sk-test-of-a-key", KEY.encode()))
    assert not found


def _files_with(folder: Path, texts: tuple[bytes, ...]) -> list[str]:
    files = [Path(root) / name for root, _, names in os.walk(folder) for name in names]
    return [str(file) for file in files if any(text in file.read_bytes() for text in texts)]
