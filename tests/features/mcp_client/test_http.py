"""Servers that are called by their url."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from features.mcp_client.scene import QUICK, SERVERS, McpCall, named, names, run, servers
from features.mcp_client.web import Web, serving
from holdfast.config.mcp_servers import McpServerConfig
from holdfast.features.mcp_client.servers import McpServers
from ports import reserved_port
from tools.calls import until
from tools.loops import ON_BOTH_LOOPS


@asynccontextmanager
async def process(port: int) -> AsyncGenerator[asyncio.subprocess.Process]:
    """The server of servers/good.py on that port, killed without warning in the end."""
    started = await asyncio.create_subprocess_exec(
        sys.executable, str(SERVERS / "good.py"), str(port), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        yield started
    finally:
        started.kill()
        await started.wait()


async def test_a_server_of_the_sdk_is_called_over_http_and_is_back_after_it_was_killed(
    call: McpCall, tmp_path: Path
) -> None:
    port = reserved_port()
    config = McpServerConfig(name="good", url=f"http://127.0.0.1:{port}/mcp")
    async with servers(config) as of:
        async with process(port):
            assert (await run(of, "add", call, label="good", a=2, b=3)).text == "5"
            await _progress_and_cancel(of, call, told=tmp_path / "cancelled")
            assert (await run(of, "grow", call, label="good")).ok
            assert (await run(of, "grown", call, label="good")).text == "I am new."
            waiting_call = McpCall(workspace=tmp_path)
            tool = await named(of, label="good", tool="wait_for_cancel")
            waiting = asyncio.create_task(tool.run({"told": str(tmp_path / "never")}, waiting_call))
            await waiting_call.hears("1")
        died = await waiting
        assert (died.ok, died.ending) == (False, "unknown")
        assert "mcp__good__add" in names(of)
        async with process(port):
            assert (await run(of, "add", call, label="good", a=4, b=5)).text == "9"


async def _progress_and_cancel(of: McpServers, call: McpCall, *, told: Path) -> None:
    waiting = asyncio.create_task(run(of, "wait_for_cancel", call, label="good", told=str(told)))
    await call.hears("1")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await until(told.exists)


async def test_headers_go_to_the_server_and_its_session_is_ended(call: McpCall) -> None:
    async with serving(Web()) as at:
        async with servers(at.config(headers={"authorization": "Bearer its-own"})) as of:
            assert (await run(of, "echo", call, label="web", n=1)).text == '{"n": 1}'
            tool = await named(of, label="web")
            assert tool.action({}, workspace=call.workspace).host == "127.0.0.1"
        assert {one.get("authorization", one.get("Authorization")) for one in at.headers} == {
            "Bearer its-own"
        }
        assert at.seen[-1] == "goodbye"


async def test_a_redirect_to_another_origin_is_not_followed() -> None:
    async with serving(Web()) as other, serving(Web(wish="redirect", elsewhere=other.url)) as at:
        async with servers(at.config(headers={"authorization": "secret"})) as of:
            await of.tried_once(within_s=30)
            assert "not followed" in of.status()[0].why
        assert other.headers == []


@pytest.mark.parametrize(
    ("wish", "connect_s", "why"),
    [("locked", 30.0, "HTTP status 401"), ("hang", 0.3, "didn't respond within 0.3 s")],
)
async def test_a_server_that_does_not_let_us_in_is_given_up(wish: str, connect_s: float, why: str) -> None:
    patience = replace(QUICK, connect_s=connect_s)
    async with serving(Web(wish=wish)) as at, servers(at.config(), patience=patience) as of:
        await of.tried_once(within_s=30)
        assert why in of.status()[0].why


async def test_a_server_that_is_not_there_is_no_reason_to_wait() -> None:
    place = f"http://127.0.0.1:{reserved_port()}"
    async with servers(McpServerConfig(name="web", url=f"{place}/mcp")) as of:
        await of.tried_once(within_s=30)
        why = of.status()[0].why
        assert f"no connection to {place} (" in why
        assert "check that the server is running" in why


@ON_BOTH_LOOPS
async def test_an_answer_may_come_as_a_stream_of_events(call: McpCall) -> None:
    async with serving(Web(wish="event")) as at, servers(at.config()) as of:
        assert (await run(of, "echo", call, label="web")).ok


async def test_a_session_that_the_server_has_forgotten_is_made_anew_and_the_call_repeated(
    call: McpCall,
) -> None:
    async with serving(Web()) as at, servers(at.config()) as of:
        assert (await run(of, "echo", call, label="web")).ok
        at.forgotten.add("session-1")
        assert (await run(of, "echo", call, label="web")).ok
        assert at.sessions == 2


@pytest.mark.parametrize(
    ("wish", "ending", "why"),
    [
        ("huge", "unknown", "larger than 8,388,608 bytes"),
        ("intricate", "unknown", "more than 50,000 values"),
        ("intricate_event", "unknown", "stopped during the call"),
        ("packed", "finished", "compressed"),
        ("cut", "unknown", "stopped during the call"),
        ("cut_body", "unknown", "the connection broke"),
        ("hang", "killed", "didn't respond within 0.3 s"),
    ],
)
async def test_an_answer_that_does_not_come_whole_is_a_tool_error(
    call: McpCall, wish: str, ending: str, why: str
) -> None:
    patience_s = 0.3 if wish == "hang" else 30.0
    async with serving(Web()) as at, servers(at.config(tool_patience_s={"echo": patience_s})) as of:
        tool = await named(of, label="web")
        at.wish = wish
        result = await tool.run({}, call)
        assert (result.ok, result.ending) == (False, ending)
        assert why in result.text
        at.wish = ""
        assert wish == "hang" or (await tool.run({}, call)).ok
