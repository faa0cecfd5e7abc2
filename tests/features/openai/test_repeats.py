"""Requests that OpenAI's packages repeat by themselves: the work is done once."""

import asyncio
import contextlib
from typing import Any

from holdfast.chaos import CallTool, ChaosServer, Say
from server.toolbox import Held
from serving import Served, Setting, served, target_of
from tables import for_each_row

HI: Any = [{"role": "user", "content": "hi"}]
AGAIN = {"X-Stainless-Retry-Count": "1"}
BODIES: dict[str, Any] = {
    "/v1/chat/completions": {"messages": HI},
    "/v1/chat/completions stream": {"messages": HI, "stream": True},
    "/v1/responses": {"input": "hi"},
    "/v1/responses stream": {"input": "hi", "stream": True},
}


async def until_the_tool_runs(server: Served) -> None:
    runs: list[Any] = []
    while not runs:
        runs = (await server.get("/v1/runs"))[1]["data"]
    await server.until(runs[0]["run_id"], "tool.started")


async def left_in_the_middle(server: Served, path: str, body: Any) -> None:
    request = asyncio.create_task(server.call("POST", path, body=body))
    await until_the_tool_runs(server)
    request.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await request


@for_each_row("named", BODIES)
async def test_a_repeat_reads_the_run_that_the_first_request_started(named: str) -> None:
    """P2: a client's own retry has no second effect."""
    path, held, body = named.split(maxsplit=1)[0], Held(), BODIES[named]
    async with (
        ChaosServer([CallTool("held")], [Say("done")]) as chaos,
        served(target_of(chaos), setting=Setting(tools=(held,))) as server,
    ):
        await left_in_the_middle(server, path, body)
        again = asyncio.create_task(server.call("POST", path, body=body, headers=AGAIN))
        held.gate.open()
        answer = await again
        _, runs = await server.get("/v1/runs")
    assert b"done" in answer.body
    assert len(chaos.seen.requests) == 2
    assert len(runs["data"]) == 1


async def test_the_same_request_of_somebody_else_has_a_run_of_its_own() -> None:
    """P10: equal bodies are legitimate, and two open connections never share an answer."""
    path, held, body = "/v1/chat/completions", Held(), BODIES["/v1/chat/completions"]
    async with (
        ChaosServer([CallTool("held")], [Say("done")], after_last="repeat") as chaos,
        served(target_of(chaos), setting=Setting(tools=(held,))) as server,
    ):
        await left_in_the_middle(server, path, body)
        held.gate.open()
        plain = await server.call("POST", path, body=body)
        first = await server.call("POST", path, body=body, headers=AGAIN)
        second = await server.call("POST", path, body=body, headers=AGAIN)
        _, runs = await server.get("/v1/runs")
    ids = [answer.headers["x-hermes-run-id"] for answer in (plain, first, second)]
    assert len(set(ids)) == 3
    assert len(runs["data"]) == 3
