"""The Holdfast programs of the comparison with other libraries do their tasks."""

import asyncio
import io
import runpy
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast import Agent
from holdfast.chaos import CallTool, ChaosServer, Drop, Hang, Say, Script
from holdfast.testing import ScriptedModel

PROGRAMS = Path(__file__).parents[2] / "bench" / "comparison" / "with_holdfast"
# A program imports what it uses before its event loop runs.
IMPORTED = (Agent, ScriptedModel)


@dataclass(frozen=True)
class Expected:
    """What the model answers to each request, what the last request must hold, and the last line printed."""

    answers: Sequence[Script]
    last_line: str
    sent: str = ""


PROGRAMS_EXPECTED = {
    "hello": Expected([[Say("hello")]], "hello"),
    "tool": Expected([[CallTool("add", {"a": 2, "b": 3})], [Say("It is 5.")]], "It is 5.", "'content': '5'"),
    "structured": Expected([[Say('{"name": "Bern", "country": "Switzerland"}')]], "Bern, Switzerland"),
    "streaming": Expected([[Say("one "), Say("two")]], "one two"),
    "approval": Expected([[CallTool("pay", {"cents": 500})], [Say("No.")]], "No.", "Too much."),
    "stop": Expected([[Say("one "), Hang()]], "stopped"),
    "resume": Expected([[CallTool("note", {"text": "milk"})], [Say("Done.")]], "Done.", "'content': 'noted'"),
    "stall": Expected([[Say("hello")]], "hello"),
    "drop": Expected([[Say("The answer is"), Drop()], [Say("The answer is 42.")]], "The answer is 42."),
    "fifty": Expected([[Say("hello")]] * 50, "50"),
    "scripted": Expected([], "passed"),
    "history": Expected([[Say("Hello")], [Say("Ann")]], "Ann", "I am Ann."),
}


def test_every_holdfast_program_of_the_comparison_is_tried() -> None:
    assert {path.stem for path in PROGRAMS.glob("*.py")} == set(PROGRAMS_EXPECTED)


@pytest.mark.parametrize("name", PROGRAMS_EXPECTED)
async def test_a_holdfast_program_of_the_comparison_does_its_task(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = PROGRAMS_EXPECTED[name]
    async with ChaosServer(*expected.answers) as server:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setattr(sys, "argv", [name, server.base_url])
        monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
        await asyncio.to_thread(runpy.run_path, str(PROGRAMS / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out.splitlines()[-1] == expected.last_line
    requests = server.record.requests
    assert len(requests) == len(expected.answers)
    assert not expected.sent or expected.sent in str(requests[-1].body)
