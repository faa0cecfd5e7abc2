"""Survive kill -9: start the program again, and the run goes on without repeating its tool call."""

import asyncio
from pathlib import Path
from time import time_ns

from holdfast import Agent


async def note(text: str) -> str:
    """Write something down."""
    await asyncio.to_thread(Path(f"{time_ns()}.note").write_text, text)
    return "noted"


async def main() -> None:
    async with Agent("openai:gpt-5", tools=[note], store="runs.db") as agent:
        left = await agent.open_runs()
        run = left[0] if left else await agent.start("Note it")
        print((await run.result()).output)


asyncio.run(main())
