"""The pydantic-ai package, with its models for each protocol."""

from collections.abc import Sequence
from typing import Any

import anthropic
import openai
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from reporting import Asking, Told, run, weather


class Weather(BaseModel):
    city: str
    celsius: int


def model_for(asking: Asking) -> Any:
    patience: Any = {"max_retries": asking.retries, "timeout": asking.timeout_s}
    if asking.surface == "messages":
        client = anthropic.AsyncAnthropic(base_url=asking.url, api_key=asking.key, **patience)
        return AnthropicModel(asking.model, provider=AnthropicProvider(anthropic_client=client))
    own = openai.AsyncOpenAI(base_url=f"{asking.url}/v1", api_key=asking.key, **patience)
    kind = OpenAIChatModel if asking.surface == "chat" else OpenAIResponsesModel
    return kind(asking.model, provider=OpenAIProvider(openai_client=own))


class PydanticAi:
    async def ask(self, asking: Asking, prompt: str) -> Told:
        got = await Agent(model_for(asking)).run(prompt)
        return Told(got.output, got.usage.output_tokens > 0)

    async def stream(self, asking: Asking, prompt: str) -> Sequence[str]:
        async with Agent(model_for(asking)).run_stream(prompt) as got:
            return [piece async for piece in got.stream_text(delta=True, debounce_by=None)]

    async def converse(self, asking: Asking, prompts: Sequence[str]) -> tuple[list[str], list[str]]:
        cities: list[str] = []
        agent = Agent(model_for(asking))

        @agent.tool_plain(name="weather")
        def how_warm(city: str) -> str:
            """Say how warm it is in a city."""
            cities.append(city)
            return weather(city)

        texts, history = [], None
        for prompt in prompts:
            got = await agent.run(prompt, message_history=history)
            history = got.all_messages()
            texts.append(got.output)
        return cities, texts

    async def structured(self, asking: Asking, prompt: str) -> dict[str, Any]:
        by_tool = await Agent(model_for(asking), output_type=Weather).run(prompt)
        native = await Agent(model_for(asking), output_type=NativeOutput(Weather)).run(prompt)
        if by_tool.output != native.output:
            return {"by a tool": by_tool.output.model_dump(), "native": native.output.model_dump()}
        return native.output.model_dump()


if __name__ == "__main__":
    run(PydanticAi())
