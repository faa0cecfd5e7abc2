"""Print the answer while it comes, and the whole of it at the end."""

import asyncio

from pydantic_ai import Agent


async def main() -> None:
    async with Agent("openai:gpt-5").run_stream("Count to two") as run:
        async for piece in run.stream_text(delta=True, debounce_by=None):
            print(piece, flush=True)
        print(await run.get_output())


asyncio.run(main())
