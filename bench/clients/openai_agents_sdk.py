"""The OpenAI Agents SDK."""

from collections.abc import Sequence
from typing import Any

import openai
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from pydantic import BaseModel
from reporting import Asking, Told, run, weather

set_tracing_disabled(True)


class Weather(BaseModel):
    city: str
    celsius: int


def agent_for(asking: Asking, **fields: Any) -> Agent:
    client = openai.AsyncOpenAI(
        base_url=f"{asking.url}/v1",
        api_key=asking.key,
        max_retries=asking.retries,
        timeout=asking.timeout_s,
    )
    model = OpenAIChatCompletionsModel if asking.surface == "chat" else OpenAIResponsesModel
    return Agent(name="helper", model=model(asking.model, client), **fields)


class AgentsSdk:
    async def ask(self, asking: Asking, prompt: str) -> Told:
        got = await Runner.run(agent_for(asking), prompt)
        return Told(got.final_output, got.context_wrapper.usage.total_tokens > 0)

    async def stream(self, asking: Asking, prompt: str) -> Sequence[str]:
        got = Runner.run_streamed(agent_for(asking), prompt)
        return [
            event.data.delta
            async for event in got.stream_events()
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
        ]

    async def converse(self, asking: Asking, prompts: Sequence[str]) -> tuple[list[str], list[str]]:
        cities: list[str] = []

        def how_warm(city: str) -> str:
            """Say how warm it is in a city."""
            cities.append(city)
            return weather(city)

        agent = agent_for(asking, tools=[function_tool(how_warm, name_override="weather")])
        texts, items = [], []
        for prompt in prompts:
            got = await Runner.run(agent, [*items, {"role": "user", "content": prompt}])
            items = got.to_input_list()
            texts.append(got.final_output)
        return cities, texts

    async def structured(self, asking: Asking, prompt: str) -> dict[str, Any]:
        got = await Runner.run(agent_for(asking, output_type=Weather), prompt)
        return got.final_output.model_dump()


if __name__ == "__main__":
    run(AgentsSdk())
