"""Let the model call a function."""

from pydantic_ai import Agent


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


print(Agent("openai:gpt-5", tools=[add]).run_sync("What is 2 + 3?").output)
