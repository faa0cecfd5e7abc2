"""A server's process: what it inherits, and that nothing of it is left."""

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from features.mcp_client.scene import QUICK, SERVERS, McpCall, left, named, raw, run, servers
from holdfast.config.mcp_servers import BadMcpServer, McpServerConfig
from holdfast.features.mcp_client.process import Exited
from holdfast.features.mcp_client.servers import marker_run
from holdfast.tools.shell.process_table import table
from tools.calls import DeadChildren, descriptors, until
from tools.loops import ON_BOTH_LOOPS


async def test_a_server_gets_what_is_configured_for_it_and_none_of_our_keys(
    call: McpCall, owner: str
) -> None:
    async with servers(raw(tools=["environment"], env={"ITS_OWN": "its own"}), owner=owner) as of:
        seen = json.loads((await run(of, "environment", call)).text)
        assert seen["ITS_OWN"] == "its own"
        assert not {"OPENAI_API_KEY", "HOLDFAST_TOKEN"} & set(seen)
        assert seen["HOLDFAST_RUN"].startswith("mcp%2F")
        assert len(await left(owner)) == 1
    assert await left(owner) == []


@ON_BOTH_LOOPS
@pytest.mark.parametrize("wishes", [{}, {"stubborn": True}, {"mute": True, "stubborn": True}])
async def test_closing_leaves_no_process_no_task_no_thread_and_no_descriptor(
    owner: str, wishes: dict[str, Any], dead_children: DeadChildren
) -> None:
    seconds = f"{1000 + len(owner)}.{abs(hash(owner)) % 10**9}"
    tasks, open_before = asyncio.all_tasks(), await asyncio.to_thread(_pipes)
    async with servers(raw(child=seconds, **wishes), owner=owner) as of:
        await until(lambda: _sleepers(seconds))
        if not wishes.get("mute"):
            await named(of)
    assert await left(owner) == []
    assert await asyncio.to_thread(_sleepers, seconds) == []
    assert await asyncio.to_thread(dead_children) == []
    assert asyncio.all_tasks() == tasks
    await until(lambda: not [one for one in threading.enumerate() if one.name == "holdfast-mcp"])
    await until(lambda: _pipes() <= open_before)


def test_how_it_ended_is_said() -> None:
    for code, said in ((3, "exited with code 3"), (-9, "killed by SIGKILL"), (-40, "killed by signal 40")):
        assert said in str(Exited(code=code))


def _pipes() -> set[tuple[str, str]]:
    # uvloop opens the null device once, for itself.
    return {one for one in descriptors() if one[1] != "/dev/null"}


def _sleepers(seconds: str) -> list[int]:
    found: list[int] = []
    for row in table():
        try:
            words = Path(f"/proc/{row.pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", seconds.encode()]:
            found.append(row.pid)
    return found


@ON_BOTH_LOOPS
async def test_closing_ends_a_call_that_is_running(call: McpCall, owner: str) -> None:
    of = servers(raw(tools=["hang"]), owner=owner)
    async with of:
        running = asyncio.create_task(run(of, "hang", call))
        await call.hears("1")
    result = await running
    assert (result.ok, result.ending) == (False, "unknown")
    assert await left(owner) == []


@ON_BOTH_LOOPS
async def test_closing_while_a_server_is_being_started_leaves_nothing(owner: str) -> None:
    for rounds in range(0, 24, 3):
        async with servers(raw(stubborn=True), owner=owner):
            for _ in range(rounds):
                await asyncio.sleep(0)
        assert await left(owner) == []


async def test_what_a_killed_holdfast_left_is_killed_by_the_next_one(owner: str) -> None:
    code = (
        "import asyncio\n"
        "from features.mcp_client.scene import *\n"
        "async def main():\n"
        f"    async with servers(raw(stubborn=True), owner={owner!r}) as of:\n"
        "        await named(of)\n"
        "        print('there', flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    holdfast = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, cwd=SERVERS.parents[2], stdout=subprocess.PIPE
    )
    assert holdfast.stdout is not None
    assert await holdfast.stdout.readline() == b"there\n"
    holdfast.kill()
    await holdfast.wait()
    assert len(await left(owner)) == 1
    async with servers(raw(), owner=owner) as of:
        await named(of)
        assert len(await left(owner)) == 1
    assert await left(owner) == []


async def test_a_server_that_keeps_dying_is_restarted_ever_more_slowly() -> None:
    patience = replace(QUICK, backoff_first_s=1.0, backoff_max_s=60.0)
    assert [patience.backoff_s(failures) for failures in (1, 2, 3, 7, 1000)] == [1, 2, 4, 60, 60]


def test_a_configuration_that_makes_no_sense_is_refused() -> None:
    rows: list[tuple[dict[str, object], str]] = [
        ({}, "either command or url"),
        ({"command": ("a",), "url": "http://a"}, "either command or url"),
        ({"url": "file:///etc/passwd"}, "http:// or https://"),
        ({"url": "http://[::1"}, "http:// or https://"),
        ({"name": " ", "command": ("a",)}, "printable name"),
        ({"name": "a\nb", "command": ("a",)}, "printable name"),
        ({"command": ("",)}, "command is empty"),
        ({"url": "http://a", "headers": {"a": "b\r\nc: d"}}, "can't be sent"),
        ({"command": ("a",), "tool_patience_s": {"t": 0}}, "more than 0"),
    ]
    for config, why in rows:
        with pytest.raises(BadMcpServer, match=why):
            McpServerConfig(**{"name": "x", **config})  # pyright: ignore[reportArgumentType]


def test_two_servers_of_one_name_are_refused_and_secrets_are_not_shown() -> None:
    config = McpServerConfig(
        name="x", url="http://a", headers={"authorization": "s3cret"}, env={"A": "s3cret"}
    )
    assert "s3cret" not in repr(config)
    with pytest.raises(BadMcpServer, match="the same name"):
        servers(config, config)
    assert marker_run("a", "b") != marker_run("a", "c")
