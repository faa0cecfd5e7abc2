"""Let the model call a function."""

from agents import Agent, Runner, function_tool


@function_tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


print(Runner.run_sync(Agent("main", model="gpt-5", tools=[add]), "What is 2 + 3?").final_output)
