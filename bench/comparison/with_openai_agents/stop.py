"""Stop a run whose model is still answering, and go on with the program."""

import asyncio

from agents import Agent, Runner


async def main() -> None:
    run = Runner.run_streamed(Agent("main", model="gpt-5"), "Count to a million")
    async for event in run.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            run.cancel()
    print("stopped", flush=True)
    await asyncio.to_thread(input)


asyncio.run(main())
