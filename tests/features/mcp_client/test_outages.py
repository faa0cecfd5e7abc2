"""Servers that die, hang, flood or never begin: a tool error each time, and never more than that."""

import asyncio
import dataclasses
import os
import signal
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fakes.cancel import CancelAt
from features.mcp_client.scene import QUICK, McpCall, named, names, raw, run, servers
from holdfast.config.mcp_servers import McpServerConfig
from tools.calls import until
from tools.loops import ON_BOTH_LOOPS


@ON_BOTH_LOOPS
async def test_a_server_that_is_killed_in_the_middle_of_a_call_is_a_tool_error_and_comes_back(
    call: McpCall,
) -> None:
    async with servers(raw(tools=["die", "pid"])) as of:
        first = (await run(of, "pid", call)).text
        died = await run(of, "die", call)
        assert not died.ok
        assert died.ending == "unknown"
        assert "raw stopped during the call" in died.text
        assert "try again" in died.text
        again = await run(of, "pid", call)
        assert again.ok
        assert again.text != first
        (status,) = of.status()
        assert "SIGKILL" in status.why
        assert "my last words" in status.why


async def test_a_server_that_dies_between_calls_is_back_for_the_next(call: McpCall) -> None:
    async with servers(raw(tools=["pid"])) as of:
        pid = int((await run(of, "pid", call)).text)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not Path(f"/proc/{pid}").exists())
        again = await run(of, "pid", call)
        assert again.ok
        assert int(again.text) != pid


async def test_a_call_that_is_not_answered_is_cancelled_by_protocol_and_its_effect_is_unknown(
    call: McpCall, tmp_path: Path
) -> None:
    told = tmp_path / "cancelled"
    config = raw(tools=["hang", "pid"], cancelled_file=str(told), tool_patience_s={"hang": 0.3})
    async with servers(config) as of:
        pid = (await run(of, "pid", call)).text
        result = await run(of, "hang", call)
        assert (result.ok, result.ending) == (False, "killed")
        assert "didn't respond within 0.3 s" in result.text
        await until(told.exists)
        # It still answers other calls, so it lives on.
        assert (await run(of, "pid", call)).text == pid


async def test_a_server_that_hangs_altogether_is_started_anew(call: McpCall) -> None:
    config = raw(tools=["block", "pid"], tool_patience_s={"block": 0.3})
    async with servers(config, patience=replace(QUICK, ping_s=0.2)) as of:
        pid = (await run(of, "pid", call)).text
        assert (await run(of, "block", call)).ending == "killed"
        await until(lambda: "stopped responding" in of.status()[0].why)
        again = await run(of, "pid", call)
        assert again.ok
        assert again.text != pid


@ON_BOTH_LOOPS
async def test_a_stop_tells_the_server_and_ends_the_call_at_once(call: McpCall, tmp_path: Path) -> None:
    told = tmp_path / "cancelled"
    async with servers(raw(tools=["hang"], cancelled_file=str(told))) as of:
        running = asyncio.create_task(run(of, "hang", call))
        await call.hears("1")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await until(told.exists)


@ON_BOTH_LOOPS
async def test_a_call_that_is_stopped_at_any_moment_harms_no_other(call: McpCall) -> None:
    async with servers(raw(tools=["echo", "pid"])) as of:
        pid = (await run(of, "pid", call)).text
        tool = await named(of)
        for nth in count(1):
            attempt = CancelAt(tool.run({"n": nth}, call), nth)
            task = await attempt.in_own_task()
            if not attempt.reached:
                assert task.result().text == f'{{"n": {nth}}}'
                break
            assert task.cancelled()
        assert (await run(of, "pid", call)).text == pid


@ON_BOTH_LOOPS
async def test_a_stop_does_not_wait_for_a_server_that_reads_nothing(
    call: McpCall, caplog: pytest.LogCaptureFixture
) -> None:
    async with servers(raw(tools=["block", "echo"])) as of:
        blocking = asyncio.create_task(run(of, "block", call))
        await call.hears("1")
        # More than a pipe holds, so that not even the call itself can be written.
        stuck = asyncio.create_task(run(of, "echo", call, text="x" * 1_000_000))
        await asyncio.sleep(0)
        for task in (stuck, blocking):
            task.cancel()
        ended = await asyncio.gather(stuck, blocking, return_exceptions=True)
        assert [type(one) for one in ended] == [asyncio.CancelledError] * 2
    # The SDK waits for seconds until it gives up telling the server, and logs it.
    assert "write blocked" not in caplog.text


async def test_a_server_that_never_answers_is_given_up_while_the_others_work(call: McpCall) -> None:
    patience = replace(QUICK, connect_s=1.0)
    async with servers(raw("mute", mute=True), raw(), patience=patience) as of:
        assert (await run(of, "echo", call, text="hello")).ok
        await until(lambda: of.status()[0].why)
        assert "didn't respond within 1 s" in of.status()[0].why
        assert names(of) == ["mcp__raw__echo"]


