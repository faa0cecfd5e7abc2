"""Let the second turn know the first."""

import asyncio

from holdfast import Agent


async def main() -> None:
    session = Agent("openai:gpt-5").session()
    await session.run("I am Ann.")
    print((await session.run("Who am I?")).output)


asyncio.run(main())
