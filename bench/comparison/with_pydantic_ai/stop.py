"""Stop a run whose model is still answering, and go on with the program."""

import asyncio

from pydantic_ai import Agent


async def main() -> None:
    async with Agent("openai:gpt-5").run_stream("Count to a million") as run:
        async for _ in run.stream_text(delta=True, debounce_by=None):
            break
    print("stopped", flush=True)
    await asyncio.to_thread(input)


asyncio.run(main())
