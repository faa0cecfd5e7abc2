"""A request passes to its own wire as it is: bytes up, bytes back, and retries that nobody sees."""

import asyncio
import gc
import json
import re
from typing import Any

import anthropic
import openai
import pytest

from features.relay.relaying import (
    KEY,
    PATHS,
    SHORT,
    USER,
    WIRES,
    anthropic_client,
    body_for,
    openai_client,
    relaying,
    target_on,
    text_by_package,
)
from holdfast.chaos import (
    CallTool,
    ChaosServer,
    Drop,
    ErrorEvent,
    Gate,
    Hang,
    Headers,
    Raw,
    Say,
    Status,
    Think,
    Wait,
    overloaded,
    rate_limited_s,
    server_error,
)
from holdfast.decisions.gates import Breaker, Moment, breaker_note, dump_breaker
from holdfast.features.relay.raw_request import raw_request
from holdfast.features.relay.requests import RelayedRequest
from holdfast.interfaces.system_clock import SystemClock
from holdfast.models.attempt import Attempt
from holdfast.models.body import UploadPayload
from holdfast.models.watchdog import Watchdog
from holdfast.redaction import Redactor
from holdfast.server.problems import Problem
from holdfast.targets import Wire
from serving import Served, Setting
from side_by_side import on_each_wire
from stores import MemoryStore
from tables import for_each_row


async def both(server: Served, chaos: ChaosServer, wire: Wire, body: bytes) -> tuple[bytes, bytes]:
    """The body of the answer through the relay, and the body that its provider gives directly."""
    relayed = await server.call("POST", PATHS[wire], body=body)
    async with server.http.post(chaos.url + PATHS[wire], data=body) as answer:
        return relayed.body, await answer.read()


@on_each_wire
@for_each_row("stream", [True, False])
async def test_the_official_packages_get_their_answers(wire: Wire, *, stream: bool) -> None:
    async with ChaosServer([Say("hello")]) as chaos, relaying(target_on(chaos, wire)) as server:
        assert await text_by_package(server, wire, stream=stream) == "hello"
        assert chaos.seen.requests[0].path.partition("?")[0] == PATHS[wire]


@on_each_wire
@for_each_row("stream", [True, False])
async def test_every_byte_of_an_answer_comes_back_as_the_provider_sent_it(
    wire: Wire, *, stream: bool
) -> None:
    script = [Think("hm", signature="s"), Say("hé\n", chunk_chars=1), CallTool("f", {"a": 1}, id="call_1")]
    body = json.dumps(body_for(wire, model="main-model", stream=stream)).encode()
    async with ChaosServer(script, script) as chaos, relaying(target_on(chaos, wire)) as server:
        relayed, direct = await both(server, chaos, wire, body)
        # Ids have the number of the request, and answers the time.
        timeless = (re.sub(rb'("created(?:_at)?": ?)\d+', rb"\1", piece) for piece in (relayed, direct))
        same = [piece.replace(b"2", b"1") for piece in timeless]
        assert same[0] == same[1]


@on_each_wire
async def test_a_request_goes_up_byte_for_byte_but_for_the_name_of_its_model(wire: Wire) -> None:
    odd = b'{ "x_beta": {"model": "inner"},\t"model" :"main" , "n":1e2, "deep": [{"model":"main"}],'
    rest = json.dumps(body_for(wire))[1:].replace('"model": "main", ', "").encode()
    async with ChaosServer([Say("ok")]) as chaos, relaying(target_on(chaos, wire)) as server:
        answer = await server.call("POST", PATHS[wire], body=odd + rest)
        assert answer.status == 200, answer.body
        sent = chaos.seen.requests[0]
        expected = odd.replace(b'"model" :"main"', b'"model" :"main-model"') + rest
        assert sent.upload_bytes == len(expected)
        assert sent.body == json.loads(expected)


