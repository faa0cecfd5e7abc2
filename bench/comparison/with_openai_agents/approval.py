"""Ask before a tool runs: small payments are approved, large ones are not."""

import asyncio
import json

from agents import Agent, Runner, function_tool


@function_tool(needs_approval=True)
async def pay(cents: int) -> str:
    """Pay somebody."""
    return f"paid {cents} cents"


async def main() -> None:
    agent = Agent("main", model="gpt-5", tools=[pay])
    result = await Runner.run(agent, "Pay the bills")
    while result.interruptions:
        state = result.to_state()
        for call in result.interruptions:
            if json.loads(call.arguments)["cents"] < 100:
                state.approve(call)
            else:
                state.reject(call, rejection_message="Too much.")
        result = await Runner.run(agent, state)
    print(result.final_output)


asyncio.run(main())
