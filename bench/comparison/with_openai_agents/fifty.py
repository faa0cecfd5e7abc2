"""Run fifty agents at once in one program."""

import asyncio

from agents import Agent, Runner


async def main() -> None:
    agent = Agent("main", model="gpt-5")
    results = await asyncio.gather(*(Runner.run(agent, f"Say hello {n}") for n in range(50)))
    print(sum(result.final_output == "hello" for result in results))


asyncio.run(main())
