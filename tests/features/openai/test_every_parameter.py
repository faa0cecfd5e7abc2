"""Each parameter of the official packages is honoured, harmless or refused by name; none is just dropped."""

import inspect
from collections.abc import Callable
from typing import Any

from anthropic.resources.beta.messages import Messages as BetaMessages
from anthropic.resources.messages import Messages
from msgspec.structs import replace
from openai.resources.chat import Completions
from openai.resources.responses import Responses

from features.openai.official_client import client_of
from features.relay.relaying import body_for, relaying, target_on
from holdfast.chaos import ChaosServer, Say
from holdfast.features.openai.parameters import CHAT, RESPONSES, Parameters
from holdfast.features.relay.translation.requests import DROPPED, TRANSLATED
from holdfast.targets import SAMPLING, Wire
from serving import served, target_of
from tables import for_each_row

HI: Any = [{"role": "user", "content": "hi"}]
OF_PACKAGE = frozenset(
    {"self", "extra_headers", "extra_query", "extra_body", "timeout", "betas"}
)  # not in the body
CHAT_PATH, RESPONSES_PATH = "/v1/chat/completions", "/v1/responses"


def parameters_of(create: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(create).parameters) - OF_PACKAGE


@for_each_row(
    ("create", "known"),
    [(Completions.create, CHAT), (Responses.create, RESPONSES)],
    ids=["chat", "responses"],
)
def test_the_agent_routes_know_every_parameter_of_the_openai_package(
    create: Callable[..., Any], known: Parameters
) -> None:
    """A new version of the package may bring one: decide what becomes of it."""
    assert parameters_of(create) - known.known == set()
    assert known.honoured & known.harmless == set()
    assert (known.honoured | known.harmless) & set(known.refused) == set()


REFUSED: list[tuple[str, dict[str, Any]]] = [
    (CHAT_PATH, {"audio": {"voice": "alloy", "format": "wav"}}),
    (CHAT_PATH, {"functions": [{"name": "f", "parameters": {}}]}),
    (CHAT_PATH, {"function_call": {"name": "f"}}),
    (CHAT_PATH, {"modalities": ["text", "audio"]}),
    (CHAT_PATH, {"moderation": {"model": "omni-moderation-latest"}}),
    (CHAT_PATH, {"web_search_options": {}}),
    (CHAT_PATH, {"n": 2}),
    (CHAT_PATH, {"logprobs": True}),
    (RESPONSES_PATH, {"image": {"context_compression": "enabled"}}),
    (RESPONSES_PATH, {"max_tool_calls": 3}),
    (RESPONSES_PATH, {"moderation": {"model": "omni-moderation-latest"}}),
    (RESPONSES_PATH, {"prompt": {"id": "pmpt_1"}}),
    (RESPONSES_PATH, {"include": ["message.output_text.logprobs"]}),
    (RESPONSES_PATH, {"top_logprobs": 5}),
]


