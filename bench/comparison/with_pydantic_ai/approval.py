"""Ask before a tool runs: small payments are approved, large ones are not."""

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext, Tool, ToolDenied
from pydantic_ai.capabilities import HandleDeferredToolCalls


async def pay(cents: int) -> str:
    """Pay somebody."""
    return f"paid {cents} cents"


async def decide(_: RunContext[object], requests: DeferredToolRequests) -> DeferredToolResults:
    return requests.build_results(
        approvals={
            call.tool_call_id: call.args_as_dict()["cents"] < 100 or ToolDenied("Too much.")
            for call in requests.approvals
        }
    )


agent = Agent(
    "openai:gpt-5",
    tools=[Tool(pay, requires_approval=True)],
    capabilities=[HandleDeferredToolCalls(handler=decide)],
)
print(agent.run_sync("Pay the bills").output)
