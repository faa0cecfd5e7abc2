"""Agents of pydantic-ai on a guarded client: runs recover from silence, and a stream that stops says why."""

import asyncio
from collections.abc import Callable

from httpx2 import AsyncClient
from pydantic_ai import Agent
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from guard.ways import RETRIED_S, SOON_S, caught, client, was_cut
from holdfast import guard
from holdfast.chaos import CallTool, ChaosServer, EndOfBody, Hang, Say, Script

Make = Callable[[ChaosServer, AsyncClient], Model]


def chat(chaos: ChaosServer, client: AsyncClient) -> Model:
    provider = OpenAIProvider(base_url=chaos.base_url, api_key="k", http_client=client)
    return OpenAIChatModel("m", provider=provider)


def responses(chaos: ChaosServer, client: AsyncClient) -> Model:
    provider = OpenAIProvider(base_url=chaos.base_url, api_key="k", http_client=client)
    return OpenAIResponsesModel("m", provider=provider)


def messages(chaos: ChaosServer, client: AsyncClient) -> Model:
    provider = AnthropicProvider(base_url=chaos.url, api_key="k", http_client=client)
    return AnthropicModel("m", provider=provider)


MODELS: tuple[Make, ...] = (chat, responses, messages)


def dice() -> str:
    """Throw the dice."""
    return "6"


async def _streamed(model: Model) -> str:
    async with Agent(model).run_stream("hi") as result:
        return await result.get_output()


async def test_a_run_recovers_from_silence_before_the_first_byte() -> None:
    async def recovers(make: Make) -> None:
        guarded = client(unstreamed_s=RETRIED_S)
        async with ChaosServer([Hang()], [CallTool("dice", {})], [Say("six")]) as chaos, guarded:
            agent = Agent(make(chaos, guarded))
            agent.tool_plain(dice)
            assert (await agent.run("throw")).output == "six"
            assert chaos.seen.requests_seen == 3
            assert await was_cut(chaos)

    await asyncio.gather(*map(recovers, MODELS))


async def test_a_streamed_run_recovers_from_silence_before_the_first_event() -> None:
    async def recovers(make: Make) -> None:
        guarded = client(first_event_s=RETRIED_S)
        async with ChaosServer([Hang()], [Say("hello")]) as chaos, guarded:
            assert await _streamed(make(chaos, guarded)) == "hello"
            assert await was_cut(chaos)

    await asyncio.gather(*map(recovers, MODELS))


async def test_a_streamed_run_that_stops_in_the_middle_says_why() -> None:
    async def ended(make: Make, script: Script, kind: type[guard.GuardError]) -> None:
        guarded = client(first_progress_s=SOON_S, gap_s=SOON_S)
        async with ChaosServer(script) as chaos, guarded:
            assert isinstance(await caught(_streamed(make(chaos, guarded))), kind)

    await asyncio.gather(
        *(ended(make, [Say("hel"), Hang()], guard.Stalled) for make in MODELS),
        *(ended(make, [Say("hel"), EndOfBody()], guard.Dropped) for make in MODELS),
    )
