"""Test a tool with a scripted model, without a network."""

from agents import Agent, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call


@function_tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


model = ScriptedModel(
    [[function_call("add", {"a": 2, "b": 3}, call_id="1")], [assistant_message("It is 5.")]]
)
assert Runner.run_sync(Agent("main", model=model, tools=[add]), "What is 2 + 3?").final_output == "It is 5."
assert model.last_call.input[-1]["output"] == "5"
print("passed")
