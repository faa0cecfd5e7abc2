"""The instructor package, in its modes with a tool and with a JSON schema."""

from collections.abc import Sequence
from typing import Any

import instructor
import openai
from pydantic import BaseModel
from reporting import Asking, MissingCapability, Told, run

MODES = {"tools": instructor.Mode.TOOLS, "json": instructor.Mode.JSON_SCHEMA}


class Weather(BaseModel):
    city: str
    celsius: int


def client_for(asking: Asking) -> Any:
    own = openai.AsyncOpenAI(
        base_url=f"{asking.url}/v1",
        api_key=asking.key,
        max_retries=asking.retries,
        timeout=asking.timeout_s,
    )
    return instructor.from_openai(own, mode=MODES[asking.surface])


def user(prompt: str) -> Any:
    return [{"role": "user", "content": prompt}]


class Instructor:
    async def ask(self, asking: Asking, prompt: str) -> Told:
        got = await client_for(asking).chat.completions.create(
            model=asking.model, messages=user(prompt), response_model=None
        )
        return Told(got.choices[0].message.content, got.usage.total_tokens > 0)

    async def stream(self, asking: Asking, prompt: str) -> Sequence[str]:
        chunks = await client_for(asking).chat.completions.create(
            model=asking.model, messages=user(prompt), response_model=None, stream=True
        )
        return [chunk.choices[0].delta.content async for chunk in chunks if chunk.choices]

    async def converse(self, asking: Asking, prompts: Sequence[str]) -> tuple[list[str], list[str]]:
        del asking, prompts
        raise MissingCapability

    async def structured(self, asking: Asking, prompt: str) -> dict[str, Any]:
        client = client_for(asking)
        whole = await client.chat.completions.create(
            model=asking.model, messages=user(prompt), response_model=Weather, max_retries=0
        )
        partial = client.chat.completions.create_partial(
            model=asking.model, messages=user(prompt), response_model=Weather, max_retries=0
        )
        last = [piece async for piece in partial][-1].model_dump()
        return last if last == whole.model_dump() else {"whole": whole.model_dump(), "streamed": last}


if __name__ == "__main__":
    run(Instructor())
