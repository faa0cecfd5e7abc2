"""A tool call as the tests make it, and what they look at afterwards."""

import asyncio
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Literal

from holdfast.interfaces.journal import Blobs
from holdfast.interfaces.tool import NobodyAnswered
from holdfast.sandbox.confinement import Confinement
from holdfast.tools.shell.background import Background
from holdfast.tools.shell.environment import child_environment
from holdfast.tools.shell.process_table import table
from holdfast.tools.shell.scope import KillPatience, find_marked
from holdfast.tools.shell.tool import EARLY_END_S, Shell, ShellWorld
from stores import MemoryStore

# The second is long, since a loaded machine is slow; a test that passes never waits for it.
QUICK = KillPatience(term_s=0.2, kill_s=30.0)
ENVIRONMENT = child_environment({})
_numbers = count(1)


@dataclass(kw_only=True)
class Call:
    """A ToolCall that remembers what was said."""

    workspace: Path
    session_id: str = "session-1"
    run_id: str = field(default_factory=lambda: f"run-{os.getpid()}-{next(_numbers)}")
    tool_call_id: str = "call:1 \0"
    effect_key: str = "key"
    api_key: str = ""
    approved: str = ""
    judged_paths: tuple[str, ...] = ()
    confinement: Confinement | None = None
    blobs: Blobs = field(default_factory=MemoryStore)
    said: str = ""
    heard: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, text: str, choices: tuple[str, ...]) -> str:
        raise NobodyAnswered(f"{text} {choices}")

    async def say(self, text: str, *, stream: Literal["stdout", "stderr", "progress"] = "stdout") -> None:
        assert stream == "stdout"
        self.said += text
        self.heard.set()

    async def hears(self, words: str) -> None:
        """Wait until the tool has said it."""
        while words not in self.said:
            self.heard.clear()
            await self.heard.wait()

    async def left(self) -> list[str]:
        """What is alive of this run's processes."""
        found = await asyncio.to_thread(find_marked, lambda marker: marker.run_id == self.run_id)
        return [f"{one.process} {one.process.state}" for one in found]


def shell(
    background: Background, *, kill_patience: KillPatience = QUICK, early_end_s: float = EARLY_END_S
) -> Shell:
    return Shell(
        ShellWorld(
            environment=ENVIRONMENT,
            background=background,
            kill_patience=kill_patience,
            early_end_s=early_end_s,
        )
    )


async def until(condition: Callable[[], object]) -> None:
    """Look until it is so."""
    while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - /proc rings no bell
        await asyncio.sleep(0.01)


DeadChildren = Callable[[], list[str]]


def children() -> frozenset[tuple[int, int]]:
    """Our children, dead or alive: browsers, terminals and what they left."""
    return frozenset((row.pid, row.born_ticks) for row in table() if row.parent == os.getpid())


def uncollected(earlier: Collection[tuple[int, int]] = ()) -> list[str]:
    """Dead children that nobody has collected, without the earlier ones."""
    dead = [row for row in table() if row.parent == os.getpid() and row.is_dead]
    return [str(row) for row in dead if (row.pid, row.born_ticks) not in earlier]


def descriptors() -> set[tuple[str, str]]:
    """Our open descriptors, with what they are of."""
    folder = Path("/proc/self/fd")
    return {(one.name, _target(one)) for one in folder.iterdir() if _target(one)}


def _target(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""
