"""Print the answer while it comes, and the whole of it at the end, also if the stream breaks off."""

import asyncio

from holdfast import Agent


async def main() -> None:
    async with Agent("openai:gpt-5").stream("Count to two") as run:
        async for piece in run.text():
            print(piece, flush=True)
        print((await run.result()).output)


asyncio.run(main())
