"""Clients that send odd things to the agent routes: each gets a plain answer, and nobody else notices."""

import asyncio
import json
from io import BytesIO
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.chaos import CallTool, ChaosServer, Say
from holdfast.server.runs.client_tools import TOOLS_MAX
from server.toolbox import Counted
from serving import Answer, Served, Setting, served, target_of

PATH = "/v1/chat/completions"
HI: Any = [{"role": "user", "content": "warm?"}]
TWO = [CallTool("weather", {"city": "Bern"}), CallTool("weather", {"city": "Thun"})]


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


async def asked(server: Served) -> tuple[list[Any], list[str], str]:
    """A run that waits for the client: the messages so far, the ids of its calls, and the run's."""
    first = await server.call("POST", PATH, body={"messages": HI, "tools": [tool("weather")]})
    message = first.json["choices"][0]["message"]
    ids = [call["id"] for call in message["tool_calls"]]
    return [*HI, message], ids, first.headers["X-Hermes-Run-Id"]


async def returned(server: Served, messages: list[Any], *results: tuple[str, str]) -> Answer:
    told = [{"role": "tool", "tool_call_id": call_id, "content": text} for call_id, text in results]
    return await server.call("POST", PATH, body={"messages": [*messages, *told], "tools": [tool("weather")]})


async def test_two_results_for_one_call_are_refused_and_the_run_keeps_waiting() -> None:
    """P12: which of the two counts would be a guess. The same for a call that was never made."""
    async with ChaosServer(TWO, [Say("Warm.")]) as chaos, served(target_of(chaos)) as server:
        messages, [bern, thun], run_id = await asked(server)
        twice = await returned(server, messages, (bern, "21"), (thun, "20"), (bern, "-5"))
        assert (twice.status, twice.code) == (400, "tool_result_duplicate"), twice.body
        assert bern in twice.json["error"]["message"]
        extra = bern.rpartition("_")[0] + "_7"
        unknown = await returned(server, messages, (bern, "21"), (thun, "20"), (extra, "-5"))
        assert (unknown.status, unknown.code) == (400, "tool_result_unknown"), unknown.body
        mixed = await returned(server, messages, (bern, "21"), (thun, "20"), ("call_of_nobody", "-5"))
        assert (mixed.status, mixed.code) == (400, "tool_result_unknown"), mixed.body
        assert (await server.get(f"/v1/runs/{run_id}"))[1]["status"] == "waiting_for_client"
        good = await returned(server, messages, (thun, "20"), (bern, "21"))
        assert good.json["choices"][0]["message"]["content"] == "Warm."
        sent: Any = chaos.seen.requests[1].body
        assert [one["content"] for one in sent["messages"][-2:]] == ["21", "20"]
        assert len((await server.get("/v1/runs"))[1]["data"]) == 1


async def test_the_same_results_at_the_same_time_continue_one_run_once() -> None:
    """P2: every one of them gets the answer, and the model is asked once."""
    async with ChaosServer(TWO, [Say("Warm.")]) as chaos, served(target_of(chaos)) as server:
        messages, [bern, thun], run_id = await asked(server)
        answers = await asyncio.gather(
            *(returned(server, messages, (bern, "21"), (thun, "20")) for _ in range(8))
        )
        assert {answer.headers["X-Hermes-Run-Id"] for answer in answers} == {run_id}
        assert {answer.json["choices"][0]["message"]["content"] for answer in answers} == {"Warm."}
        assert len(chaos.seen.requests) == 2


LOOKALIKES = [
    "t\u043euch",  # a Cyrillic o
    "touch\u200b",  # with a character that has no width
    "\uff54\uff4f\uff55\uff43\uff48",  # in full width
    "touch ",
    "touch\n",
    "",
    "a" * 65,
]


@pytest.mark.parametrize("name", LOOKALIKES, ids=ascii)
async def test_a_tool_that_looks_like_one_of_ours_is_refused(name: str) -> None:
    """P13: no name can be taken for another."""
    own = Counted()
    async with ChaosServer() as chaos, served(target_of(chaos), setting=Setting(tools=(own,))) as server:
        answer = await server.call("POST", PATH, body={"messages": HI, "tools": [tool(name)]})
        assert answer.status == 400, answer.body
        assert answer.json["error"]["param"] == "tools[0]"
        assert chaos.seen.requests == []