async def test_what_an_agent_cant_honour_is_a_400_that_names_the_field() -> None:
    """P12: and nothing is left behind."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        for path, fields in REFUSED:
            said = {"messages": HI} if path == CHAT_PATH else {"input": "hi"}
            answer = await server.call("POST", path, body=said | fields)
            assert (answer.status, answer.code) == (400, "unsupported_parameter"), answer.body
            assert answer.json["error"]["param"] in fields, answer.body
        assert (await server.get("/v1/runs"))[1]["data"] == []
    named = {name for _, fields in REFUSED for name in fields}
    assert named >= set(CHAT.refused) | set(RESPONSES.refused), "each refusal has its example here"


async def test_what_asks_for_nothing_is_accepted_and_what_nobody_knows_is_named() -> None:
    """Many clients send every field with its default, and some send fields of their own."""
    usual = {name: values[-1] for name, values in CHAT.refused.items() if values}
    usual |= {"n": 1, "logprobs": False, "verbosity": "medium", "parallel_tool_calls": True, "logit_bias": {}}
    harmless = dict.fromkeys(CHAT.harmless, None) | {"service_tier": "flex", "user": "me", "store": True}
    async with ChaosServer([Say("ok")], after_last="repeat") as chaos, served(target_of(chaos)) as server:
        body = {"messages": HI, "chat_id": "own", "naïve": 1} | usual | harmless
        answer = await server.call("POST", CHAT_PATH, body=body)
        assert answer.status == 200, answer.body
        assert answer.headers["X-Holdfast-Ignored"] == "chat_id"
        body = {"input": "hi", "include": ["reasoning.encrypted_content"], "truncation": "auto"}
        answer = await server.call("POST", RESPONSES_PATH, body=body)
        assert (answer.status, "X-Holdfast-Ignored" in answer.headers) == (200, False)


WISHES: dict[Wire, dict[str, Any]] = {
    "chat": {"parallel_tool_calls": False, "verbosity": "low", "logit_bias": {"50256": -100}},
    "responses": {"parallel_tool_calls": False, "text": {"verbosity": "low"}},
    "anthropic": {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
}


@for_each_row("wire", list(WISHES))
async def test_parallel_calls_verbosity_and_bias_reach_a_provider_that_knows_them(wire: Wire) -> None:
    asked: dict[str, Any] = {"parallel_tool_calls": False}
    asked |= {"verbosity": "low"} if wire != "anthropic" else {}
    asked |= {"logit_bias": {"50256": -100}} if wire == "chat" else {}
    tool: Any = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
    async with (
        ChaosServer([Say("ok")], after_last="repeat") as chaos,
        served(replace(target_of(chaos), wire=wire)) as server,
        client_of(server) as client,
    ):
        await client.chat.completions.create(model="holdfast", messages=HI, tools=[tool], **asked)
        sent: Any = chaos.seen.requests[0].body
        assert {name: sent.get(name) for name in WISHES[wire]} == WISHES[wire]
        told = await client.responses.create(model="holdfast", input="hi", parallel_tool_calls=False)
        assert told.parallel_tool_calls is False
        if wire != "chat":
            answer = await server.call("POST", CHAT_PATH, body={"messages": HI, "logit_bias": {"1": 5}})
            assert (answer.status, answer.json["error"]["param"]) == (400, "logit_bias")


CREATES: list[tuple[Wire, Callable[..., Any]]] = [
    ("chat", Completions.create),
    ("responses", Responses.create),
    ("anthropic", Messages.create),
    ("anthropic", BetaMessages.create),
]
SAMPLES: dict[str, Any] = {
    "temperature": 0.5,
    "top_p": 0.5,
    "max_tokens": 50,
    "seed": 5,
    "stream": False,
    "stop": "x",
    "stop_sequences": ["x"],
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "top_k": 5,
    "top_logprobs": 5,
    "max_tool_calls": 5,
}


@for_each_row(("wire", "create"), CREATES, ids=["chat", "responses", "messages", "beta"])
async def test_the_relay_passes_every_parameter_on_translates_it_or_refuses_it_by_name(
    wire: Wire, create: Callable[..., Any]
) -> None:
    other: Wire = "chat" if wire != "chat" else "anthropic"
    handled = TRANSLATED[wire] | DROPPED[wire]
    sampled = {own: SAMPLING[other].get(option) for option, own in SAMPLING[wire].items()}
    path = {"chat": CHAT_PATH, "responses": RESPONSES_PATH, "anthropic": "/v1/messages"}[wire]
    async with (
        ChaosServer([Say("ok")], after_last="repeat") as chaos,
        relaying(target_on(chaos, wire, name="same"), target_on(chaos, other, name="other")) as server,
    ):
        for name in sorted(parameters_of(create) - handled):
            value = SAMPLES.get(name, {"some": "thing"})
            answer = await server.call("POST", path, body=body_for(wire, model="other") | {name: value})
            if there := sampled.get(name):
                translated: Any = chaos.seen.requests[-1].body
                assert translated[there] in (value, [value])
            else:
                assert answer.status == 400, f"{name} vanishes on the way to another wire"
                assert answer.json["error"]["param"] == name, answer.body
            seen = len(chaos.seen.requests)
            answer = await server.call("POST", path, body=body_for(wire, model="same") | {name: value})
            sent: Any = chaos.seen.requests[seen].body
            assert sent[name] == value


FUNCTION: Any = {"name": "f", "description": "d", "parameters": {"type": "object"}}
ONE_CALL: list[tuple[Wire, Wire, dict[str, Any], dict[str, Any]]] = [
    (
        "chat",
        "anthropic",
        {"parallel_tool_calls": False, "tools": [{"type": "function", "function": FUNCTION}]},
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    ),
    (
        "anthropic",
        "chat",
        {
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
            "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
        },
        {"parallel_tool_calls": False},
    ),
    (
        "responses",
        "chat",
        {"parallel_tool_calls": False, "tools": [{"type": "function", **FUNCTION}]},
        {"parallel_tool_calls": False},
    ),
]


@for_each_row(("wire", "other", "fields", "told"), ONE_CALL)
async def test_the_relay_translates_that_only_one_tool_may_be_called_at_a_time(
    wire: Wire, other: Wire, fields: dict[str, Any], told: dict[str, Any]
) -> None:
    path = {"chat": CHAT_PATH, "responses": RESPONSES_PATH, "anthropic": "/v1/messages"}[wire]
    async with (
        ChaosServer([Say("ok")]) as chaos,
        relaying(target_on(chaos, other)) as server,
    ):
        answer = await server.call("POST", path, body=body_for(wire) | fields)
        assert answer.status == 200, answer.body
        sent: Any = chaos.seen.requests[0].body
        assert {name: sent.get(name) for name in told} == told
