"""The openai package for Python."""

import json
from collections.abc import Sequence
from typing import Any

import openai
from pydantic import BaseModel
from reporting import FUNCTION, Asking, Told, run, user, weather


class Weather(BaseModel):
    city: str
    celsius: int


CHAT_TOOL: Any = {"type": "function", "function": FUNCTION}
FLAT_TOOL: Any = {"type": "function", **FUNCTION}


def client_for(asking: Asking) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        base_url=f"{asking.url}/v1",
        api_key=asking.key,
        max_retries=asking.retries,
        timeout=asking.timeout_s,
    )


class Chat:
    async def ask(self, asking: Asking, prompt: str) -> Told:
        async with client_for(asking) as client:
            got = await client.chat.completions.create(model=asking.model, messages=[user(prompt)])
        return Told(got.choices[0].message.content, bool(got.usage and got.usage.total_tokens))

    async def stream(self, asking: Asking, prompt: str) -> Sequence[str]:
        async with client_for(asking) as client:
            chunks = await client.chat.completions.create(
                model=asking.model, messages=[user(prompt)], stream=True
            )
            return [chunk.choices[0].delta.content async for chunk in chunks if chunk.choices]

    async def converse(self, asking: Asking, prompts: Sequence[str]) -> tuple[list[str], list[str]]:
        cities, texts, messages = [], [], []
        async with client_for(asking) as client:
            for prompt in prompts:
                messages.append(user(prompt))
                while True:
                    got = await client.chat.completions.create(
                        model=asking.model, messages=messages, tools=[CHAT_TOOL]
                    )
                    message = got.choices[0].message
                    messages.append(message)
                    if not message.tool_calls:
                        break
                    for call in message.tool_calls:
                        city = json.loads(call.function.arguments)["city"]
                        cities.append(city)
                        messages.append({"role": "tool", "tool_call_id": call.id, "content": weather(city)})
                texts.append(message.content)
        return cities, texts

    async def structured(self, asking: Asking, prompt: str) -> dict[str, Any]:
        async with client_for(asking) as client:
            got = await client.chat.completions.parse(
                model=asking.model, messages=[user(prompt)], response_format=Weather
            )
        return got.choices[0].message.parsed.model_dump()


class Responses:
    async def ask(self, asking: Asking, prompt: str) -> Told:
        async with client_for(asking) as client:
            got = await client.responses.create(model=asking.model, input=prompt)
        return Told(got.output_text, bool(got.usage and got.usage.total_tokens))

    async def stream(self, asking: Asking, prompt: str) -> Sequence[str]:
        async with (
            client_for(asking) as client,
            client.responses.stream(model=asking.model, input=prompt) as events,
        ):
            pieces = [event.delta async for event in events if event.type == "response.output_text.delta"]
            await events.get_final_response()
        return pieces

    async def converse(self, asking: Asking, prompts: Sequence[str]) -> tuple[list[str], list[str]]:
        cities, texts, items = [], [], []
        async with client_for(asking) as client:
            for prompt in prompts:
                items.append(user(prompt))
                while True:
                    got = await client.responses.create(model=asking.model, input=items, tools=[FLAT_TOOL])
                    items += got.output
                    calls = [item for item in got.output if item.type == "function_call"]
                    if not calls:
                        break
                    for call in calls:
                        city = json.loads(call.arguments)["city"]
                        cities.append(city)
                        items.append(
                            {"type": "function_call_output", "call_id": call.call_id, "output": weather(city)}
                        )
                texts.append(got.output_text)
        return cities, texts

    async def structured(self, asking: Asking, prompt: str) -> dict[str, Any]:
        async with client_for(asking) as client:
            got = await client.responses.parse(model=asking.model, input=prompt, text_format=Weather)
        return got.output_parsed.model_dump()


class Both:
    """The surface of the scene decides."""

    def __getattr__(self, name: str) -> Any:
        def do(asking: Asking, *given: Any) -> Any:
            return getattr(Chat() if asking.surface == "chat" else Responses(), name)(asking, *given)

        return do


if __name__ == "__main__":
    run(Both())
