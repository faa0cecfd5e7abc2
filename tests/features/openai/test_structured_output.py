"""Structured output over HTTP, with the official client: response_format and text.format."""

from typing import Any

import openai
import pytest
from msgspec.structs import replace
from pydantic import BaseModel

from features.openai.official_client import client_of
from holdfast.chaos import CallTool, ChaosServer, Say
from serving import served, target_of
from tables import for_each_row

HI: Any = [{"role": "user", "content": "hi"}]
BERN = '{"name":"Bern","country":"CH"}'
FORMAT: Any = {
    "type": "json_schema",
    "json_schema": {
        "name": "City",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "country": {"type": "string"}},
            "required": ["name", "country"],
            "additionalProperties": False,
        },
    },
}


class City(BaseModel):
    name: str
    country: str


async def test_the_official_client_parses_the_answer_on_both_paths() -> None:
    async with (
        ChaosServer([Say(BERN)], after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        chat = await client.chat.completions.parse(model="holdfast", messages=HI, response_format=City)
        assert chat.choices[0].message.parsed == City(name="Bern", country="CH")
        response = await client.responses.parse(model="holdfast", input="hi", text_format=City)
        assert response.output_parsed == City(name="Bern", country="CH")
        assert response.text is not None
        assert response.text.format is not None
        assert response.text.format.type == "json_schema"
        again = await client.responses.retrieve(response.id)
        assert again.text == response.text
        sent = [request.body or {} for request in chaos.seen.requests]
    assert all("City" in str(body) and "country" in str(body) for body in sent)


async def test_a_stream_brings_the_json_whole_and_never_a_wrong_one() -> None:
    """P4: what a client was sent can't be taken back."""
    scripts = [[Say('{"name":', chunk_chars=2)], [Say(BERN, chunk_chars=3)]] * 2
    async with (
        ChaosServer(*scripts) as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        chunks = await client.chat.completions.create(
            model="holdfast", messages=HI, response_format=FORMAT, stream=True
        )
        texts = [chunk.choices[0].delta.content or "" async for chunk in chunks if chunk.choices]
        assert "".join(texts) == BERN
        text: Any = {"format": {"type": "json_schema", **FORMAT["json_schema"]}}
        events = await client.responses.create(model="holdfast", input="hi", text=text, stream=True)
        deltas = [event.delta async for event in events if event.type == "response.output_text.delta"]
        assert deltas == [BERN]


async def test_json_object_and_an_answer_that_never_fits() -> None:
    async with (
        ChaosServer(
            [Say('{"a":1}')],
            [
                Say("no"),
            ],
            [Say("still no")],
        ) as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        wanted: Any = {"type": "json_object"}
        good = await client.chat.completions.create(model="holdfast", messages=HI, response_format=wanted)
        assert good.choices[0].message.content == '{"a":1}'
        with pytest.raises(openai.APIStatusError) as refused:
            await client.chat.completions.create(model="holdfast", messages=HI, response_format=FORMAT)
        assert refused.value.code == "output_invalid"
        body = chaos.seen.request(1).body or {}
        assert "json_object" in str(body)


async def test_a_wire_without_a_schema_mode_answers_by_a_tool_that_no_client_sees() -> None:
    async with (
        ChaosServer([CallTool("final_answer", {"name": "Bern", "country": "CH"})]) as chaos,
        served(replace(target_of(chaos), wire="anthropic", base_url=chaos.url)) as server,
        client_of(server) as client,
    ):
        answer = await client.chat.completions.create(model="holdfast", messages=HI, response_format=FORMAT)
    assert answer.choices[0].message.content == BERN


@for_each_row(
    "wanted",
    [
        {"type": "xml"},
        {"type": "json_schema"},
        {"type": "json_schema", "json_schema": {"name": "x"}},
        {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nonsense"}}},
        {"type": "json_schema", "json_schema": {"name": "x", "schema": {"title": "x" * 70_000}}},
    ],
    ids=range(5),
)
async def test_a_bad_response_format_is_refused_and_leaves_nothing(wanted: Any) -> None:
    """P12: with a clear error, before any model is asked."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server, client_of(server) as client:
        with pytest.raises(openai.BadRequestError) as refused:
            await client.chat.completions.create(model="holdfast", messages=HI, response_format=wanted)
        assert "response_format" in str(refused.value)
        assert not chaos.seen.requests


@for_each_row(
    "schema",
    [{"$ref": "http://127.0.0.1:9/x"}, {"$ref": "#"}, {"type": "string", "pattern": "(a+)+$"}],
    ids=range(3),
)
async def test_a_schema_fetches_nothing_and_keeps_nobody_busy(schema: Any) -> None:
    """P10, P11: a client's schema is data."""
    async with (
        ChaosServer([Say('"' + "a" * 40 + '!"')], after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
    ):
        wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        answer = await server.call(
            "POST", "/v1/chat/completions", body={"messages": HI, "response_format": wanted}
        )
    assert answer.status in {200, 502}
