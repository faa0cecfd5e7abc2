"""Hooks as their users write them: small scripts, the user's own or a workspace's."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agent.world import World, process
from holdfast.chaos import ChaosServer
from holdfast.config.settings import HookSettings
from holdfast.features.hooks.hooks import FILE, Hook, OpenHooks, read_hooks, trusted_book
from holdfast.interfaces.tool import Tool
from holdfast.tools.shell.background import Background
from tools.calls import shell

# Appends its input to the file `calls` beside it, and prints the text in the file `answer`.
NOTES = """
import sys, pathlib
place = pathlib.Path(__file__).parent
with (place / "calls").open("a") as calls:
    calls.write(sys.stdin.read() + "\\n")
print((place / "answer").read_text())
"""


class Hooks:
    """A folder with a hook that notes its calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workspace = folder / "work"
        self.workspace.mkdir()
        self.script = folder / "hook.py"
        self.script.write_text(NOTES)
        self.answers()
        self.book = trusted_book(folder / "config")

    def answers(self, **answer: object) -> None:
        """Let the hook print this."""
        (self.folder / "answer").write_text(json.dumps(answer))

    def calls(self) -> list[dict[str, Any]]:
        """The inputs of the hook's calls."""
        calls = self.folder / "calls"
        return [json.loads(line) for line in calls.read_text().splitlines()] if calls.exists() else []

    def own(
        self, on: Any, *, program: str = "", deadline_s: float = 30.0, tools: tuple[str, ...] = ()
    ) -> Hook:
        """A hook of the user; `program` is Python code in place of the usual script."""
        words = ("-c", program) if program else (str(self.script),)
        command = (sys.executable, "-S", "-E", *words)
        name = on.replace("_", "-")
        return Hook(HookSettings(name=name, on=on, command=command, deadline_s=deadline_s, tools=tools))

    def of_workspace(self, script: str, *, on: str = "before_tool") -> None:
        """Write hooks.toml with one hook that is a shell script of the workspace."""
        place = self.workspace / ".holdfast" / "hooks"
        place.mkdir(parents=True, exist_ok=True)
        (place / "check.sh").write_text(script)
        command = '["/bin/sh", ".holdfast/hooks/check.sh"]'
        (self.workspace / FILE).write_text(f'[[hooks]]\nname = "check"\non = "{on}"\ncommand = {command}\n')

    async def trust(self) -> None:
        """Trust the workspace's hooks as they are."""
        found = await asyncio.to_thread(read_hooks, self.workspace)
        await asyncio.to_thread(self.book.trust, self.workspace / FILE, found.digest)

    @asynccontextmanager
    async def runs(
        self, chaos: ChaosServer, *tools: Tool, own: tuple[Hook, ...] = (), **more: Any
    ) -> AsyncGenerator[World]:
        """A process that runs agents with these hooks."""
        background = Background(self.folder / "background", now_ms=lambda: 1)
        given = more.pop("shell", None) or shell(background)
        opened = {"hooks": OpenHooks(own, self.book)}
        async with process(chaos, given, *tools, features=opened, workspace=self.workspace, **more) as world:
            yield world
        await background.close()
