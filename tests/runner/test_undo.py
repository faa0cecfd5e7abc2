"""Undo: what a run changed is known file by file, and can be taken back, unless that would lose others' work."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent.world import World, process
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Say, Script, SeenRequest
from holdfast.interfaces.tool import ToolCall, ToolResult, ToolTraits
from holdfast.messages import ToolSpec
from holdfast.runner.inbox import Message, Sent
from holdfast.runner.restores import Restores
from holdfast.runner.undo import Undos, UndoWanted
from holdfast.undo.planning import CannotUndo
from holdfast.undo.snapshots import Snapshots, shown_path
from holdfast.values import Action

Change = Callable[[Path], None]


@dataclass(slots=True)
class Changes:
    """A tool that changes the workspace in some way; each call does the next one."""

    todo: list[Change]
    traits: ToolTraits = field(default_factory=ToolTraits)
    spec: ToolSpec = field(default_factory=lambda: ToolSpec("change", "Changes files.", {"type": "object"}))

    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        del args, workspace
        return Action(tool="change", summary="change files")

    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        del args
        await asyncio.to_thread(self.todo.pop(0), call.workspace)
        return ToolResult("changed")


def model(request: SeenRequest) -> Script:
    """Calls the tool once for each run, then says so."""
    messages: list[dict[str, Any]] = (request.body or {})["messages"]
    return [Say("done")] if messages[-1]["role"] == "tool" else [CallTool("change")]


@dataclass(frozen=True, slots=True)
class Scene:
    """A process with a workspace, and its undo."""

    world: World
    undos: Undos
    workspace: Path
    tool: Changes

    async def run(self, *changes: Change, session_id: str = "s") -> str:
        """Run an agent whose tool makes these changes, to its end."""
        self.tool.todo.extend(changes)
        sent = await self.world.inbox.send(session_id, Message(text="go"))
        assert isinstance(sent, Sent)
        ended = sum(isinstance(one.event, e.RunEnded) for one in await self.world.log(session_id))
        await self.world.until(session_id, e.RunEnded, times=ended + 1)
        while self.world.supervisor.owner(session_id) is not None:
            await asyncio.sleep(0)
        return sent.run_id

    async def texts(self, session_id: str = "s") -> list[str]:
        view = await self.world.supervisor.view(session_id)
        return [type(entry).__name__ for entry in view.transcript.entries]


@asynccontextmanager
async def scene(tmp_path: Path, **fields: object) -> AsyncGenerator[Scene]:
    workspace = tmp_path / "workspace"
    await asyncio.to_thread(workspace.mkdir, exist_ok=True)
    tool, snapshots = Changes([]), Snapshots(tmp_path / "snapshots")
    async with ChaosServer(choose=model) as chaos:
        async with process(chaos, tool, workspace=workspace, snapshots=snapshots, **fields) as world:
            restores = Restores(world.store, snapshots, world.clock)
            yield Scene(world, Undos(restores, world.supervisor), workspace, tool)


def state(workspace: Path) -> dict[str, tuple[int, bytes]]:
    """Every file and link below a folder, with its permissions and contents."""
    found: dict[str, tuple[int, bytes]] = {}
    for path in sorted(workspace.rglob("*")):
        mode = path.lstat().st_mode
        if path.is_symlink():
            found[str(path.relative_to(workspace))] = (0, os.fsencode(path.readlink()))
        elif path.is_file():
            found[str(path.relative_to(workspace))] = (mode & 0o777, path.read_bytes())
    return found


async def test_a_run_is_taken_back_with_its_files_and_its_conversation(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        ws = one.workspace
        (ws / "kept.txt").write_text("kept\n")
        (ws / "deleted.txt").write_text("deleted\n")
        (ws / "changed.txt").write_text("before\n")
        (ws / "tool.sh").write_text("#!/bin/sh\n")
        (ws / "binary").write_bytes(bytes(range(256)))
        os.symlink("kept.txt", ws / "link")
        os.chmod(ws / "deleted.txt", 0o600)
        before = state(ws)

        def change(root: Path) -> None:
            (root / "deleted.txt").unlink()
            (root / "changed.txt").write_text("after\n")
            (root / "tool.sh").chmod(0o755)
            (root / "binary").write_bytes(b"\0\1")
            (root / "link").unlink()
            os.symlink("/etc/passwd", root / "link")
            (root / "new" / "deep").mkdir(parents=True)
            (root / "new" / "deep" / "file").write_text("new\n")
            (root / "kept.txt").rename(root / "renamed.txt")

        run_id = await one.run(change)
        after = state(ws)
        found = await one.undos.changes("s", run_id)
        kinds = {shown_path(file.change.path): file.change.kind for file in found.files}
        assert kinds == {
            "binary": "changed",
            "changed.txt": "changed",
            "deleted.txt": "deleted",
            "kept.txt": "deleted",
            "link": "changed",
            "new/deep/file": "created",
            "renamed.txt": "created",
            "tool.sh": "mode",
        }
        done = await one.undos.undo("s", run_id, UndoWanted())
        assert state(ws) == before
        assert not (ws / "new").exists()
        assert done.left == ()
        assert await one.texts() == []
        again = await one.undos.redo("s", run_id, UndoWanted())
        assert state(ws) == after
        assert again.undo.redoes == done.undo.undo_id
        assert await one.texts() == ["Person", "ToolCard", "Text", "Ending"]
