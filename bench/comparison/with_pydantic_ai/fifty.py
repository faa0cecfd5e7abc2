"""Run fifty agents at once in one program."""

import asyncio

from pydantic_ai import Agent


async def main() -> None:
    agent = Agent("openai:gpt-5")
    results = await asyncio.gather(*(agent.run(f"Say hello {n}") for n in range(50)))
    print(sum(result.output == "hello" for result in results))


asyncio.run(main())
