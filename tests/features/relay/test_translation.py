"""A client of one wire and a target of another: the packages get whole answers of their own shape."""

import itertools
import json
from typing import Any

import anthropic
import openai
import pytest
from anthropic.types import Message
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response

from features.relay.relaying import (
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
from holdfast.chaos import CallTool, ChaosServer, ClosedBy, Drop, Hang, ReportedUsage, Say, Think, overloaded
from holdfast.chaos.server import ChaosOptions
from holdfast.features.relay.translation.choices import untranslatable
from holdfast.features.relay.translation.requests import translated
from holdfast.model_events import LONG_CHARS
from holdfast.models.adapters import adapter_of
from holdfast.targets import STOPS_MAX, Target, Wire
from tables import for_each_row

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
    ("chat", {"stop": ["x"] * (STOPS_MAX + 1)}, "stop"),
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


@for_each_row("client", WIRES)
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
    return json.loads(adapter_of(target).build(asked, place, blobs={}).body)


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
        assert not sent_to(target, client, **{stops[client]: ["x"]}).keys() & {"stop", "stop_sequences"}


STOP_ON: dict[Wire, str] = {"chat": "stop", "anthropic": "stop_sequences"}


@for_each_row("stream", [False, True])
@for_each_row("client", STOP_ON)
async def test_the_relay_cuts_at_a_stop_sequence_that_the_target_cannot_be_told(
    client: Wire, *, stream: bool
) -> None:
    """P5: the sequence is split over deltas, and the provider, which would never end, is cut off."""
    script = [Think("hm"), Say("one two <END> three", chunk_chars=4), Hang()]
    async with ChaosServer(script) as chaos, relaying(target_on(chaos, "responses")) as server:
        body = body_for(client, stream=stream) | {STOP_ON[client]: ["nowhere", "<END>"]}
        answer = await server.call("POST", PATHS[client], body=body)
        assert answer.status == 200, answer.body
        assert await chaos.seen.until_closed(1) is ClosedBy.PEER
        (record,) = (await server.get("/api/usage"))[1]["rows"]
    said = answer.body.decode()
    assert "three" not in said
    assert "END" not in said.replace('"stop_sequence":"<END>"', "")
    if client == "anthropic":
        assert '"stop_reason":"stop_sequence"' in said
        assert '"stop_sequence":"<END>"' in said
    else:
        assert '"finish_reason":"stop"' in said
    if not stream:
        text = answer.json["content"][-1]["text"] if client == "anthropic" else _content(answer.json)
        assert text == "one two "
    assert record["input_tokens"] > 0


def _content(completion: dict[str, Any]) -> str:
    return completion["choices"][0]["message"]["content"]


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


# What the Open Responses specification requires of every response object.
RESPONSE_FIELDS = frozenset(
    """id object created_at completed_at status incomplete_details model previous_response_id instructions
    output error tools tool_choice truncation parallel_tool_calls text top_p presence_penalty
    frequency_penalty top_logprobs temperature reasoning usage max_output_tokens max_tool_calls store
    background service_tier metadata safety_identifier prompt_cache_key""".split()  # noqa: SIM905
)


def events_in(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: {")]


@for_each_row("target", ["chat", "anthropic"])
async def test_a_translated_response_has_every_field_and_its_events_are_numbered_in_order(
    target: Wire,
) -> None:
    function = {"type": "function", "name": "look", "parameters": {"type": "object"}}
    asked: dict[str, Any] = {
        "temperature": 0.5,
        "metadata": {"a": "b"},
        "tools": [function],
        "instructions": "Be brief.",
    }
    script = [Think("hm"), Say("one two", chunk_chars=3), CallTool("look", {"at": 1})]
    async with (
        ChaosServer(script, script, [Say("half"), Drop()]) as chaos,
        relaying(target_on(chaos, target)) as server,
    ):
        whole = await server.call("POST", PATHS["responses"], body=body_for("responses", **asked))
        streamed = [
            await server.call("POST", PATHS["responses"], body=body_for("responses", stream=True, **asked))
            for _ in range(2)
        ]
    events = [events_in(answer.body) for answer in streamed]
    for told in events:
        assert [event["sequence_number"] for event in told] == list(range(len(told)))
        assert [event["type"] for event in told[:2]] == ["response.created", "response.in_progress"]
    assert (events[0][-1]["type"], events[1][-1]["type"]) == ("response.completed", "response.failed")
    shown = [event["response"] for told in events for event in told if "response" in event]
    for response in (whole.json, *shown):
        assert response.keys() >= RESPONSE_FIELDS
        assert (response["temperature"], response["metadata"]) == (0.5, {"a": "b"})
        assert (response["instructions"], response["store"]) == ("Be brief.", False)
        assert response["tools"][0]["name"] == "look"
        Response.model_validate(response | {"error": None})  # the codes of errors are our own
    assert len({response["id"] for response in shown[3:]}) == 1  # a failure ends the response that began


@for_each_row("target", ["responses", "anthropic"])
async def test_a_translated_chat_completion_has_every_field(target: Wire) -> None:
    script = [Say("ok")]
    async with ChaosServer(script, script) as chaos, relaying(target_on(chaos, target)) as server:
        whole = await server.call("POST", PATHS["chat"], body=body_for("chat"))
        streamed = await server.call("POST", PATHS["chat"], body=body_for("chat", stream=True))
    message = whole.json["choices"][0]["message"]
    assert (message["refusal"], message["annotations"]) == (None, [])
    ChatCompletion.model_validate(whole.json)
    for chunk in events_in(streamed.body):
        ChatCompletionChunk.model_validate(chunk)
        assert all("logprobs" in choice for choice in chunk["choices"])


async def test_a_message_has_no_empty_block() -> None:
    """Reasoning that its provider keeps to itself is no block: clients read the first one."""
    script = [Think(""), Say("ok"), CallTool("look", {})]
    async with ChaosServer(script, script) as chaos, relaying(target_on(chaos, "responses")) as server:
        whole = await server.call("POST", PATHS["anthropic"], body=body_for("anthropic"))
        streamed = await server.call("POST", PATHS["anthropic"], body=body_for("anthropic", stream=True))
    assert [block["type"] for block in whole.json["content"]] == ["text", "tool_use"]
    starts = [event for event in events_in(streamed.body) if event["type"] == "content_block_start"]
    assert [event["content_block"]["type"] for event in starts] == ["text", "tool_use"]
    Message.model_validate(whole.json)


async def test_a_long_text_of_a_message_comes_whole() -> None:
    text = "x" * (LONG_CHARS + 1)
    async with ChaosServer([Say(text)]) as chaos, relaying(target_on(chaos, "chat")) as server:
        whole = await server.call("POST", PATHS["anthropic"], body=body_for("anthropic"))
    assert whole.json["content"][0]["text"] == text


@for_each_row("target", ["chat", "responses"])
async def test_anthropics_tool_runner_goes_on_without_a_thread_at_a_target_that_has_none(
    target: Wire,
) -> None:
    """It asks the provider to hold the conversation, and sends all of it once that is refused."""

    @anthropic.beta_async_tool
    async def look(at: str) -> str:
        """Look at something."""
        return f"saw {at}"

    scripts = [CallTool("look", {"at": "it"})], [CallTool("look", {"at": "that"})], [Say("done")]
    async with (
        ChaosServer(*scripts) as chaos,
        relaying(target_on(chaos, target)) as server,
        anthropic_client(server) as client,
    ):
        messages: Any = USER
        runner = client.beta.messages.tool_runner(
            model="main", max_tokens=100, messages=messages, tools=[look]
        )
        last = await runner.until_done()
        refused = await server.call(
            "POST",
            PATHS["anthropic"],
            body=body_for("anthropic") | {"thread": {"type": "continue", "previous_message_id": "msg_1"}},
        )
        sent = [json.dumps(request.body) for request in chaos.seen.requests]
    assert last.content[0].type == "text"
    assert ("saw it" in sent[-1], "saw that" in sent[-1], len(sent)) == (True, True, 3)
    assert (refused.status, refused.json["error"]["details"]) == (
        400,
        {"error_code": "thread_unsupported_request"},
    )
