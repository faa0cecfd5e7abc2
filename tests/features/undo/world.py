"""A world for undos: a tool that changes files, a model that calls it, and the state of a folder."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from agent.world import World, process
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Say, Script, SeenRequest
from holdfast.features.undo.restores import Restores
from holdfast.features.undo.scan import ScanLimits
from holdfast.features.undo.snapshots import Snapshots
from holdfast.features.undo.undos import Undos
from holdfast.interfaces.tool import ToolCall, ToolResult, ToolTraits
from holdfast.messages import ToolSpec
from holdfast.runner.inbox import IncomingMessage, Sent
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
    return [Say("done")] if roles(request)[-1] == "tool" else [CallTool("change")]


@dataclass(frozen=True, slots=True)
class Scene:
    """A process with a workspace, and its undo."""

    world: World
    snapshots: Snapshots
    workspace: Path
    tool: Changes

    @property
    def undos(self) -> Undos:
        return Undos(self.restores(), self.world.supervisor)

    def restores(self, reach: Callable[[str], None] = lambda _: None) -> Restores:
        return Restores(self.world.store, self.snapshots, self.world.clock, reach=reach)

    async def run(self, *changes: Change, session_id: str = "s") -> str:
        """Run an agent whose tool makes these changes, to its end."""
        self.tool.todo.extend(changes)
        sent = await self.world.inbox.send(session_id, IncomingMessage(text="go"))
        assert isinstance(sent, Sent)
        ended = sum(isinstance(one.event, e.RunEnded) for one in await self.world.log(session_id))
        await self.world.until(session_id, e.RunEnded, times=ended + 1)
        return sent.run_id

    async def texts(self, session_id: str = "s") -> list[str]:
        view = await self.world.supervisor.view(session_id)
        return [type(entry).__name__ for entry in view.transcript.entries]


@asynccontextmanager
async def scene(
    tmp_path: Path,
    *,
    choose: Callable[[SeenRequest], Script] = model,
    limits_of_scan: ScanLimits | None = None,
    kind: type[Snapshots] = Snapshots,
) -> AsyncGenerator[Scene]:
    workspace = tmp_path / "workspace"
    await asyncio.to_thread(workspace.mkdir, exist_ok=True)
    tool, snapshots = Changes([]), kind(tmp_path / "snapshots", limits=limits_of_scan)
    async with (
        ChaosServer(choose=choose) as chaos,
        process(chaos, tool, workspace=workspace, features={"undo": snapshots}) as world,
    ):
        yield Scene(world, snapshots, workspace, tool)


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


def write(*names_and_texts: str) -> Change:
    """A change that writes files: each is a name and its text."""

    def change(root: Path) -> None:
        for name, text in _pairs(names_and_texts):
            (root / name).write_text(text)

    return change


def _pairs(words: tuple[str, ...]) -> list[tuple[str, str]]:
    return list(zip(words[::2], words[1::2], strict=True))


def roles(request: SeenRequest) -> list[object]:
    """Who said what the model is shown."""
    messages = msgspec.convert((request.body or {})["messages"], list[dict[str, object]])
    return [message["role"] for message in messages]
