"""Ask before a tool runs: small payments are approved, large ones are not."""

from holdfast import Agent, Deny, PendingApproval, tool


@tool(needs_approval=True)
async def pay(cents: int) -> str:
    """Pay somebody."""
    return f"paid {cents} cents"


async def decide(approval: PendingApproval) -> bool | Deny:
    return approval.arguments["cents"] == 5 or Deny("Too much.")


print(Agent("openai:gpt-5", tools=[pay], on_approval=decide).run_sync("Pay the bills").output)
