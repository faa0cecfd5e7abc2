"""Run fifty agents at once in one program."""

import asyncio

from holdfast import Agent


async def main() -> None:
    async with Agent("openai:gpt-5") as agent:
        results = await asyncio.gather(*(agent.run(f"Say hello {n}") for n in range(50)))
    print(sum(result.output == "hello" for result in results))


asyncio.run(main())
