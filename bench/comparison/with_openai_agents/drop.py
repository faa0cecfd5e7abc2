"""Print the answer while it comes, and the whole of it at the end, also if the stream breaks off."""

import asyncio

import httpx2
from agents import Agent, Runner
from openai import APIError
from openai.types.responses import ResponseTextDeltaEvent


async def answer(agent: Agent) -> str:
    run = Runner.run_streamed(agent, "Count to two")
    async for event in run.stream_events():
        if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent):
            print(event.data.delta, flush=True)
    return run.final_output


async def main() -> None:
    agent = Agent("main", model="gpt-5")
    for tries_left in (2, 1, 0):
        try:
            print(await answer(agent))
            break
        except (APIError, httpx2.TransportError):
            if not tries_left:
                raise


asyncio.run(main())
