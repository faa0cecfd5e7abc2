"""Test a tool with a scripted model, without a network."""

from holdfast import Agent
from holdfast.testing import Call, Say, ScriptedModel


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


model = ScriptedModel([Call("add", a=2, b=3), Say("It is 5.")])
assert Agent(model, tools=[add]).run_sync("What is 2 + 3?").output == "It is 5."
assert model.requests[1]["messages"][-1]["content"] == "5"
print("passed")
