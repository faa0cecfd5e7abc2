"""A tool for files goes where its call was judged to go, whoever swaps a link in between."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.world import process, send, tool_ends
from holdfast import events as e
from holdfast.agent.policy import ConfiguredJudge
from holdfast.chaos import CallTool, ChaosServer, Say
from holdfast.interfaces.tool import Tool
from holdfast.policy.verdicts import Allow
from holdfast.tools.files.contents import FilesSeen
from holdfast.tools.files.edits import EditFile, WriteFile
from holdfast.tools.files.listing import ListFiles
from holdfast.tools.files.read_file import ReadFile
from holdfast.tools.files.search import SearchFiles
from holdfast.tools.shell.background import Background
from holdfast.values import Action
from tools.calls import ENVIRONMENT, Call, shell

TOOLS: dict[str, tuple[Tool, dict[str, object]]] = {
    "read": (ReadFile(FilesSeen()), {"path": "x/f"}),
    "write": (WriteFile(FilesSeen()), {"path": "x/f", "content": "theirs"}),
    "write into a new folder": (WriteFile(FilesSeen()), {"path": "x/new/f", "content": "theirs"}),
    "edit": (EditFile(FilesSeen()), {"path": "x/f", "old_text": "mine", "new_text": "theirs"}),
    "list": (ListFiles(), {"path": "x"}),
    "search": (SearchFiles(ENVIRONMENT, ripgrep=None), {"path": "x", "pattern": "."}),
}


@pytest.fixture
def root(call: Call) -> Path:
    for folder in ("plain", ".husky"):
        (call.workspace / folder).mkdir()
        (call.workspace / folder / "f").write_text("mine")
    (call.workspace / "x").symlink_to("plain")
    return call.workspace


def swap(root: Path, target: str) -> None:
    (root / "x").unlink()
    (root / "x").symlink_to(target)


def judged_then_swapped(tool: Tool, args: Mapping[str, object], root: Path) -> tuple[str, ...]:
    paths = tool.action(args, workspace=root).paths
    swap(root, ".husky")
    return paths


def contents(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.iterdir()}


@pytest.mark.parametrize("name", TOOLS)
async def test_a_link_swapped_after_the_judging_is_refused_also_inside(
    root: Path, call: Call, name: str
) -> None:
    """P8: what was judged is done, or nothing."""
    tool, args = TOOLS[name]
    call.judged_paths = await asyncio.to_thread(judged_then_swapped, tool, args, root)
    result = await tool.run(args, call)
    assert not result.ok
    assert "not to the file that was approved" in result.text
    assert await asyncio.to_thread(contents, root / ".husky") == {"f": "mine"}
    await asyncio.to_thread(swap, root, "plain")
    assert (await tool.run(args, call)).ok


async def test_a_shell_starts_in_the_folder_that_was_judged(
    root: Path, call: Call, background: Background
) -> None:
    """P8."""
    tool, args = shell(background), {"command": "cat f", "directory": "x"}
    call.judged_paths = await asyncio.to_thread(judged_then_swapped, tool, args, root)
    assert (await tool.run(args, call)).ending == "not_started"


class Raced(ReadFile):
    """Has its link swapped right after each look of the judge."""

    def action(self, args: Mapping[str, Any], *, workspace: Path) -> Action:
        swap(workspace, "plain/f")
        found = super().action(args, workspace=workspace)
        swap(workspace, ".env")
        return found


async def test_an_agent_hands_on_what_was_judged(root: Path) -> None:
    """P11: a background process that wins every race gets no secret out."""
    await asyncio.to_thread((root / ".env").write_text, "KEY=secret")
    judge = ConfiguredJudge(home=root)
    action = await asyncio.to_thread(Raced(FilesSeen()).action, {"path": "x"}, workspace=root)
    assert isinstance(await asyncio.to_thread(judge.verdict, action, (), workspace=root), Allow)
    async with (
        ChaosServer([CallTool("read_file", {"path": "x"})], [Say("done")]) as chaos,
        process(chaos, Raced(FilesSeen()), judge=judge, workspace=root) as world,
    ):
        await send(world)
        (ended,) = tool_ends(await world.until("s", e.RunEnded))
    assert not ended.ok
    assert "secret" not in ended.result
