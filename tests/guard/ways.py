"""The ways in which people ask a model through the packages, each a function that gives the answer's text."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Unpack

import httpx2
from anthropic import AsyncAnthropic
from anthropic.types import MessageParam
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam

from holdfast import guard
from holdfast.chaos import ChaosServer, ClosedBy

HI = "hi"
SOON_S = 0.2  # patience with a peer that will stay silent
RETRIED_S = 0.5  # the same, where the next answer has to come in time
LONG_S = 30.0  # patience with a peer that must not be cut; no test waits for its end


@dataclass(frozen=True, slots=True)
class Packages:
    """The packages, all on one guarded client."""

    openai: AsyncOpenAI
    anthropic: AsyncAnthropic


Way = Callable[[Packages], Awaitable[str]]


def client(**rules: Unpack[guard.Rules]) -> httpx2.AsyncClient:
    """A guarded client that knows no certificates: reading them takes longer than most tests."""
    return guard.client(httpx2.AsyncHTTPTransport(verify=False), **rules)


@asynccontextmanager
async def packages(
    chaos: ChaosServer, guarded: httpx2.AsyncClient, *, retries: int = 0
) -> AsyncGenerator[Packages]:
    async with guarded:
        yield Packages(
            AsyncOpenAI(base_url=chaos.base_url, api_key="k", http_client=guarded, max_retries=retries),
            AsyncAnthropic(base_url=chaos.url, api_key="k", http_client=guarded, max_retries=retries),
        )


async def caught(asking: Awaitable[str]) -> guard.GuardError:
    """The guard's error behind whatever the package raises."""
    try:
        answer = await asking
    except Exception as error:
        found = guard.cause_of(error)
        if found is None:
            raise
        return found
    raise AssertionError(f"an answer came: {answer!r}")


async def each(ways: Iterable[Way], check: Callable[[Way], Awaitable[None]]) -> None:
    """Try all ways at once: most of their time is waiting."""
    await asyncio.gather(*(check(way) for way in ways))


async def was_cut(chaos: ChaosServer, number: int = 1) -> bool:
    """Whether it was our side that closed the connection of a request."""
    return await chaos.seen.until_closed(number) is not ClosedBy.SERVER


async def responses(ask: Packages) -> str:
    stream = await ask.openai.responses.create(model="m", input=HI, stream=True)
    return "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])


async def chat(ask: Packages) -> str:
    stream = await ask.openai.chat.completions.create(model="m", messages=CHAT, stream=True)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])


async def messages(ask: Packages) -> str:
    async with ask.anthropic.messages.stream(model="m", max_tokens=100, messages=MESSAGES) as stream:
        return "".join([piece async for piece in stream.text_stream])


async def whole_responses(ask: Packages) -> str:
    return (await ask.openai.responses.create(model="m", input=HI)).output_text


async def whole_chat(ask: Packages) -> str:
    answer = await ask.openai.chat.completions.create(model="m", messages=CHAT)
    return answer.choices[0].message.content or ""


async def whole_messages(ask: Packages) -> str:
    answer = await ask.anthropic.messages.create(model="m", max_tokens=100, messages=MESSAGES)
    return "".join(block.text for block in answer.content if block.type == "text")


CHAT: list[ChatCompletionMessageParam] = [{"role": "user", "content": HI}]
MESSAGES: list[MessageParam] = [{"role": "user", "content": HI}]
STREAMED: tuple[Way, ...] = (responses, chat, messages)
WHOLE: tuple[Way, ...] = (whole_responses, whole_chat, whole_messages)