@on_each_wire
@for_each_row(
    "body",
    [
        b'{"model": "main", "model": "other"}',
        b'{"model": "other", "mod\\u0065l": "main"}',
        b'{"mod\\u0065l": "other", "model": "main"}',
    ],
)
async def test_a_model_that_is_named_twice_is_refused(wire: Wire, body: bytes) -> None:
    async with ChaosServer() as chaos, relaying(target_on(chaos, wire), models={"*": ["main"]}) as server:
        answer = await server.call("POST", PATHS[wire], body=body)
        assert answer.status == 400
        assert answer.json["error"]["param"] == "model"
        assert chaos.seen.requests == []


async def test_a_model_that_is_named_twice_is_refused_even_if_neither_is_relayed() -> None:
    async with ChaosServer() as chaos, relaying(target_on(chaos, "chat")) as server:
        for name in (b"holdfast", b"unknown"):
            body = b'{"model": "main", "messages": [{"role": "user", "content": "hi"}], "model": "%b"}' % name
            answer = await server.call("POST", PATHS["chat"], body=body)
            assert (answer.status, answer.json["error"]["param"]) == (400, "model")
        assert chaos.seen.requests == []


@for_each_row(
    ("name", "fields"),
    [
        ("max_tokens", b'"max_tokens": 90000, "max_tokens": null'),
        ("max_tokens", b'"max_tokens": 90000, "max\\u005ftokens": 1'),
        ("n", b'"n": 30, "tools": [], "n" : 1'),
        ("thinking", b'"thinking": {"type": "enabled"}, "thinking": null'),
    ],
)
async def test_a_field_that_counts_is_refused_if_it_is_named_twice(name: str, fields: bytes) -> None:
    """P13: the provider may heed the one that the budget doesn't count."""
    rest = json.dumps(body_for("chat"))[1:].encode()
    async with ChaosServer() as chaos, relaying(target_on(chaos, "chat")) as server:
        answer = await server.call("POST", PATHS["chat"], body=b"{%b, %b" % (fields, rest))
        assert (answer.status, answer.json["error"]["param"]) == (400, name)
        assert chaos.seen.requests == []


@for_each_row(
    "fields",
    [
        b'"model":"main","model":"other"',
        b'"model":"main","mod\\u0065l":"other"',
        b'"model":"main","n":30,"n":1',
        b'"n":30,"model":"main","user":"","n":1',
    ],
)
def test_a_body_without_white_space_is_refused_for_the_same_reasons(fields: bytes) -> None:
    """P13: the quick way to read such a body overlooks nothing."""
    with pytest.raises(Problem, match="must occur once"):
        raw_request(b"{%b}" % fields, "chat")


def test_a_body_without_white_space_keeps_its_bytes_but_for_the_name_of_its_model() -> None:
    body = '{"é":{"model":"in"},"a\\"b":1,"model":"main","deep":[{"model":"main"}]}'.encode()
    for sent in (body, body.replace(b'a\\"', b"")):
        changed = sent.replace(b'"model":"main",', b'"model":"other",')
        assert raw_request(sent, "chat").with_model("other") == changed


async def test_names_inside_other_fields_count_for_nothing() -> None:
    inner = {"max_tokens": 1, "n": {"type": "integer"}, "seed": [{"n": 2}], 'a"n': "thinking"}
    body = body_for("chat") | {"max_tokens": 9, "n": 1, "seed": 3, "metadata": inner, "user": '"n": 3'}
    async with ChaosServer([Say("ok")]) as chaos, relaying(target_on(chaos, "chat")) as server:
        assert (await server.call("POST", PATHS["chat"], body=body)).status == 200
        assert chaos.seen.requests[0].body == body | {"model": "main-model"}


CALLING = '{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"\\"\\ud83d"}}]}}'
CALLED = '{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\\ude00\\""}}]}}'
ENDED = '{"delta":{},"finish_reason":"tool_calls"}'


