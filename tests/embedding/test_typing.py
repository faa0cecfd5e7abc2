"""What a type checker makes of a program that uses the package."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

PROGRAM = '''
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
    plain = Agent("ollama:m")
    assert_type(plain, Agent[None])
'''
WRONG = """
from holdfast import Agent

async def main() -> None:
    agent = Agent[int]("ollama:m")
    await agent.run("hi", deps="not an int")
    (await agent.run("hi")).output.append(1)
"""


async def errors_in(program: str, folder: Path) -> list[str]:
    file = folder / "program.py"
    await asyncio.to_thread(file.write_text, program)
    config = {"typeCheckingMode": "strict", "pythonVersion": "3.12", "include": ["program.py"]}
    await asyncio.to_thread((folder / "pyrightconfig.json").write_text, json.dumps(config))
    checker = Path(sys.executable).parent / "basedpyright"
    process = await asyncio.create_subprocess_exec(
        *(str(checker), "--outputjson", "--pythonpath", sys.executable, "--project", str(folder)),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    found = json.loads(out)["generalDiagnostics"]
    return [one["message"] for one in found if one["severity"] == "error"]


async def test_a_strict_checker_knows_the_type_of_a_result(tmp_path: Path) -> None:
    found = await errors_in(PROGRAM, tmp_path)
    assert not found, "\n".join(found)


@pytest.mark.long
async def test_mypy_knows_it_too(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    file = tmp_path / "program.py"
    await asyncio.to_thread(file.write_text, PROGRAM)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path)),
        str(file),
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()


async def test_a_strict_checker_finds_wrong_dependencies_and_wrong_outputs(tmp_path: Path) -> None:
    assert len(await errors_in(WRONG, tmp_path)) >= 2
