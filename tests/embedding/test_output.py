"""Structured output: by the provider's schema mode or by a tool, checked, corrected once."""

from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import msgspec
import pytest
from pydantic import BaseModel, field_validator

from holdfast import Agent, OutputInvalid, Result, Target
from holdfast.embedding.output_types import output_type_of
from holdfast.events import AttemptSuperseded, RunEnded
from holdfast.messages import ModelRequest, UserMessage
from holdfast.models.adapters import adapter_of
from holdfast.targets import Wire
from holdfast.testing import Call, Drop, FakeClock, Say, ScriptedModel
from holdfast.values import OutputFormat


class Invoice(msgspec.Struct):
    number: int
    total: float
    note: str = ""


@dataclass
class City:
    name: str
    country: str


class Pet(TypedDict):
    kind: Literal["cat", "dog"]


class Point(BaseModel):
    x: int
    y: int

    @field_validator("x")
    @classmethod
    def is_even(cls, x: int) -> int:
        if x % 2:
            raise ValueError("x must be even")
        return x


class Yes(msgspec.Struct, tag=True):
    why: str


class No(msgspec.Struct, tag=True):
    code: int


async def run(kind: Any, *answers: str, wire: Wire = "chat") -> tuple[Result[Any], ScriptedModel]:
    model = ScriptedModel([Say(answer) for answer in answers], wire=wire)
    return await Agent(model).run("go", output_type=kind), model


@pytest.mark.parametrize(
    ("kind", "answer", "value"),
    [
        (Invoice, '{"number": 7, "total": 1.5}', Invoice(7, 1.5)),
        (City, '{"name": "Bern", "country": "CH"}', City("Bern", "CH")),
        (Pet, '{"kind": "cat"}', {"kind": "cat"}),
        (Point, '{"x": 2, "y": 3}', Point(x=2, y=3)),
        (Yes | No, '{"value": {"type": "No", "code": 4}}', No(4)),
        (City | Point, '{"value": {"x": 2, "y": 3}}', Point(x=2, y=3)),
        (int, '{"value": 7}', 7),
        (list[City], '{"value": [{"name": "Bern", "country": "CH"}]}', [City("Bern", "CH")]),
        (Point | None, '{"value": null}', None),
    ],
    ids=str,
)
async def test_the_answer_is_a_value_of_the_type(kind: Any, answer: str, value: object) -> None:
    result, model = await run(kind, answer)
    assert result.output == value
    assert model.requests[0]["response_format"]["type"] == "json_schema"


async def test_each_wire_asks_in_its_own_way() -> None:
    city = '{"name": "Bern", "country": "CH"}'
    _, chat = await run(City, city, wire="chat")
    asked = chat.requests[0]["response_format"]["json_schema"]
    assert asked["name"] == "City"
    assert asked["strict"]
    assert asked["schema"]["required"] == ["name", "country"]
    assert asked["schema"]["additionalProperties"] is False
    _, responses = await run(City, city, wire="responses")
    assert responses.requests[0]["text"]["format"]["schema"] == asked["schema"]
    model = ScriptedModel([Call("final_answer", name="Bern", country="CH")], wire="anthropic")
    result = await Agent(model).run("go", output_type=City)
    assert result.output == City("Bern", "CH")
    assert [tool["name"] for tool in model.requests[0]["tools"]] == ["final_answer"]
    assert model.requests[0]["tools"][0]["input_schema"] == asked["schema"]
    assert result.outcome == "completed"


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_by_a_tool_other_tools_still_run_first() -> None:
    model = ScriptedModel([Call("add", a=2, b=3), Call("final_answer", value=5)], wire="anthropic")
    assert (await Agent(model, tools=[add]).run("2 + 3?", output_type=int)).output == 5


def body(target: Target, output: OutputFormat, **rest: Any) -> dict[str, Any]:
    request = ModelRequest(messages=(UserMessage("hi"),), output=output, **rest)
    return msgspec.json.decode(adapter_of(target.wire).build(request, target, blobs={}).body)


def test_anthropic_itself_gets_a_closed_schema_as_its_output_format() -> None:
    target = Target(name="a", wire="anthropic", base_url="https://api.anthropic.com", model="m")
    wanted = output_type_of(City).format
    assert wanted is not None
    sent = body(target, wanted, reasoning_effort="low")
    assert sent["output_config"] == {
        "effort": "low",
        "format": {"type": "json_schema", "schema": wanted.schema},
    }
    assert "tools" not in sent
    schemas: list[dict[str, object]] = [{}, {"type": "object", "properties": {"x": {"type": "object"}}}]
    for open_schema in schemas:
        sent = body(target, OutputFormat(schema=open_schema))
        assert sent["tools"][0]["name"] == "final_answer"
        assert sent["tool_choice"] == {"type": "any"}


def test_an_endpoint_without_a_schema_mode_gets_a_tool() -> None:
    target = Target(name="d", wire="chat", base_url="https://api.deepseek.com", model="m")
    sent = body(target, OutputFormat(schema={"type": "object", "properties": {}}))
    assert sent["tools"][0]["function"]["name"] == "final_answer"
    assert "response_format" not in sent
    assert body(target, OutputFormat())["response_format"] == {"type": "json_object"}


async def test_an_answer_that_does_not_fit_is_corrected_once() -> None:
    result, model = await run(City, '{"name": "Bern"}', '{"name": "Bern", "country": "CH"}')
    assert result.output == City("Bern", "CH")
    *_, bad, told = model.requests[1]["messages"]
    assert bad["content"] == '{"name": "Bern"}'
    assert "'country' is a required property" in told["content"]
    assert len([event for event in result.events if isinstance(event, AttemptSuperseded)]) == 1


async def test_a_second_bad_answer_raises_with_its_text() -> None:
    with pytest.raises(OutputInvalid, match="doesn't match the output schema") as raised:
        await run(City, "Bern", "Bern, I said")
    assert raised.value.partial == "Bern, I said"


async def test_what_no_schema_can_say_is_checked_too() -> None:
    with pytest.raises(OutputInvalid, match="x must be even"):
        await run(Point, '{"x": 3, "y": 3}')


async def test_a_correction_survives_a_broken_stream() -> None:
    model = ScriptedModel([Say("no"), [Say('{"va'), Drop()], Say('{"value": 3}')])
    result = await Agent(model, clock=FakeClock()).run("go", output_type=int)
    assert result.output == 3
    assert isinstance(result.events[-1], RunEnded)


def test_a_type_with_defaults_is_not_strict() -> None:
    wanted = output_type_of(Invoice).format
    assert wanted is not None
    assert not wanted.strict
    assert wanted.schema["additionalProperties"] is False
