"""Test a tool with a scripted model, without a network."""

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    if len(messages) == 1:
        return ModelResponse(parts=[ToolCallPart("add", {"a": 2, "b": 3})])
    return ModelResponse(parts=[TextPart("It is 5.")])


result = Agent(FunctionModel(model), tools=[add]).run_sync("What is 2 + 3?")
assert result.output == "It is 5."
assert result.all_messages()[2].parts[0].content == 5
print("passed")
