"""Print the answer while it comes, and the whole of it at the end, also if the stream breaks off."""

import asyncio

from pydantic_ai import Agent, ModelAPIError


async def answer(agent: Agent) -> str:
    async with agent.run_stream("Count to two") as run:
        async for piece in run.stream_text(delta=True, debounce_by=None):
            print(piece, flush=True)
        return await run.get_output()


async def main() -> None:
    agent = Agent("openai:gpt-5")
    for tries_left in (2, 1, 0):
        try:
            print(await answer(agent))
            break
        except ModelAPIError:
            if not tries_left:
                raise


asyncio.run(main())
