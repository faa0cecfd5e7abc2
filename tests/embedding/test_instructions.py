"""Instructions that a function writes for each run of an embedded agent."""

from pathlib import Path
from typing import Any

import pytest

from holdfast import Agent, InstructionsContext
from holdfast.testing import Call, Gate, Say, ScriptedModel, Wait


def system_of(request: Any) -> str:
    return str(request["messages"][0]["content"])


async def test_a_function_writes_the_instructions_of_each_run() -> None:
    seen: list[tuple[str, str, str]] = []

    async def write(context: InstructionsContext[str]) -> str:
        seen.append((context.deps, context.session_id, context.prompt))
        return f"Answer in {context.deps}."

    model = ScriptedModel([Say("Hallo"), Say("Ciao")])
    agent = Agent[str](model, instructions=write, deps="German")
    session = agent.session("talk")
    await session.run("one")
    await session.run("two", deps="Italian")
    assert seen == [("German", "talk", "one"), ("Italian", "talk", "two")]
    assert ["Answer in German." in system_of(one) for one in model.requests] == [True, False]
    assert "Answer in Italian." in system_of(model.requests[1])


async def test_a_run_that_continues_after_a_restart_keeps_its_instructions(tmp_path: Path) -> None:
    """P6: the function isn't called again."""
    numbers = iter(range(2))
    gate, store = Gate(), tmp_path / "talk.db"

    async def look() -> str:
        """Look."""
        return "seen"

    def write(_: InstructionsContext) -> str:
        return f"Number {next(numbers)}."

    async with Agent(
        ScriptedModel([Call("look"), [Wait(gate), Say("never")]]),
        instructions=write,
        tools=[look],
        store=store,
    ) as agent:
        run = await agent.start("Work")
        await gate.reached()
    later = ScriptedModel([Say("Done.")])
    async with Agent(later, instructions=write, tools=[look], store=store) as agent:
        assert (await (await agent.attach(run.id)).result()).output == "Done."
    assert "Number 0." in system_of(later.requests[0])
    assert next(numbers) == 1


async def test_instructions_that_fail_or_are_no_text_start_no_run() -> None:
    """P12: and leave nothing behind."""
    written: Any = iter([ZeroDivisionError(), 5])

    def write(_: InstructionsContext) -> Any:
        text = next(written)
        if isinstance(text, Exception):
            raise text
        return text

    async with Agent(ScriptedModel([]), instructions=write) as agent:
        with pytest.raises(ZeroDivisionError):
            await agent.run("hi")
        with pytest.raises(TypeError, match="instructions returned 5, and not a text"):
            await agent.run("hi")
        assert await agent.open_runs() == []
