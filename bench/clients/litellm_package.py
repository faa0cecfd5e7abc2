"""The litellm package as a library, with its providers for OpenAI and Anthropic."""

import json
from collections.abc import Sequence
from typing import Any

import litellm
from pydantic import BaseModel
from reporting import FUNCTION, Asking, MissingCapability, Told, run, user, weather

litellm.telemetry = False


class Weather(BaseModel):
    city: str
    celsius: int


def options(asking: Asking) -> dict[str, Any]:
    anthropic = asking.surface == "messages"
    if anthropic and asking.retries:
        raise MissingCapability  # it says that it retried, but asks once, with any server
    return {
        "model": f"{'anthropic' if anthropic else 'openai'}/{asking.model}",
        "api_base": asking.url if anthropic else f"{asking.url}/v1",
        "api_key": asking.key,
        "timeout": asking.timeout_s,
        "max_retries": asking.retries,
    }


class LiteLlm:
    async def ask(self, asking: Asking, prompt: str) -> Told:
        got = await litellm.acompletion(messages=[user(prompt)], **options(asking))
        return Told(got.choices[0].message.content, got.usage.total_tokens > 0)

    async def stream(self, asking: Asking, prompt: str) -> Sequence[str]:
        chunks = await litellm.acompletion(messages=[user(prompt)], stream=True, **options(asking))
        return [chunk.choices[0].delta.content async for chunk in chunks if chunk.choices]

    async def converse(self, asking: Asking, prompts: Sequence[str]) -> tuple[list[str], list[str]]:
        cities, texts, messages = [], [], []
        for prompt in prompts:
            messages.append(user(prompt))
            while True:
                got = await litellm.acompletion(
                    messages=messages, tools=[{"type": "function", "function": FUNCTION}], **options(asking)
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
        got = await litellm.acompletion(messages=[user(prompt)], response_format=Weather, **options(asking))
        return json.loads(got.choices[0].message.content)


if __name__ == "__main__":
    run(LiteLlm())