async def test_a_command_that_does_not_exist_is_said_to_be_so() -> None:
    async with servers(McpServerConfig(name="none", command=("/no/such/program",))) as of:
        await of.tried_once(within_s=30)
        assert "couldn't be started" in of.status()[0].why
        assert of.snapshot() == ()


async def test_a_tool_of_a_server_that_does_not_come_back_was_not_started(
    call: McpCall, tmp_path: Path
) -> None:
    # The command is a link that is taken away while the server lives.
    config = raw(tools=["die"])
    link = tmp_path / "python"
    await asyncio.to_thread(link.symlink_to, config.command[0])
    config = dataclasses.replace(config, command=(str(link), *config.command[1:]))
    async with servers(config, patience=replace(QUICK, wait_s=0.2)) as of:
        tool = await named(of, tool="die")
        await asyncio.to_thread(link.unlink)
        await tool.run({}, call)
        await until(lambda: "couldn't be started" in of.status()[0].why)
        result = await tool.run({}, call)
        assert (result.ok, result.ending) == (False, "not_started")
        assert "couldn't be started" in result.text
        # Its tools stay known: the next model call may find it back.
        assert names(of) == ["mcp__raw__die"]


@ON_BOTH_LOOPS
async def test_a_flood_of_messages_and_errors_is_survived(call: McpCall) -> None:
    async with servers(raw(tools=["flood", "echo"])) as of:
        result = await run(of, "flood", call)
        assert result.text == "survived"
        assert 1 <= len(call.progress) < 200
        assert "\x1b" not in call.said
        assert (await run(of, "echo", call)).ok


@pytest.mark.parametrize(("wish", "why"), [("babble", "isn't MCP"), ("endless_line", "8,388,608 bytes")])
async def test_a_server_that_speaks_no_mcp_is_hung_up_on(wish: str, why: str) -> None:
    async with servers(raw(**dict[str, Any]({wish: True}))) as of:
        await of.tried_once(within_s=30)
        assert why in of.status()[0].why


async def test_a_greeting_on_standard_output_is_overlooked(call: McpCall) -> None:
    async with servers(raw(greeting=["Welcome!", "", '{"no": "message"}', "\xff\x00"])) as of:
        assert (await run(of, "echo", call)).ok


async def test_a_long_result_is_cut_and_kept_whole(call: McpCall) -> None:
    async with servers(raw(tools=["long"])) as of:
        result = await run(of, "long", call, size=1_000_000)
        assert result.ok
        assert len(result.text) < 40_000
        assert await call.blobs.blob(result.blob) == b"x" * 1_000_000


@pytest.mark.parametrize("id_last", [False, True], ids=["id first", "id last"])
async def test_a_result_beyond_all_measure_is_an_error_and_the_server_lives_on(
    call: McpCall, *, id_last: bool
) -> None:
    async with servers(raw(tools=["long", "intricate", "pid"], id_last=id_last)) as of:
        pid = (await run(of, "pid", call)).text
        long = await run(of, "long", call, size=9_000_000)
        assert not long.ok
        assert "more than 8,388,608 bytes" in long.text
        intricate = await run(of, "intricate", call, size=100_000)
        assert not intricate.ok
        assert "more than 50,000 values" in intricate.text
        assert (await run(of, "pid", call)).text == pid


async def test_an_answer_that_is_no_result_is_a_tool_error(call: McpCall) -> None:
    async with servers(raw(tools=["garble", "echo"])) as of:
        result = await run(of, "garble", call)
        assert (result.ok, result.ending) == (False, "unknown")
        assert (await run(of, "echo", call)).ok


async def test_tools_of_a_server_that_is_down_are_marked_until_it_is_back(tmp_path: Path) -> None:
    """It's restarted after a pause that grows, and its tools stay declared meanwhile."""
    there = tmp_path / "there"
    there.touch()
    config = raw(tools=["pid"])
    command = ("sh", "-c", f'test -e {there} && exec "$@"', "sh", *config.command)
    async with servers(dataclasses.replace(config, command=command)) as of:
        tool = await named(of, tool="pid")
        assert not tool.traits.unavailable
        there.unlink()
        pid = int((await tool.run({}, McpCall(workspace=tmp_path))).text)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: bool(of.snapshot()[0].traits.unavailable))
        assert tool.traits.unavailable == "the MCP server raw isn't connected"
        there.touch()
        await until(lambda: not of.snapshot()[0].traits.unavailable)
        assert [one.spec for one in of.snapshot()] == [tool.spec]


async def test_the_tools_of_a_server_with_long_declarations_are_on_demand() -> None:
    """Each server has an equal part of the limit, so none depends on the order in which others connect."""
    async with servers(raw("few"), raw("many", tools=[f"tool_{n}" for n in range(100)])) as of:
        assert not (await named(of, label="few")).spec.on_demand
        assert (await named(of, label="many", tool="tool_1")).spec.on_demand
