"""Stop a run whose model is still answering, and go on with the program."""

import asyncio

from holdfast import Agent


async def main() -> None:
    async with Agent("openai:gpt-5") as agent:
        run = await agent.start("Count to a million")
        async for _ in run.text():
            await run.stop()
        print("stopped", flush=True)
        await asyncio.to_thread(input)


asyncio.run(main())
