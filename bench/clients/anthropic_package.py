"""The anthropic package for Python."""

from collections.abc import Sequence
from typing import Any

import anthropic
from pydantic import BaseModel
from reporting import CITY, Asking, Told, run, user, weather


class Weather(BaseModel):
    city: str
    celsius: int


TOOL: Any = {"name": "weather", "description": "How warm it is in a city.", "input_schema": CITY}


def client_for(asking: Asking) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(
        base_url=asking.url, api_key=asking.key, max_retries=asking.retries, timeout=asking.timeout_s
    )


def text_of(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


class Messages:
    async def ask(self, asking: Asking, prompt: str) -> Told:
        async with client_for(asking) as client:
            got = await client.messages.create(model=asking.model, max_tokens=100, messages=[user(prompt)])
        return Told(text_of(got), got.usage.output_tokens > 0)

    async def stream(self, asking: Asking, prompt: str) -> Sequence[str]:
        async with (
            client_for(asking) as client,
            client.messages.stream(model=asking.model, max_tokens=100, messages=[user(prompt)]) as events,
        ):
            pieces = [piece async for piece in events.text_stream]
            await events.get_final_message()
        return pieces

    async def converse(self, asking: Asking, prompts: Sequence[str]) -> tuple[list[str], list[str]]:
        cities, texts, messages = [], [], []
        async with client_for(asking) as client:
            for prompt in prompts:
                messages.append(user(prompt))
                while True:
                    got = await client.messages.create(
                        model=asking.model, max_tokens=100, messages=messages, tools=[TOOL]
                    )
                    messages.append({"role": "assistant", "content": got.content})
                    calls = [block for block in got.content if block.type == "tool_use"]
                    if not calls:
                        break
                    cities += [call.input["city"] for call in calls]
                    results = [
                        {
                            "type": "tool_result",
                            "tool_use_id": call.id,
                            "content": weather(call.input["city"]),
                        }
                        for call in calls
                    ]
                    messages.append({"role": "user", "content": results})
                texts.append(text_of(got))
        return cities, texts

    async def structured(self, asking: Asking, prompt: str) -> dict[str, Any]:
        async with client_for(asking) as client:
            got = await client.messages.parse(
                model=asking.model, max_tokens=100, messages=[user(prompt)], output_format=Weather
            )
        return got.parsed_output.model_dump()


if __name__ == "__main__":
    run(Messages())