async def test_ten_thousand_tools_and_thirty_megabytes_are_refused_at_once() -> None:
    """P10, P12."""
    async with ChaosServer(TWO, [Say("Warm.")]) as chaos, served(target_of(chaos)) as server:
        many = [tool(f"t{nth}") for nth in range(10_000)]
        refused = await server.call("POST", PATH, body={"messages": HI, "tools": many})
        assert (refused.status, refused.json["error"]["param"]) == (400, "tools")
        assert str(TOOLS_MAX) in refused.json["error"]["message"]
        messages, [bern, thun], run_id = await asked(server)
        results = [{"role": "tool", "tool_call_id": bern, "content": "x" * 30_000_000}]
        huge = BytesIO(json.dumps({"messages": [*messages, *results]}).encode())
        async with server.http.post(server.url + PATH, data=huge) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (413, "body_too_large")
        assert (await server.get(f"/v1/runs/{run_id}"))[1]["status"] == "waiting_for_client"
        good = await returned(server, messages, (bern, "21"), (thun, "20"))
        assert good.json["choices"][0]["message"]["content"] == "Warm."


async def test_half_a_body_starts_nothing() -> None:
    """P12: neither a run nor the end of one that waits."""
    async with ChaosServer(TWO, [Say("Warm.")]) as chaos, served(target_of(chaos)) as server:
        messages, ids, run_id = await asked(server)
        results = [{"role": "tool", "tool_call_id": one, "content": "21"} for one in ids]
        body = json.dumps({"messages": [*messages, *results], "tools": [tool("weather")]}).encode()
        host, port = server.url.removeprefix("http://").split(":")
        for sent in (len(body) // 2, len(body) - 1):
            reader, writer = await asyncio.open_connection(host, int(port))
            head = f"POST {PATH} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body[:sent])
            await writer.drain()
            writer.write_eof()
            await reader.read()
            writer.close()
            await writer.wait_closed()
        assert (await server.get(f"/v1/runs/{run_id}"))[1]["status"] == "waiting_for_client"
        assert len((await server.get("/v1/runs"))[1]["data"]) == 1
        assert len(chaos.seen.requests) == 1


async def test_a_client_that_leaves_while_its_results_are_taken_finds_the_answer_later() -> None:
    """P2, P6: its results count once they are on disk, whoever is still there."""
    async with ChaosServer(TWO, [Say("Warm.")]) as chaos, served(target_of(chaos)) as server:
        messages, ids, run_id = await asked(server)
        results = [{"role": "tool", "tool_call_id": one, "content": "21"} for one in ids]
        said = {"messages": [*messages, *results], "tools": [tool("weather")], "on_disconnect": "detach"}
        body = json.dumps(said).encode()
        host, port = server.url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        head = f"POST {PATH} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        await chaos.seen.until_body(2)
        writer.transport.abort()
        shown = await server.ended(run_id)
        assert (shown["status"], shown["output"]) == ("completed", "Warm.")


async def test_a_tool_named_like_the_one_for_structured_output_stays_the_clients() -> None:
    """P4: where a model answers by a tool call, a client's tool of that name is still the client's."""
    mine = tool("final_answer")
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "out", "schema": schema}}
    async with (
        ChaosServer([CallTool("final_answer", {"city": "Bern"})]) as chaos,
        served(replace(target_of(chaos), wire="anthropic", base_url=chaos.url)) as server,
    ):
        answer = await server.call(
            "POST", PATH, body={"messages": HI, "tools": [mine], "response_format": wanted}
        )
        sent: Any = chaos.seen.requests[0].body
        names = [one["name"] for one in sent["tools"]]
        assert len(names) == len(set(names)), "a provider refuses two tools of one name"
        calls = answer.json["choices"][0]["message"]["tool_calls"]
        assert calls[0]["function"]["name"] == "final_answer"
