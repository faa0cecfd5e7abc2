"""Survive kill -9: start the program again, and the run goes on without repeating its tool call."""

import asyncio
from pathlib import Path
from time import time_ns

from agents import Agent, Runner, SQLiteSession, function_tool


@function_tool
async def note(text: str) -> str:
    """Write something down."""
    await asyncio.to_thread(Path(f"{time_ns()}.note").write_text, text)
    return "noted"


async def main() -> None:
    agent = Agent("main", model="gpt-5", tools=[note])
    session = SQLiteSession("main", "runs.db")
    left = await session.get_items()
    print((await Runner.run(agent, [] if left else "Note it", session=session)).final_output)


asyncio.run(main())