async def test_half_a_character_passes_in_both_directions() -> None:
    """Programs and gateways that cut text by UTF-16 send them; only the other end can judge them."""
    frames = [
        *(f'data: {{"choices":[{choice}]}}\n\n' for choice in (CALLING, CALLED, ENDED)),
        "data: [DONE]\n\n",
    ]
    cut = [{"role": "user", "content": "cut off: \ud83d"}]
    async with (
        ChaosServer([Say("unsaid")], [Raw("".join(frames))]) as chaos,
        relaying(target_on(chaos, "chat")) as server,
    ):
        status, told = await server.post(PATHS["chat"], body_for("chat", messages=cut))
        assert (status, told["error"]["message"]) == (400, "the body is not a JSON object")
        assert chaos.seen.requests_seen == 1, "it is the model server that is so strict"
        body = json.dumps(body_for("chat", stream=True)).encode()
        answer = await server.call("POST", PATHS["chat"], body=body)
        assert answer.status == 200
        assert answer.body.startswith("".join(frames).encode())
        assert b"error" not in answer.body


FAULTS: dict[str, list[Any]] = {
    "silence": [Hang()],
    "headers and then silence": [Headers(), Hang()],
    "a drop before anything": [Drop()],
    "an overloaded provider": [overloaded()],
    "a server error": [server_error()],
    "an error event before any text": [ErrorEvent(type="overloaded_error")],
}


@on_each_wire
@for_each_row("fault", FAULTS)
async def test_a_failure_before_the_first_content_is_not_seen_by_the_client(wire: Wire, fault: str) -> None:
    """P3, P9: two failed attempts, and the package has its answer."""
    async with ChaosServer(FAULTS[fault], FAULTS[fault], [Say("at last")]) as chaos:
        target = target_on(chaos, wire, patience=SHORT)
        async with relaying(target) as server:
            assert await text_by_package(server, wire, stream=True) == "at last"
            assert len(chaos.seen.requests) == 3


@on_each_wire
async def test_a_drop_after_content_is_an_error_of_the_clients_protocol(wire: Wire) -> None:
    """P4: an answer that broke off is never taken for a whole one."""
    async with ChaosServer([Say("half"), Drop()]) as chaos, relaying(target_on(chaos, wire)) as server:
        with pytest.raises((anthropic.APIError, openai.APIError, RuntimeError)) as raised:
            await text_by_package(server, wire, stream=True)
        if wire != "responses":
            assert "main" in str(raised.value)
        assert len(chaos.seen.requests) == 1


async def test_the_error_of_a_response_that_broke_off_continues_its_events() -> None:
    async with ChaosServer([Say("half"), Drop()]) as chaos, relaying(target_on(chaos, "responses")) as server:
        answer = await server.call("POST", PATHS["responses"], body=body_for("responses", stream=True))
        frames = [line[6:] for line in answer.body.split(b"\n") if line.startswith(b"data: ")]
        events = [json.loads(frame) for frame in frames]
        assert events[-1]["type"] == "response.failed"
        assert events[-1]["response"]["id"] == events[0]["response"]["id"]
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert "main" in events[-1]["response"]["error"]["message"]


@on_each_wire
@for_each_row("status", [400, 401, 404, 422])
async def test_an_error_of_the_client_passes_as_the_provider_said_it(wire: Wire, status: int) -> None:
    said = '{"type":"error","error":{"type":"odd","message":"no","extra":[1, 2]}}'
    async with ChaosServer([Status(status, body=said)]) as chaos, relaying(target_on(chaos, wire)) as server:
        answer = await server.call("POST", PATHS[wire], body=body_for(wire, stream=True))
        assert (answer.status, answer.body) == (status, said.encode())
        assert len(chaos.seen.requests) == 1


@on_each_wire
async def test_a_final_failure_has_the_providers_real_status(wire: Wire) -> None:
    async with (
        ChaosServer([overloaded()], after_last="repeat") as chaos,
        relaying(target_on(chaos, wire)) as server,
    ):
        answer = await server.call("POST", PATHS[wire], body=body_for(wire, stream=True))
        async with server.http.post(chaos.url + PATHS[wire], json=body_for(wire)) as direct:
            said = (await direct.read()).replace(b"chaos_4", b"chaos_3")  # the number of the request
            assert (answer.status, answer.body) == (direct.status, said)


