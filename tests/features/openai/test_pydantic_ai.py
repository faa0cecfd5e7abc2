"""Agents of pydantic-ai with this server as their model: our agent, and the relay on each protocol."""

from collections.abc import Callable
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, ModelHTTPError, NativeOutput
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from features.relay.relaying import anthropic_client, openai_client, relaying, target_on
from holdfast.chaos import CallTool, ChaosServer, Drop, Say, Status
from tables import for_each_row

Clients = tuple[AsyncOpenAI, AsyncAnthropic]
Make = Callable[[Clients, str], Model]


class Weather(BaseModel):
    city: str
    celsius: int


def chat(clients: Clients, model: str) -> Model:
    return OpenAIChatModel(model, provider=OpenAIProvider(openai_client=clients[0]))


def responses(clients: Clients, model: str) -> Model:
    return OpenAIResponsesModel(model, provider=OpenAIProvider(openai_client=clients[0]))


def messages(clients: Clients, model: str) -> Model:
    return AnthropicModel(model, provider=AnthropicProvider(anthropic_client=clients[1]))


WAYS: dict[str, tuple[Make, str, Any]] = {
    "the agent, chat": (chat, "holdfast", "chat"),
    "the agent, responses": (responses, "holdfast", "chat"),
    "the relay, chat": (chat, "gpt-5.2", "chat"),
    "the relay, responses": (responses, "gpt-5.2", "responses"),
    "the relay, messages": (messages, "claude-sonnet-4-6", "anthropic"),
}
MODELS = {"gpt-*": ["main"], "claude-*": ["main"]}
WEATHER = {"city": "Bern", "celsius": 21}


@for_each_row("way", WAYS)
async def test_an_agent_talks_uses_its_tools_and_gets_its_object(way: str) -> None:
    """Two turns with tools, a stream, an object in two ways and an error, and one attempt is lost."""
    make, name, wire = WAYS[way]
    scripts: list[Any] = [
        [Drop()],
        [CallTool("weather", {"city": "Bern"})],
        [Say("21 degrees")],
        [CallTool("weather", {"city": "Thun"})],
        [Say("19 degrees")],
        [Say("one "), Say("two")],
        [CallTool("final_result", WEATHER)],
        [Say('{"city":"Bern","celsius":21}')],
        [Status(400, message="not acceptable")],
    ]
    asked: list[str] = []

    def weather(city: str) -> str:
        """Say how warm it is."""
        asked.append(city)
        return city

    async with (
        ChaosServer(*scripts) as chaos,
        relaying(target_on(chaos, wire), models=MODELS) as server,
        openai_client(server) as of_openai,
        anthropic_client(server) as of_anthropic,
    ):
        model = make((of_openai, of_anthropic), name)
        agent = Agent(model, tools=[weather])
        first = await agent.run("Bern?")
        second = await agent.run("Thun?", message_history=first.all_messages())
        async with Agent(model).run_stream("count") as streamed:
            counted = await streamed.get_output()
        by_tool = await Agent(model, output_type=Weather).run("weather")
        by_schema = await Agent(model, output_type=NativeOutput(Weather)).run("weather")
        with pytest.raises(ModelHTTPError) as refused:
            await Agent(model).run("no")
    assert (first.output, second.output, counted) == ("21 degrees", "19 degrees", "one two")
    assert asked == ["Bern", "Thun"]
    assert by_tool.output == by_schema.output == Weather.model_validate(WEATHER)
    assert refused.value.status_code == 400
    assert len(chaos.seen.requests) == len(scripts)
