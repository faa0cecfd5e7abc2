"""A client of one wire and a target of another: the packages get whole answers of their own shape."""

import itertools
import json
from typing import Any

import anthropic
import openai
import pytest

from holdfast.chaos import CallTool, ChaosServer, Drop, ReportedUsage, Say, Think, overloaded
from holdfast.chaos.server import ChaosOptions
from holdfast.models.adapters import ADAPTERS
from holdfast.server.relay.translation.choices import untranslatable
from holdfast.server.relay.translation.requests import translated
from holdfast.targets import Target, Wire
from server.relay.relaying import (
    PATHS,
    USER,
    WIRES,
    anthropic_client,
    body_for,
    openai_client,
    relaying,
    target_on,
    text_by_package,
)

PAIRS = [(one, other) for one, other in itertools.product(WIRES, WIRES) if one != other]
each_pair = pytest.mark.parametrize(("client", "target"), PAIRS)
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}}
PNG = "iVBORw0KGgo="
FUNCTION: dict[str, Any] = {"name": "weather", "description": "The weather.", "parameters": SCHEMA}
TOOLS: dict[Wire, Any] = {
    "chat": [{"type": "function", "function": FUNCTION}],
    "responses": [{"type": "function", **FUNCTION}],
    "anthropic": [{"name": "weather", "description": "The weather.", "input_schema": SCHEMA}],
}


@each_pair
async def test_text_comes_in_the_clients_protocol(client: Wire, target: Wire) -> None:
    script = [Think("hm"), Say("hello ", chunk_chars=2), Say("there")]
    async with ChaosServer(script, script) as chaos, relaying(target_on(chaos, target)) as server:
        for stream in (True, False):
            assert await text_by_package(server, client, stream=stream) == "hello there"
        assert chaos.seen.requests[0].path == PATHS[target]


def untyped(client: Any) -> Any:
    """A package's client whose answers are looked at without their types."""
    return client


async def called_by_chat(server: Any, *, stream: bool) -> list[tuple[str, str, Any]]:
    async with openai_client(server) as opened:
        client, messages = untyped(opened), USER
        asked: Any = {"model": "main", "messages": messages, "tools": TOOLS["chat"]}
        if stream:
            async with client.chat.completions.stream(**asked) as events:
                whole = await events.get_final_completion()
        else:
            whole = await client.chat.completions.create(**asked)
        calls = whole.choices[0].message.tool_calls
        assert whole.choices[0].finish_reason == "tool_calls"
        return [(call.id, call.function.name, json.loads(call.function.arguments)) for call in calls]


async def called_by_responses(server: Any, *, stream: bool) -> list[tuple[str, str, Any]]:
    async with openai_client(server) as opened:
        client = untyped(opened)
        asked: Any = {"model": "main", "input": "hi", "tools": TOOLS["responses"]}
        if stream:
            async with client.responses.stream(**asked) as events:
                whole = await events.get_final_response()
        else:
            whole = await client.responses.create(**asked)
        calls = [item for item in whole.output if item.type == "function_call"]
        return [(call.call_id, call.name, json.loads(call.arguments)) for call in calls]


async def called_by_anthropic(server: Any, *, stream: bool) -> list[tuple[str, str, Any]]:
    async with anthropic_client(server) as opened:
        client = untyped(opened)
        asked: Any = {"model": "main", "max_tokens": 99, "messages": USER, "tools": TOOLS["anthropic"]}
        if stream:
            async with client.messages.stream(**asked) as events:
                whole = await events.get_final_message()
        else:
            whole = await client.messages.create(**asked)
        assert whole.stop_reason == "tool_use"
        return [(block.id, block.name, block.input) for block in whole.content if block.type == "tool_use"]


CALLED: dict[Wire, Any] = {
    "chat": called_by_chat,
    "responses": called_by_responses,
    "anthropic": called_by_anthropic,
}


@each_pair
async def test_parallel_tool_calls_come_whole(client: Wire, target: Wire) -> None:
    script = [
        Say("Let me look."),
        CallTool("weather", {"city": "Lisbon"}, id="call_1"),
        CallTool("weather", {"city": "Oslo"}, id="call_2"),
    ]
    async with ChaosServer(script, script) as chaos, relaying(target_on(chaos, target)) as server:
        for stream in (True, False):
            calls = await CALLED[client](server, stream=stream)
            assert [(name, args) for _, name, args in calls] == [
                ("weather", {"city": "Lisbon"}),
                ("weather", {"city": "Oslo"}),
            ]
            assert len({call_id for call_id, _, _ in calls}) == 2
        assert "weather" in json.dumps(chaos.seen.requests[0].body)


