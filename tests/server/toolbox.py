"""Tools for tests over HTTP: one whose effects are counted, one that hangs and makes trouble when stopped."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.chaos import Gate
from holdfast.interfaces.tool import ToolCall, ToolResult, ToolTraits
from holdfast.messages import ToolSpec
from holdfast.values import Action

OBJECT: dict[str, object] = {"type": "object"}


@dataclass(slots=True)
class Counted:
    """Does something that can be counted."""

    name: str = "touch"
    done: list[Mapping[str, object]] = field(default_factory=list[Mapping[str, object]])
    traits: ToolTraits = field(default_factory=ToolTraits)
    spec: ToolSpec = field(init=False)

    def __post_init__(self) -> None:
        self.spec = ToolSpec(self.name, "An effect.", OBJECT)

    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        del workspace
        return Action(tool=self.name, summary=f"{self.name} {args}")

    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        del call
        self.done.append(args)
        return ToolResult(f"{self.name} done")


@dataclass(slots=True)
class CountedShell(Counted):
    """Is judged like the shell, and only counts its commands."""

    name: str = "shell"

    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        command = str(args["command"])
        return Action(
            tool="shell", summary=command, argv=("/bin/bash", "-c", command), paths=(str(workspace),)
        )


@dataclass(slots=True)
class Stubborn(Counted):
    """Hangs until it is stopped, and then raises."""

    name: str = "stubborn"
    running: asyncio.Event = field(default_factory=asyncio.Event)
    stops: int = 0

    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        del args, call
        self.running.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.stops += 1
            raise RuntimeError("the stop code is broken") from None
        return ToolResult("never")


@dataclass(slots=True)
class Held(Counted):
    """Works until a gate is opened."""

    name: str = "held"
    gate: Gate = field(default_factory=Gate)

    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        del args, call
        await self.gate.passed()
        return ToolResult("held no more")


class OpenedLater:
    """Tools that the test opens."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.waited_for = asyncio.Queue[None]()

    async def opened(self) -> bool:
        self.waited_for.put_nowait(None)
        return await self.open.wait()
