"""Tools that a client brings and runs itself, beside the agent's own, with the official client."""

import json
from typing import Any, cast

import openai
import pytest
from msgspec.structs import replace

from features.openai.official_client import client_of
from holdfast.chaos import CallTool, ChaosServer, Say
from holdfast.server.options import ApiKey, ServerOptions
from server.toolbox import Counted
from serving import AsksAbout, Setting, served, target_of
from tables import for_each_row

HI: Any = [{"role": "user", "content": "Is it warm in Bern?"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER: Any = {"type": "function", "function": {"name": "weather", "description": "d", "parameters": SCHEMA}}
FLAT_WEATHER: Any = {"type": "function", "name": "weather", "description": "d", "parameters": SCHEMA}
CALLS = [Say("Let me see."), CallTool("weather", {"city": "Bern"})]


def returned(call: Any, content: str) -> Any:
    return {"role": "tool", "tool_call_id": call.id, "content": content}


def roles(body: Any) -> list[str]:
    return [message["role"] for message in body["messages"] if message["role"] != "system"]


async def test_a_chat_ends_with_the_clients_calls_and_the_same_run_goes_on_with_their_results() -> None:
    """P4: the run waits and isn't over; P6: what the server's own tool did isn't done again."""
    own = Counted()
    script = [CallTool("touch", {"n": 1}), CallTool("weather", {"city": "Bern"})]
    async with (
        ChaosServer(script, [Say("Yes, 21 degrees.")]) as chaos,
        served(target_of(chaos), setting=Setting(tools=(own,))) as server,
        client_of(server) as client,
    ):
        first = await client.chat.completions.with_raw_response.create(
            model="holdfast", messages=HI, tools=[WEATHER], tool_choice="required"
        )
        asked = first.parse().choices[0]
        assert (asked.finish_reason, asked.message.content) == ("tool_calls", None)
        [call] = asked.message.tool_calls or []
        assert call.type == "function"
        assert (call.function.name, json.loads(call.function.arguments)) == ("weather", {"city": "Bern"})
        _, waiting = await server.get(f"/v1/runs/{first.headers['x-hermes-run-id']}")
        assert waiting["status"] == "waiting_for_client"
        assert [one["tool"] for one in waiting["client_tools"]["calls"]] == ["weather"]
        assert waiting["client_tools"]["expires_at"] is not None
        _, listed = await server.get("/v1/runs?status=waiting_for_client")
        assert [one["run_id"] for one in listed["data"]] == [first.headers["x-hermes-run-id"]]
        assert (await server.get("/v1/approvals"))[1]["data"] == []

        history: Any = [*HI, asked.message.model_dump(exclude_none=True), returned(call, "21 degrees")]
        second = await client.chat.completions.with_raw_response.create(
            model="holdfast", messages=history, tools=[WEATHER]
        )
        assert second.parse().choices[0].message.content == "Yes, 21 degrees."
        assert second.headers["x-hermes-run-id"] == first.headers["x-hermes-run-id"]
        assert second.parse().id != first.parse().id
        _, run = await server.get(f"/v1/runs/{first.headers['x-hermes-run-id']}")
        assert (run["status"], run["output"]) == ("completed", "Yes, 21 degrees.")
        sent: Any = [request.body for request in chaos.seen.requests]
    assert own.done == [{"n": 1}]
    assert {tool["function"]["name"] for tool in sent[0]["tools"]} >= {"touch", "weather"}
    assert (sent[0]["tool_choice"], "tool_choice" in sent[1]) == ("required", False)
    assert roles(sent[1]) == ["user", "assistant", "tool", "tool"]
    assert sent[1]["messages"][-1]["content"] == "21 degrees"


async def test_a_clients_tool_replaces_ours_of_the_same_name_and_calls_go_to_their_owner() -> None:
    """P8, P13: a client's `touch` never reaches ours, and leaves no approval for it behind."""
    own = Counted()
    names = ("touch", "ask_user")
    declared: Any = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in names]
    script = [CallTool("touch", {"n": 1}), CallTool("ask_user", {"n": 2})]
    again = [CallTool("touch", {"n": 3})]  # not offered, but the model saw it before
    ours = [CallTool("touch", {"n": 4})]
    session: Any = {"session_id": "s"}
    async with (
        ChaosServer(script, again, ours) as chaos,
        served(
            target_of(chaos), setting=Setting(tools=(own,), judge=AsksAbout(frozenset({"touch"})))
        ) as server,
        client_of(server) as client,
    ):
        first = await client.chat.completions.create(
            model="holdfast", messages=HI, tools=declared, extra_body=session
        )
        calls = first.choices[0].message.tool_calls or []
        assert [cast("Any", call).function.name for call in calls] == ["touch", "ask_user"]
        history: Any = [
            *HI,
            first.choices[0].message.model_dump(exclude_none=True),
            *(returned(call, "done") for call in calls),
        ]
        second = await client.chat.completions.create(
            model="holdfast", messages=history, tools=declared, tool_choice="none", extra_body=session
        )
        assert second.choices[0].finish_reason == "tool_calls"
        moved_on = await client.chat.completions.create(model="holdfast", messages=HI, extra_body=session)
        assert "Waiting for a person to approve this: touch" in (moved_on.choices[0].message.content or "")
        assert own.done == []
        _, log = await server.get("/api/sessions/s/events?limit=1000")
        sent: Any = [request.body for request in chaos.seen.requests]
    asked = [(event["name"], event["owner"]) for event in log["events"] if event["type"] == "tool.asked"]
    assert asked == [("touch", "client"), ("ask_user", "client"), ("touch", "client"), ("touch", "holdfast")]
    offered = [[tool["function"]["name"] for tool in body.get("tools", [])] for body in sent]
    assert [names.count("touch") for names in offered] == [1, 0, 1]


async def test_a_streamed_chat_says_the_calls_last_and_goes_on_in_the_next_stream() -> None:
    async with (
        ChaosServer(CALLS, [Say("Warm enough.")]) as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        async with client.chat.completions.stream(model="holdfast", messages=HI, tools=[WEATHER]) as stream:
            asked = (await stream.get_final_completion()).choices[0]
        assert (asked.finish_reason, asked.message.content) == ("tool_calls", "Let me see.")
        [call] = asked.message.tool_calls or []
        history: Any = [*HI, asked.message.model_dump(exclude_none=True), returned(call, "9 degrees")]
        async with client.chat.completions.stream(
            model="holdfast", messages=history, tools=[WEATHER]
        ) as stream:
            told = (await stream.get_final_completion()).choices[0]
    assert (told.finish_reason, told.message.content) == ("stop", "Warm enough.")


async def test_a_response_ends_with_function_calls_and_the_next_one_continues_it() -> None:
    """P7: each response is shown again as it was, also after the run went on."""
    async with (
        ChaosServer(CALLS, [Say("Warm enough.")]) as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        first = await client.responses.create(model="holdfast", input="warm?", tools=[FLAT_WEATHER])
        items: list[Any] = list(first.output)
        assert [(item.type, item.status) for item in items] == [
            ("message", "completed"),
            ("function_call", "completed"),
        ]
        assert first.status == "completed"
        result: Any = {"type": "function_call_output", "call_id": items[1].call_id, "output": "9 degrees"}
        second = await client.responses.create(
            model="holdfast", input=[result], previous_response_id=first.id, tools=[FLAT_WEATHER]
        )
        assert second.output_text == "Warm enough."
        assert second.id != first.id
        assert (await client.responses.retrieve(first.id)).output == first.output
        assert (await client.responses.retrieve(second.id)).output == second.output
        third = await client.responses.create(model="holdfast", input=[result], previous_response_id=first.id)
        assert (third.id, third.output_text) == (second.id, "Warm enough.")  # the same results, the same run
        assert len(chaos.seen.requests) == 2


async def test_a_streamed_response_ends_with_function_calls_and_the_next_one_continues_it() -> None:
    async with (
        ChaosServer(CALLS, [Say("Warm enough.")]) as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        async with client.responses.stream(model="holdfast", input="warm?", tools=[FLAT_WEATHER]) as stream:
            first = await stream.get_final_response()
        call: Any = first.output[-1]
        assert (call.type, call.name, json.loads(call.arguments)) == (
            "function_call",
            "weather",
            {"city": "Bern"},
        )
        result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "9"}
        async with client.responses.stream(
            model="holdfast", input=[result], previous_response_id=first.id, tools=[FLAT_WEATHER]
        ) as stream:
            second = await stream.get_final_response()
    assert second.output_text == "Warm enough."


async def test_results_are_taken_once_and_from_the_client_that_was_asked_alone() -> None:
    """P2, P11: other results, or those of another key, are only context for a run of their own."""
    async with (
        ChaosServer(CALLS, [Say("Warm.")], after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        first = await client.chat.completions.with_raw_response.create(
            model="holdfast", messages=HI, tools=[WEATHER]
        )
        message: Any = first.parse().choices[0].message
        call = message.tool_calls[0]
        history: Any = [*HI, message.model_dump(exclude_none=True)]
        asked_run = first.headers["x-hermes-run-id"]
        runs: list[str] = []
        for content in ("21 degrees", "21 degrees", "9 degrees"):
            made = await client.chat.completions.with_raw_response.create(
                model="holdfast", messages=[*history, returned(call, content)], tools=[WEATHER]
            )
            assert made.parse().choices[0].message.content == "Warm."
            runs.append(made.headers["x-hermes-run-id"])
        last: Any = chaos.seen.requests[-1].body
    assert runs[:2] == [asked_run] * 2
    assert runs[2] != asked_run
    assert roles(last) == ["user", "assistant", "tool", "user"]
    assert last["messages"][-2]["content"] == "9 degrees"


async def test_results_under_another_key_do_not_reach_the_run() -> None:
    """P11: whoever learns the id of a call can't speak for the client that was asked."""
    keys = (ApiKey("me", "a-key-that-is-long"), ApiKey("you", "another-long-key"))
    mine, yours = ({"Authorization": f"Bearer {key.secret}"} for key in keys)
    path, asking = "/v1/chat/completions", {"messages": HI, "tools": [WEATHER]}
    async with (
        ChaosServer(CALLS, [Say("Warm.")], after_last="repeat") as chaos,
        served(target_of(chaos), setting=Setting(options=ServerOptions(keys=keys))) as server,
    ):
        asked = await server.call("POST", path, body=asking, headers=mine)
        message = asked.json["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "21"}
        body = asking | {"messages": [*HI, message, result]}
        ids: list[str] = []
        for headers in (yours, mine):
            answer = await server.call("POST", path, body=body, headers=headers)
            ids.append(answer.headers["x-hermes-run-id"])
    assert ids[0] != asked.headers["x-hermes-run-id"] == ids[1]


async def test_results_of_another_user_of_a_front_end_do_not_reach_the_run() -> None:
    """P11: its users share a key, and each has their own chats."""
    path, asking = "/v1/chat/completions", {"messages": HI, "tools": [WEATHER]}
    async with (
        ChaosServer(CALLS, [Say("Warm.")], after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
    ):
        me = {"X-Holdfast-User-Id": "me", "X-Holdfast-Chat-Id": "c"}
        asked = await server.call("POST", path, body=asking, headers=me)
        message = asked.json["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "21"}
        body = asking | {"messages": [*HI, message, result]}
        others: tuple[dict[str, str], ...] = (
            {},
            me | {"X-Holdfast-User-Id": "you"},
            me | {"X-Holdfast-Chat-Id": "d"},
        )
        for headers in others:
            answer = await server.call("POST", path, body=body, headers=headers)
            assert answer.headers["x-hermes-run-id"] != asked.headers["x-hermes-run-id"], headers
        answer = await server.call("POST", path, body=body, headers=me)
        assert answer.headers["x-hermes-run-id"] == asked.headers["x-hermes-run-id"]


async def test_a_result_that_is_missing_is_named_and_nothing_is_taken() -> None:
    two = [CallTool("weather", {"city": "Bern"}), CallTool("weather", {"city": "Thun"})]
    async with (
        ChaosServer(two, [Say("Warm.")]) as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        asked = await client.chat.completions.create(model="holdfast", messages=HI, tools=[WEATHER])
        message: Any = asked.choices[0].message
        history: Any = [*HI, message.model_dump(exclude_none=True), returned(message.tool_calls[0], "21")]
        with pytest.raises(openai.BadRequestError, match=message.tool_calls[1].id) as refused:
            await client.chat.completions.create(model="holdfast", messages=history, tools=[WEATHER])
        assert refused.value.code == "tool_result_missing"
        both = [*history, returned(message.tool_calls[1], "20")]
        told = await client.chat.completions.create(model="holdfast", messages=both, tools=[WEATHER])
    assert told.choices[0].message.content == "Warm."


async def test_a_client_that_says_something_else_instead_gets_its_answer() -> None:
    """P3: the run that waited for results in this session is stopped, and keeps nobody waiting."""
    async with (
        ChaosServer(CALLS, [Say("Never mind.")]) as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        named = {"X-Hermes-Session-Id": "ses_named"}
        asked = await client.chat.completions.with_raw_response.create(
            model="holdfast", messages=HI, tools=[WEATHER], extra_headers=named
        )
        told = await client.chat.completions.create(
            model="holdfast", messages=[{"role": "user", "content": "forget it"}], extra_headers=named
        )
        assert told.choices[0].message.content == "Never mind."
        _, run = await server.get(f"/v1/runs/{asked.headers['x-hermes-run-id']}")
    assert (run["status"], run["cause"]) == ("cancelled", "client_moved_on")


async def test_results_for_other_calls_are_refused_and_the_run_keeps_waiting() -> None:
    """P4, P12: a wrong id is a mistake, not the client's change of mind."""
    async with (
        ChaosServer(CALLS, [Say("Warm.")]) as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        first = await client.responses.create(model="holdfast", input="warm?", tools=[FLAT_WEATHER])
        call_id = cast("Any", first.output[-1]).call_id

        async def send(*call_ids: str) -> Any:
            results: Any = [
                {"type": "function_call_output", "call_id": one, "output": "9"} for one in call_ids
            ]
            return await client.responses.create(
                model="holdfast", input=results, previous_response_id=first.id
            )

        for wrong in (("call_of_nobody",), (call_id, "call_of_nobody")):
            with pytest.raises(openai.BadRequestError, match=call_id) as refused:
                await send(*wrong)
            assert refused.value.code == "tool_result_unknown"
        assert (await send(call_id)).output_text == "Warm."


async def test_a_model_that_mistypes_a_clients_tool_is_told_its_name() -> None:
    async with (
        ChaosServer([CallTool("wether", {"city": "Bern"})], [Say("Sorry.")]) as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        await client.chat.completions.create(model="holdfast", messages=HI, tools=[WEATHER])
        body: Any = chaos.seen.requests[-1].body
    told: str = body["messages"][-1]["content"]
    assert "Did you mean weather?" in told
    assert "Available tools: ask_user, weather." in told


async def test_a_response_client_that_says_two_things_instead_gets_its_answer() -> None:
    """P3: what it says waits for the end of the run that waited for results, not for the results."""
    async with (
        ChaosServer(CALLS, [Say("Never mind.")]) as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        first = await client.responses.create(model="holdfast", input="warm?", tools=[FLAT_WEATHER])
        both: Any = [{"role": "user", "content": "wait"}, {"role": "user", "content": "forget it"}]
        second = await client.responses.create(model="holdfast", input=both, previous_response_id=first.id)
    assert second.output_text == "Never mind."


@for_each_row(
    ("fields", "code"),
    [
        ({"tools": [WEATHER, WEATHER]}, "tool_name_taken"),
        ({"tools": [{"type": "web_search"}]}, "invalid_request"),
        ({"tools": [{"type": "function", "function": {"name": "no spaces"}}]}, "invalid_request"),
        ({"tool_choice": "required"}, "invalid_request"),
        (
            {"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "other"}}},
            "invalid_request",
        ),
        ({"n": 2}, "unsupported_parameter"),
        ({"top_logprobs": 3}, "unsupported_parameter"),
        ({"logprobs": True}, "unsupported_parameter"),
    ],
)
async def test_what_cannot_be_honoured_is_refused_by_name(fields: Any, code: str) -> None:
    """P12: nothing that changes the answer is dropped with a confident 200."""
    async with (
        ChaosServer([Say("no")]) as chaos,
        served(target_of(chaos), setting=Setting(tools=(Counted(),))) as server,
    ):
        status, body = await server.post("/v1/chat/completions", {"messages": HI, **fields})
    assert (status, body["error"]["code"]) == (400, code)
    assert not chaos.seen.requests


async def test_sampling_options_reach_a_model_that_knows_them_and_are_refused_elsewhere() -> None:
    """P12: top_p, stop, seed and the penalties, on a wire that has them and on one that has not."""
    options = {"top_p": 0.5, "stop": ["END"], "seed": 7, "presence_penalty": 0.5}
    usual: dict[str, Any] = {
        "top_p": 1,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "stop": [],
        "n": 1,
        "logprobs": False,
    }
    async with ChaosServer([Say("ok")], after_last="repeat") as chaos:
        async with served(target_of(chaos)) as server:
            await server.post("/v1/chat/completions", {"messages": HI, **options})
            await server.post("/v1/chat/completions", {"messages": HI, **usual})
        chosen, plain = [request.body or {} for request in chaos.seen.requests]
        async with served(replace(target_of(chaos), wire="responses")) as server:
            refused = await server.post("/v1/chat/completions", {"messages": HI, **options})
            cut = await server.post("/v1/chat/completions", {"messages": HI, "stop": "k"})
    assert {name: chosen[name] for name in options} == options
    assert cut[1]["choices"][0]["message"]["content"] == "o"  # by Holdfast, because the wire has no "stop"
    assert not plain.keys() & usual.keys()
    assert (refused[0], refused[1]["error"]["param"]) == (400, "seed")