@on_each_wire
async def test_a_provider_that_says_nothing_is_a_gateway_timeout_in_the_clients_shape(wire: Wire) -> None:
    async with (
        ChaosServer([Hang()], after_last="repeat") as chaos,
        relaying(target_on(chaos, wire, patience=SHORT)) as server,
    ):
        answer = await server.call("POST", PATHS[wire], body=body_for(wire, stream=True))
        assert answer.status == 504
        assert "no first byte" in answer.json["error"]["message"]
        assert (answer.json.get("type") == "error") == (wire == "anthropic")


@on_each_wire
async def test_a_wait_that_is_too_long_is_left_to_the_client(wire: Wire) -> None:
    async with (
        ChaosServer([rate_limited_s(120)]) as chaos,
        relaying(target_on(chaos, wire), wait_s=30) as server,
    ):
        answer = await server.call("POST", PATHS[wire], body=body_for(wire))
        assert answer.status == 429
        assert answer.headers["Retry-After"] == "120"
        again = await server.call("POST", PATHS[wire], body=body_for(wire))
        assert again.status == 429
        assert 0 < int(again.headers["Retry-After"]) <= 120
        assert len(chaos.seen.requests) == 1  # the gate is known, so nobody is asked


async def test_a_turn_at_a_silent_target_that_takes_too_long_is_left_to_the_client() -> None:
    """P3: one request at a time probes the target; another one learns when the next probe is due."""
    gate, store = Gate(), MemoryStore()
    async with ChaosServer([Wait(gate), Say("back")]) as chaos:
        target = target_on(chaos, "chat")
        breaker = Breaker(silent=3, cooldown_ms=300_000, probe_at_ms=300_000)
        await store.put_note(breaker_note(target), dump_breaker(breaker, Moment(0, SystemClock().now_ms())))
        async with relaying(target, setting=Setting(store=store), wait_s=30) as server:
            probe = asyncio.create_task(server.call("POST", PATHS["chat"], body=body_for("chat")))
            await chaos.seen.until_request(1)
            answer = await server.call("POST", PATHS["chat"], body=body_for("chat"))
            assert (answer.status, answer.code) == (504, "no_first_event")
            assert 0 < int(answer.headers["Retry-After"]) <= 300
            gate.open()
            assert (await probe).status == 200
    assert len(chaos.seen.requests) == 1


@on_each_wire
async def test_a_short_wait_is_waited_here(wire: Wire) -> None:
    async with (
        ChaosServer([rate_limited_s(0)], [Say("after it")]) as chaos,
        relaying(target_on(chaos, wire)) as server,
    ):
        assert await text_by_package(server, wire, stream=True) == "after it"


@on_each_wire
async def test_the_upstream_key_never_reaches_the_client(wire: Wire) -> None:
    """P11: not in an error, and not in a stream that is cut in the middle of the key."""
    said = json.dumps({"error": {"message": f"bad key {KEY}"}})
    scripts = ([Status(401, body=said)], [Say(f"my key is {KEY}.", chunk_chars=0)])
    async with (
        ChaosServer(*scripts) as chaos,
        relaying(target_on(chaos, wire), setting=Setting(secrets=Redactor([KEY]))) as server,
    ):
        for _ in scripts:
            answer = await server.call("POST", PATHS[wire], body=body_for(wire, stream=True))
            assert KEY.encode() not in answer.body
            assert b"[redacted]" in answer.body


@on_each_wire
async def test_a_client_that_leaves_closes_the_upstream_connection(wire: Wire) -> None:
    """P5: in the middle of an answer."""
    async with ChaosServer([Say("one"), Hang()]) as chaos, relaying(target_on(chaos, wire)) as server:
        async with server.http.post(server.url + PATHS[wire], json=body_for(wire, stream=True)) as answer:
            await answer.content.readany()
        await chaos.seen.until(lambda: chaos.seen.requests[0].connection.closed_s is not None)


@on_each_wire
async def test_a_client_that_leaves_before_the_first_byte_closes_it_too(wire: Wire) -> None:
    async with ChaosServer([Hang()]) as chaos, relaying(target_on(chaos, wire)) as server:
        asking = asyncio.ensure_future(server.call("POST", PATHS[wire], body=body_for(wire)))
        await chaos.seen.until_request(1)
        asking.cancel()
        await asyncio.wait([asking])
        await chaos.seen.until(lambda: chaos.seen.requests[0].connection.closed_s is not None)
        assert len(chaos.seen.requests) == 1


