"""Servers and calls as the tests of the MCP client make them."""

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from holdfast.config.mcp_servers import McpServerConfig
from holdfast.features.mcp_client.process import McpPatience
from holdfast.features.mcp_client.servers import McpServers, marker_run
from holdfast.interfaces.tool import NobodyAnswered, Tool, ToolResult
from holdfast.tools.shell.environment import child_environment
from holdfast.tools.shell.scope import KillPatience, find_marked
from tools.calls import Call

SERVERS = Path(__file__).parent / "servers"
ENVIRONMENT = child_environment({"OPENAI_API_KEY": "sk-ours", "HOLDFAST_TOKEN": "ours", "HOME": "/tmp"})  # noqa: S108 - a home
QUICK = McpPatience(
    connect_s=30.0,
    wait_s=30.0,
    ping_s=30.0,
    cancel_s=0.3,
    exit_s=0.2,
    relist_gap_s=0.05,
    backoff_first_s=0.01,
    backoff_max_s=0.05,
    kill=KillPatience(term_s=0.2, kill_s=5.0),
)


@dataclass(kw_only=True)
class McpCall(Call):
    """A ToolCall that remembers the progress that was told."""

    progress: list[str] = field(default_factory=list[str])

    async def ask(self, text: str, choices: tuple[str, ...]) -> str:
        raise NobodyAnswered(f"{text} {choices}")

    async def say(self, text: str, *, stream: Literal["stdout", "stderr", "progress"] = "stdout") -> None:
        assert stream == "progress"
        self.progress.append(text)
        await super().say(text)


def raw(
    name: str = "raw",
    *,
    env: dict[str, str] | None = None,
    tool_patience_s: dict[str, float] | None = None,
    **wishes: Any,
) -> McpServerConfig:
    """The server of servers/raw.py, which does as it is told."""
    command = (sys.executable, "-S", "-E", str(SERVERS / "raw.py"), json.dumps(wishes))
    return McpServerConfig(name=name, command=command, env=env or {}, tool_patience_s=tool_patience_s or {})


def good(**more: Any) -> McpServerConfig:
    """The server of servers/good.py, made with the SDK."""
    return McpServerConfig(name="good", command=(sys.executable, str(SERVERS / "good.py")), **more)


def servers(*configs: McpServerConfig, patience: McpPatience = QUICK, owner: str = "") -> McpServers:
    return McpServers(configs, environment=ENVIRONMENT, patience=patience, owner=owner)


async def named(of: McpServers, *, label: str = "raw", tool: str = "echo") -> Tool:
    """The tool of that name, once it is there."""
    name = f"mcp__{label}__{tool}"
    while True:
        found = next((one for one in of.snapshot() if one.spec.name == name), None)
        if found is not None:
            return found
        await asyncio.sleep(0.01)


def names(of: McpServers) -> list[str]:
    return [tool.spec.name for tool in of.snapshot()]


async def run(of: McpServers, tool: str, call: Call, *, label: str = "raw", **args: object) -> ToolResult:
    """Call a tool, once it is there."""
    return await (await named(of, label=label, tool=tool)).run(args, call)


async def left(owner: str, labels: Sequence[str] = ("raw",)) -> list[str]:
    """What is alive of the servers' processes."""
    runs = {marker_run(owner, label) for label in labels}
    found = await asyncio.to_thread(find_marked, lambda marker: marker.run_id in runs)
    return [str(one.process) for one in found]
