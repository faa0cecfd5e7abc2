"""Tools that the server runs itself, as plain OpenAI clients see them."""

import asyncio
import json
from typing import Any

from features.openai.official_client import client_of
from holdfast.chaos import CallTool, ChaosServer, Say
from server.toolbox import Counted
from serving import PATIENT, AsksAbout, Served, Setting, served, target_of

HERMES = {"X-Hermes-Session-Key": "k"}


async def test_a_response_lists_each_tool_call_with_what_it_brought() -> None:
    """P6: as run elsewhere, since a loop over `function_call` would run it again; a chat lists none."""
    tool, script = Counted(), [Say("hm"), CallTool("touch", {"n": 1})]
    async with (
        ChaosServer(script, [Say("done")], script, [Say("done")]) as chaos,
        served(target_of(chaos, patience=PATIENT), setting=Setting(tools=(tool,))) as server,
        client_of(server) as client,
    ):
        made = await client.responses.create(model="holdfast", input="hi")
        shown = await client.responses.retrieve(made.id)
        plain = await client.chat.completions.create(
            model="holdfast", messages=[{"role": "user", "content": "hi"}]
        )
    assert made.output == shown.output
    assert made.output_text == "done"
    items: list[Any] = list(made.output)
    assert [item.type for item in items] == ["mcp_call", "message"]
    assert (items[0].name, items[0].arguments) == ("touch", '{"n":1}')
    assert (items[0].status, items[0].output, items[0].error) == ("completed", "touch done", None)
    assert (plain.choices[0].message.tool_calls, plain.choices[0].finish_reason) == (None, "stop")
    assert tool.done == [{"n": 1}] * 2


async def test_a_refused_call_is_streamed_with_its_refusal() -> None:
    """P8: it never started, and yet it was asked for and answered."""
    tool = Counted()
    setting = Setting(tools=(tool,), judge=AsksAbout(frozenset({"touch"})))
    events: list[Any] = []
    async with (
        ChaosServer([CallTool("touch", {"n": 2})], [Say("well")]) as chaos,
        served(target_of(chaos, patience=PATIENT), setting=setting) as server,
        client_of(server) as client,
        asyncio.TaskGroup() as tasks,
    ):
        async for event in await client.responses.create(model="holdfast", input="hi", stream=True):
            events.append(event)
            if event.type == "response.created":
                tasks.create_task(denied(server, event.response.id.replace("resp_", "run_")))
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert [item.type for item in done] == ["message", "mcp_call", "message"]
    assert "[Waiting for a person to approve this" in done[0].content[0].text
    assert (done[1].status, done[1].output) == ("failed", None)
    assert "denied" in str(done[1].error).lower()
    assert events[-1].response.output == done[1:]
    assert tool.done == []


async def test_clients_of_hermes_get_the_call_and_beside_it_what_it_brought() -> None:
    """P7: whole, streamed and shown again; they show such items and run none."""
    script = [Say("hm"), CallTool("touch", {"n": 1})]
    async with (
        ChaosServer(script, [Say("done")], script, [Say("done")]) as chaos,
        served(target_of(chaos, patience=PATIENT), setting=Setting(tools=(Counted(),))) as server,
    ):
        _, made = await server.post("/v1/responses", {"input": "hi"}, **HERMES)
        _, shown = await server.get(f"/v1/responses/{made['id']}", **HERMES)
        stream = await server.call(
            "POST", "/v1/responses", body={"input": "hi", "stream": True}, headers=HERMES
        )
    call, brought, said = made["output"]
    assert [one["type"] for one in made["output"]] == ["function_call", "function_call_output", "message"]
    assert (call["name"], call["arguments"], said["content"][0]["text"]) == ("touch", '{"n":1}', "done")
    assert (brought["call_id"], brought["output"]) == (call["call_id"], "touch done")
    assert shown == made
    events = [json.loads(line[6:]) for line in stream.body.decode().splitlines() if line.startswith("data: ")]
    done = [event for event in events if event["type"] == "response.output_item.done"]
    assert [event["output_index"] for event in done] == [0, 1, 2, 3]
    assert [event["item"] for event in done[1:]] == events[-1]["response"]["output"]
    assert "response.function_call_arguments.done" in [event["type"] for event in events]


async def denied(server: Served, run_id: str) -> None:
    """Wait for the approval to be asked for, and say no."""
    await server.until(run_id, "approval.request")
    await server.post(f"/v1/runs/{run_id}/approval", {"choice": "deny"})
