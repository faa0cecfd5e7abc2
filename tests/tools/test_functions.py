"""Tools from Python functions, and the registry that holds tools."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest

from holdfast.interfaces.tool import ToolCall, ToolResult, ToolTraits
from holdfast.messages import ToolSpec
from holdfast.policy.tool_names import ASK_USER
from holdfast.tools.arguments import BadArguments, arguments_hash, canonical, effect_key, parsed
from holdfast.tools.ask import AskUser, AskUserArgs
from holdfast.tools.built_in import built_in_tools
from holdfast.tools.functions import tool
from holdfast.tools.registry import NameTaken, Registry, insist_on_arguments
from holdfast.tools.shell.background import Background
from holdfast.tools.shell.environment import child_environment
from holdfast.tools.signatures import CannotBeTool
from holdfast.values import Action
from tools import sample_functions as sample
from tools.calls import Call, DeadChildren
from tools.loops import ON_BOTH_LOOPS


def test_a_function_tells_the_model_what_it_wants() -> None:
    assert tool(sample.add).spec == ToolSpec(
        name="add",
        description="Add two numbers.",
        schema={
            "type": "object",
            "properties": {
                "a": {"type": "integer", "description": "The first."},
                "b": {"type": "integer", "description": "The second.", "default": 2},
            },
            "required": ["a"],
            "additionalProperties": False,
        },
    )


async def test_a_function_is_called(call: Call) -> None:
    calls: list[tuple[Callable[..., object], dict[str, object], str]] = [
        (sample.add, {"a": 1}, "3"),
        (sample.add, {"a": "4", "b": None}, "6"),
        (
            sample.typed,
            {"day": "2026-01-31", "points": [{"x": 1}, {"x": 2}]},
            '{"day":"2026-01-31","x":3,"where":"workspace"}',
        ),
        (sample.shout, {"text": "hey"}, "HEY"),
    ]
    for function, args, text in calls:
        assert await tool(function).run(args, call) == ToolResult(text)


async def test_a_function_that_fails_says_why(call: Call) -> None:
    result = await tool(sample.fail).run({"text": "no luck"}, call)
    assert not result.ok
    assert result.text.startswith("Failed: ValueError: no luck (sample_functions.py, line ")
    assert result.text.endswith("\nprinted before")
    assert (await tool(sample.shout).run({"text": ""}, call)).text == "Failed: ValueError: nothing to say"
    assert "exited without a result (code 3)" in (await tool(sample.vanish).run({}, call)).text


async def test_a_function_that_takes_too_long_is_killed(call: Call) -> None:
    late = ToolResult(
        "Killed: it took longer than 1 s. Its effects so far aren't undone.", ok=False, ending="killed"
    )
    assert await tool(sample.hang, patience_s=1.0).run({}, call) == late
    assert await call.left() == []


@ON_BOTH_LOOPS
async def test_a_stop_kills_a_function_and_its_children(call: Call, dead_children: DeadChildren) -> None:
    running = asyncio.create_task(tool(sample.hang).run({}, call))
    await call.hears("hanging")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await call.left() == []
    assert await asyncio.to_thread(dead_children) == []


async def test_a_function_gets_the_environment_that_it_was_given(call: Call) -> None:
    made = tool(sample.environment, environment={"WEATHER_KEY": "1"})
    names = (await made.run({}, call)).text
    assert "WEATHER_KEY" in names
    assert "API_KEY" not in names


def test_a_function_that_cannot_be_a_tool_says_what_to_change() -> None:
    broken: list[tuple[Callable[..., object], str]] = [
        (lambda: 1, "docstring"),
        (test_a_function_that_cannot_be_a_tool_says_what_to_change, "docstring"),
        (_untyped, "add a type to 'x'"),
        (_many, "isn't allowed"),
        (_strange, "complex"),
    ]
    for function, why in broken:
        with pytest.raises(CannotBeTool, match=why):
            tool(function)


def _untyped(x) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001 # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]
    """Lack a type."""


def _many(*words: str) -> None:
    """Take any number."""


def _strange(x: complex) -> None:
    """Take what JSON has not."""


async def test_a_script_s_own_functions_work_too(tmp_path: Path, call: Call) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from holdfast.tools.functions import tool\n"
        "from tools.calls import Call\n"
        "def double(x: int) -> int:\n"
        "    '''Double it.'''\n"
        "    return 2 * x\n"
        "async def main():\n"
        "    result = await tool(double).run({'x': 21}, Call(workspace=Path.cwd()))\n"
        "    print(result.text)\n"
        "if __name__ == '__main__':\n"
        "    asyncio.run(main())\n"
    )
    import sys

    tests = Path(__file__).parent.parent
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        script,
        cwd=call.workspace,
        env={"PYTHONPATH": str(tests)},
        stdout=asyncio.subprocess.PIPE,
    )
    assert (await process.communicate())[0] == b"42\n"


def test_equal_arguments_are_equal_bytes_and_one_effect() -> None:
    assert canonical({"b": 1.0, "a": [{"y": None, "x": "ä"}]}) == canonical(
        {"a": ({"x": "ä", "y": None},), "b": 1}
    )
    assert canonical({"a": 0.5}) != canonical({"a": 1})
    assert arguments_hash("shell", {"a": 1}) != arguments_hash("other", {"a": 1})
    key = effect_key("run-1", 2, ordinal=0, tool="shell", args={"command": "x"})
    assert key == f"run-1:2:0:{arguments_hash('shell', {'command': 'x'})}"
    assert key != effect_key("run-1", 2, ordinal=1, tool="shell", args={"command": "x"})


class Foreign:
    """A tool that has only a schema, as those of MCP servers do."""

    spec = ToolSpec(
        name="foreign",
        description="Elsewhere.",
        schema={
            "type": "object",
            "properties": {"n": {"type": "integer"}, "s": {"type": ["string", "null"]}, "any": {}},
            "required": ["n"],
            "additionalProperties": False,
        },
    )
    traits = ToolTraits()

    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        del args, workspace
        return Action(tool="foreign", summary="")

    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        del args, call
        return ToolResult("")


def test_the_box_is_complete_and_its_names_are_taken_once(tmp_path: Path) -> None:
    registry = Registry()
    box = built_in_tools(child_environment({}), background=Background(tmp_path, now_ms=lambda: 0))
    registry.put("box", box)
    files = "read_file write_file edit_file list_files search_files send_file"
    names = f"shell shell_jobs shell_kill {files} fetch_url"
    assert [spec.name for spec in registry.specs()] == f"{names} ask_user".split()
    registry.put("server", [Foreign()])
    with pytest.raises(NameTaken):
        registry.put("other server", [Foreign()])
    registry.put("server", [Foreign()])
    assert registry.get("foreign")
    registry.drop("server")
    assert registry.get("foreign") is None
    assert "Did you mean read_file?" in registry.unknown("readfile")


def test_arguments_that_do_not_fit_a_schema_are_told_why() -> None:
    rows: list[tuple[dict[str, object], str]] = [
        ({}, "missing n"),
        ({"n": "x"}, "n must be of type integer"),
        ({"n": True}, "n must be of type integer"),
        ({"n": 1, "s": 2}, "s must be of type string or null"),
        ({"n": 1, "more": 2}, "unknown argument more"),
    ]
    for args, why in rows:
        with pytest.raises(BadArguments, match=why):
            insist_on_arguments(Foreign(), args)
    insist_on_arguments(Foreign(), {"n": 1.0, "s": None, "any": [1]})


def test_what_is_odd_in_a_schema_is_nobodys_failure() -> None:
    schemas: list[dict[str, object]] = [
        {"properties": {"n": True}},
        {"properties": [1]},
        {"required": 5},
        {"required": [5]},
        {"properties": {"n": {"type": [5]}}},
        {"properties": {"n": {"enum": 5}}},
    ]
    for schema in schemas:
        odd = Foreign()
        odd.spec = ToolSpec(name="odd", description="", schema=schema)
        insist_on_arguments(odd, {"n": 1})


def test_arguments_that_do_not_fit_a_struct_are_told_why() -> None:
    rows: list[tuple[dict[str, object], str]] = [
        ({}, r"missing required field `text`. Expected: text \(string .*; choices \(array of string"),
        ({"text": ""}, "length >= 1"),
        ({"text": "x", "choices": "a"}, "Expected `array`"),
        ({"text": "x", "chioces": []}, "unknown field `chioces`"),
    ]
    for args, why in rows:
        with pytest.raises(BadArguments, match=why):
            insist_on_arguments(AskUser(), args)


class _Piece(msgspec.Struct):
    old: str
    new: str = ""


class _Everything(msgspec.Struct, forbid_unknown_fields=True):
    mode: Literal["fast", "safe"]
    count: Annotated[int, msgspec.Meta(ge=1, le=5)] = 1
    pieces: tuple[_Piece, ...] = ()
    note: str | None = None


def test_the_error_lists_everything_that_is_allowed() -> None:
    """P12: a model that guessed a value can correct it with its next call."""
    expected = (
        'mode (one of "fast", "safe"); count (integer >= 1 <= 5, optional); '
        "pieces (array of object with old (string), new (string, optional), optional); "
        "note (string, optional)."
    )
    with pytest.raises(BadArguments) as caught:
        parsed(_Everything, {"mode": "quick"})
    assert str(caught.value).endswith(f"Expected: {expected}")
    foreign = Foreign()
    schema: dict[str, object] = {
        "type": "object",
        "properties": {"unit": {"type": "string", "enum": ["C", "F"]}},
    }
    foreign.spec = ToolSpec(name="weather", description="", schema=schema)
    with pytest.raises(BadArguments, match=r'unit is \'K\'.*: unit \(one of "C", "F", optional\)'):
        insist_on_arguments(foreign, {"unit": "K"})
    insist_on_arguments(foreign, {"unit": "C"})


async def test_a_question_is_described_and_never_answered_by_itself(call: Call, tmp_path: Path) -> None:
    asking = AskUser()
    args = {"text": "Which one?", "choices": ["a", "b"]}
    assert asking.spec.name == ASK_USER
    assert parsed(AskUserArgs, args) == AskUserArgs("Which one?", ("a", "b"))
    assert asking.action(args, workspace=tmp_path).summary == "Which one?"
    assert (await asking.run(args, call)).ending == "no_approver"
