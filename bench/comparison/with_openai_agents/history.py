"""Let the second turn know the first."""

import asyncio

from agents import Agent, Runner, SQLiteSession


async def main() -> None:
    agent = Agent("main", model="gpt-5")
    session = SQLiteSession("main")
    await Runner.run(agent, "I am Ann.", session=session)
    print((await Runner.run(agent, "Who am I?", session=session)).final_output)


asyncio.run(main())