async def test_events_that_nobody_here_knows_are_content() -> None:
    """A tool that the provider runs makes progress of its own."""
    custom = (
        'event: response.custom_tool_call_input.delta\ndata: {"type":"response.custom_tool_call_input.delta",'
        '"output_index":0,"item_id":"c","delta":"*** Begin"}\n\n'
    )
    async with (
        ChaosServer([Headers(), Raw(custom), Hang()]) as chaos,
        relaying(target_on(chaos, "responses")) as server,
    ):
        body = body_for("responses", stream=True)
        async with server.http.post(server.url + PATHS["responses"], json=body) as answer:
            seen = b""
            while custom.encode() not in seen:
                piece = await answer.content.readany()
                assert piece, "the stream ended without it"
                seen += piece


async def test_tools_and_thinking_of_the_anthropic_package_pass() -> None:
    script = [Think("let me see", signature="sig"), CallTool("look", {"at": "it"}, id="toolu_1")]
    async with ChaosServer(script) as chaos, relaying(target_on(chaos, "anthropic")) as server:
        async with anthropic_client(server) as client:
            messages: Any = USER
            async with client.beta.messages.stream(
                model="main", max_tokens=10, messages=messages, betas=["a-beta"], extra_query={"beta": "true"}
            ) as stream:
                final = await stream.get_final_message()
        assert [block.type for block in final.content] == ["thinking", "tool_use"]
        assert chaos.seen.requests[0].headers["anthropic-beta"] == "a-beta"
        assert chaos.seen.requests[0].path == "/v1/messages?beta=true"


async def test_tool_calls_of_the_openai_package_pass() -> None:
    tool: Any = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    messages: Any = USER
    async with (
        ChaosServer([CallTool("f", {"x": 1}, id="call_9")]) as chaos,
        relaying(target_on(chaos, "chat")) as server,
        openai_client(server) as client,
    ):
        whole = await client.chat.completions.create(model="main", messages=messages, tools=[tool])
        calls: Any = whole.choices[0].message.tool_calls
        assert [(call.id, call.function.arguments) for call in calls] == [("call_9", '{"x":1}')]
        body: Any = chaos.seen.requests[0].body
        assert body["tools"] == [tool]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_relayed_call_leaves_nothing_to_the_garbage_collector(wire: Wire) -> None:
    """A graph of objects that holds itself costs an eighth of the server's time."""
    kinds = (Attempt, UploadPayload, Watchdog, RelayedRequest)
    async with ChaosServer([Say("one")], [Say("two")]) as chaos, relaying(target_on(chaos, wire)) as server:
        body = json.dumps(body_for(wire, stream=True)).encode()
        assert (await server.call("POST", PATHS[wire], body=body)).status == 200
        gc.disable()
        try:
            gc.collect(0)  # so that the youngest are those of the next call
            assert (await server.call("POST", PATHS[wire], body=body)).status == 200
            young: set[type] = {type(one) for one in gc.get_objects(generation=0)}
        finally:
            gc.enable()
        assert young, "nothing was seen"
        assert young.isdisjoint(kinds)


async def test_an_answer_of_many_small_chunks_passes_whole() -> None:
    """It is longer than the HTTP client buffers, which pauses and resumes on the way."""
    words = "".join(f"{number} " for number in range(3_000))
    script = [Say(words, chunk_chars=3)]
    async with ChaosServer(script) as chaos, relaying(target_on(chaos, "chat")) as server:
        answer = await server.call("POST", PATHS["chat"], body=body_for("chat", stream=True))
        frames = [line[6:] for line in answer.body.split(b"\n") if line.startswith(b"data: {")]
        choices = [choice for frame in frames for choice in json.loads(frame)["choices"]]
        assert "".join(choice["delta"].get("content") or "" for choice in choices) == words
