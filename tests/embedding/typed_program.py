"""A program that uses the package, for type checkers: basedpyright with the whole tree, and mypy by a test.

Each `assert_type` fails the check if the type is another one, and so does an ignored error that is none.
"""
# pyright: reportUnnecessaryTypeIgnoreComment=error

from dataclasses import dataclass
from typing import assert_type

from holdfast import Agent, PendingQuestion, Result, RunHandle, ToolContext, one_of, tool


@dataclass
class City:
    name: str


@dataclass
class Shop:
    prices: dict[str, int]


async def price(context: ToolContext[Shop], item: str) -> int:
    """The price."""
    return context.deps.prices[item]


@tool(read_only=True)
async def size(context: ToolContext[Shop], item: str) -> str:
    """The size."""
    return await context.ask(f"Which size of {item}?", choices=["small", "large"])


async def answered(question: PendingQuestion) -> str:
    return question.choices[0]


async def main() -> None:
    agent = Agent[Shop]("ollama:m", tools=[price, size], on_question=answered)
    text = await agent.run("hi", deps=Shop({}))
    assert_type(text, Result[str])
    city = await agent.run("hi", output_type=City)
    assert_type(city, Result[City])
    assert_type(city.output.name, str)
    known = await agent.session("x").run("hi", output_type=one_of(City, int))
    assert_type(known, Result[City | int])
    assert_type(agent.run_sync("hi", output_type=one_of(City, int, Shop)).output, City | int | Shop)
    async with agent.stream("hi", output_type=one_of(City, int, Shop, bytes)) as several:
        assert_type(several, RunHandle[City | int | Shop | bytes])
    assert_type(agent.run_sync("hi", output_type=list[City]).output, list[City])
    async with agent.stream("hi", output_type=City) as run:
        assert_type(run, RunHandle[City])
    assert_type(Agent("ollama:m"), Agent[None])


async def wrong() -> None:
    agent = Agent[int]("ollama:m")
    await agent.run("hi", deps="not an int")  # type: ignore[arg-type]
    result = await agent.run("hi")
    result.output.append(1)  # type: ignore[attr-defined]