def conversation(wire: Wire) -> dict[str, Any]:
    """A question with an image, a call, and its result."""
    url = f"data:image/png;base64,{PNG}"
    if wire == "anthropic":
        source = {"type": "base64", "media_type": "image/png", "data": PNG}
        look = [{"type": "text", "text": "what is it?"}, {"type": "image", "source": source}]
        use = {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Oslo"}}
        result = {"type": "tool_result", "tool_use_id": "call_1", "content": "rain"}
        return {
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {"role": "user", "content": look},
                {"role": "assistant", "content": [use]},
                {"role": "user", "content": [result, {"type": "text", "text": "and now?"}]},
            ],
        }
    if wire == "responses":
        look = [{"type": "input_text", "text": "what is it?"}, {"type": "input_image", "image_url": url}]
        call = {
            "type": "function_call",
            "call_id": "call_1",
            "name": "weather",
            "arguments": '{"city":"Oslo"}',
        }
        return {
            "instructions": "Be brief.",
            "input": [
                {"role": "user", "content": look},
                call,
                {"type": "function_call_output", "call_id": "call_1", "output": "rain"},
                {"role": "user", "content": "and now?"},
            ],
        }
    look = [{"type": "text", "text": "what is it?"}, {"type": "image_url", "image_url": {"url": url}}]
    function = {"name": "weather", "arguments": '{"city":"Oslo"}'}
    return {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": look},
            {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
            {"role": "user", "content": "and now?"},
        ]
    }


@each_pair
async def test_a_conversation_reaches_the_model_whole(client: Wire, target: Wire) -> None:
    async with ChaosServer([Say("ok")]) as chaos, relaying(target_on(chaos, target)) as server:
        asked = body_for(client) | conversation(client) | {"temperature": 0.5}
        answer = await server.call("POST", PATHS[client], body=asked)
        assert answer.status == 200, answer.body
        sent = json.dumps(chaos.seen.requests[0].body)
        for part in ("Be brief.", "what is it?", PNG, "call_1", "Oslo", "rain", "and now?", "0.5"):
            assert part in sent, part


@each_pair
async def test_usage_is_counted_in_the_clients_terms(client: Wire, target: Wire) -> None:
    options = ChaosOptions(usage=ReportedUsage(input_tokens=50, output_tokens=7, cached_tokens=20))
    async with (
        ChaosServer([Say("ok")], options=options) as chaos,
        relaying(target_on(chaos, target)) as server,
    ):
        usage = (await server.call("POST", PATHS[client], body=body_for(client))).json["usage"]
        if client == "anthropic":
            assert usage["input_tokens"] + usage["cache_read_input_tokens"] == 50
            assert usage["output_tokens"] == 7
        elif client == "responses":
            assert (usage["input_tokens"], usage["output_tokens"]) == (50, 7)
        else:
            assert (usage["prompt_tokens"], usage["completion_tokens"]) == (50, 7)


REFUSED: list[tuple[Wire, dict[str, Any], str]] = [
    ("chat", {"seed": 7}, "seed"),
    ("chat", {"top_p": "much"}, "top_p"),
    ("chat", {"stop": 7}, "stop"),
    ("chat", {"logprobs": True}, "logprobs"),
    ("chat", {"n": 2}, "n"),
    ("chat", {"n": [2]}, "n"),
    ("chat", {"tool_choice": "sometimes", "tools": TOOLS["chat"]}, "tool_choice"),
    ("chat", {"tool_choice": {"type": "custom"}, "tools": TOOLS["chat"]}, "tool_choice"),
    ("chat", {"tool_choice": "required", "tools": TOOLS["chat"], "reasoning_effort": "low"}, "tool_choice"),
    (
        "anthropic",
        {"tool_choice": {"type": "tool", "name": "other"}, "tools": TOOLS["anthropic"]},
        "tool_choice",
    ),
    ("chat", {"messages": [{"role": "robot", "content": "hi"}]}, "messages[0].role"),
    ("responses", {"previous_response_id": "resp_1"}, "previous_response_id"),
    ("responses", {"tools": [{"type": "web_search"}]}, "web_search"),
    ("responses", {"tools": [{"type": "custom", "name": "patch"}]}, "tools[0].type"),
    ("responses", {"input": [{"type": "computer_call"}]}, "input[0].type"),
    ("anthropic", {"top_k": 5}, "top_k"),
    (
        "anthropic",
        {"messages": [{"role": "user", "content": [{"type": "search_result"}]}]},
        "messages[0].content[0].type",
    ),
    ("anthropic", {"messages": [*USER, {"role": "assistant", "content": "I"}]}, "messages"),
]


