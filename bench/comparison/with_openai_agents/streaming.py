"""Print the answer while it comes, and the whole of it at the end."""

import asyncio

from agents import Agent, Runner
from openai.types.responses import ResponseTextDeltaEvent


async def main() -> None:
    run = Runner.run_streamed(Agent("main", model="gpt-5"), "Count to two")
    async for event in run.stream_events():
        if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent):
            print(event.data.delta, flush=True)
    print(run.final_output)


asyncio.run(main())