@pytest.mark.parametrize("client", WIRES)
async def test_what_cannot_be_translated_is_refused_by_name(client: Wire) -> None:
    target: Wire = "chat" if client != "chat" else "anthropic"
    async with ChaosServer() as chaos, relaying(target_on(chaos, target)) as server:
        for _, fields, named in (one for one in REFUSED if one[0] == client):
            answer = await server.call("POST", PATHS[client], body=body_for(client) | fields)
            assert answer.status == 400, fields
            assert answer.json["error"]["param"] == named
            assert named in answer.json["error"]["message"]
        assert chaos.seen.requests == []


CHOSEN: dict[Wire, dict[str, Any]] = {
    "chat": {"required": "required", "named": {"type": "function", "function": {"name": "weather"}}},
    "responses": {"required": "required", "named": {"type": "function", "name": "weather"}},
    "anthropic": {"required": {"type": "any"}, "named": {"type": "tool", "name": "weather"}},
}


def sent_to(target: Wire, client: Wire, **fields: Any) -> dict[str, Any]:
    """The body that a target gets for a client's request on another wire."""
    asked = translated(json.dumps(body_for(client) | fields).encode(), client, {})
    place = Target(name="main", wire=target, base_url="http://127.0.0.1:1", model="m")
    assert not untranslatable(asked, place, wire=client)
    return json.loads(ADAPTERS[target].build(asked, place, blobs={}).body)


@each_pair
def test_the_choice_of_a_tool_is_translated(client: Wire, target: Wire) -> None:
    for choice in ("required", "named"):
        sent = sent_to(target, client, tools=TOOLS[client], tool_choice=CHOSEN[client][choice])
        assert sent["tool_choice"] == CHOSEN[target][choice]
    none = {"type": "none"} if client == "anthropic" else "none"
    assert not sent_to(target, client, tools=TOOLS[client], tool_choice=none).get("tools")


@each_pair
def test_sampling_options_are_translated_where_the_target_knows_them(client: Wire, target: Wire) -> None:
    stops: dict[Wire, str] = {"chat": "stop", "anthropic": "stop_sequences"}
    assert sent_to(target, client, top_p=0.5)["top_p"] == 0.5
    if client in stops and target in stops:
        assert sent_to(target, client, **{stops[client]: ["x"]})[stops[target]] == ["x"]
    elif client in stops:
        with pytest.raises(AssertionError):
            sent_to(target, client, **{stops[client]: ["x"]})


@each_pair
async def test_failures_are_told_in_the_clients_protocol(client: Wire, target: Wire) -> None:
    async with (
        ChaosServer([overloaded(529)], [overloaded(529)], [overloaded(529)], [Say("half"), Drop()]) as chaos,
        relaying(target_on(chaos, target)) as server,
    ):
        answer = await server.call("POST", PATHS[client], body=body_for(client, stream=True))
        assert answer.status == 529
        assert (answer.json.get("type") == "error") == (client == "anthropic")
        with pytest.raises((anthropic.APIError, openai.APIError, RuntimeError)):
            await text_by_package(server, client, stream=True)


async def test_a_fallback_may_speak_another_wire() -> None:
    async with (
        ChaosServer([overloaded()], after_last="repeat") as bad,
        ChaosServer([Say("from the other")]) as good,
    ):
        targets = target_on(bad, "anthropic", name="a"), target_on(good, "chat", name="b")
        async with relaying(*targets, models={"both": ["a", "b"]}) as server:
            text = await text_by_package(server, "anthropic", model="both", stream=True)
        assert text == "from the other"
