"""Calls real MCP servers through Holdfast's MCP client: `python bench/mcp_servers.py`.

The official servers and one made with fastmcp are installed into a cache folder and started on this machine,
over stdio, streamable HTTP and the older SSE. Each must answer one call as expected; the exit code is 1 if
one does not. Only loopback addresses are called.
"""

import argparse
import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from client_environments import NODE, install, program
from holdfast.config.mcp_servers import McpServerConfig
from holdfast.features.mcp_client.server import ServerPlace
from holdfast.features.mcp_client.servers import McpServers
from holdfast.interfaces.tool import Tool
from mcp_conformance_driver import DriverCall

START_S = 60.0
FAST = """
import sys
from fastmcp import Context, FastMCP
server = FastMCP("fast")

@server.tool
def add(a: int, b: int) -> int:
    return a + b

@server.tool
async def greet(ctx: Context) -> str:
    answer = await ctx.elicit("Who is there?", response_type=str)
    return f"hello {answer.data}" if answer.action == "accept" else answer.action

kind = sys.argv[1]
server.run(transport=kind, show_banner=False, **({} if kind == "stdio" else {"port": int(sys.argv[2])}))
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One server over one wire, a tool of it, and what its answer contains."""

    name: str
    wire: str
    command: tuple[str, ...]
    tool: str
    args: dict[str, object]
    expected: str
    path: str = ""  # of its URL; then the command is a server on the port that stands for PORT


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """A page for the server that fetches pages."""
        body = b"<html><body><h1>Fetched</h1><p>from loopback</p></body></html>"
        self.send_response(200 if self.path != "/robots.txt" else 404)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class says it so
        """Say nothing."""


def cases(cache: Path, folder: Path, page: str) -> list[Case]:
    """Every server and wire."""
    everything = str(Path(program(cache, "mcp-servers-node", "mcp-server-everything")))
    files = program(cache, "mcp-servers-node", "mcp-server-filesystem")
    memory = program(cache, "mcp-servers-node", "mcp-server-memory")
    python = [program(cache, "mcp-servers-python", f"mcp-server-{one}") for one in ("time", "git", "fetch")]
    fast = (program(cache, "fastmcp", "python"), str(folder / "fast.py"))
    node, here = str(NODE), str(folder)
    echo: dict[str, object] = {"message": "hello there"}
    entity = {"name": "Ada", "entityType": "person", "observations": ["counts"]}
    zones: dict[str, object] = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    return [
        Case("everything", "stdio", (node, everything, "stdio"), "echo", echo, "hello there"),
        Case("everything", "http", (node, everything, "streamableHttp"), "echo", echo, "hello there", "mcp"),
        Case("everything", "sse", (node, everything, "sse"), "echo", echo, "hello there", "sse"),
        Case("everything", "stdio", (node, everything, "stdio"), "trigger-elicitation-request", {}, "accept"),
        Case(
            "everything",
            "stdio",
            (node, everything, "stdio"),
            "get-structured-content",
            {"location": "Chicago"},
            "once",
        ),
        Case(
            "filesystem",
            "stdio",
            (node, files, here),
            "read_text_file",
            {"path": f"{here}/note.txt"},
            "a note",
        ),
        Case("memory", "stdio", (node, memory), "create_entities", {"entities": [entity]}, "Ada"),
        Case("time", "stdio", (python[0],), "convert_time", zones, "21:00"),
        Case("git", "stdio", (python[1],), "git_log", {"repo_path": f"{here}/repo"}, "first commit"),
        Case("fetch", "stdio", (python[2], "--allow-private-ips"), "fetch", {"url": page}, "from loopback"),
        Case("fastmcp", "stdio", (*fast, "stdio"), "add", {"a": 2, "b": 3}, "5"),
        Case("fastmcp", "http", (*fast, "http", "PORT"), "add", {"a": 2, "b": 3}, "5", "mcp"),
        Case("fastmcp", "http", (*fast, "http", "PORT"), "greet", {}, "hello", "mcp"),
        Case("fastmcp", "sse", (*fast, "sse", "PORT"), "add", {"a": 2, "b": 3}, "5", "sse"),
    ]


def free_port() -> int:
    """A port that nobody uses."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@asynccontextmanager
async def configured(case: Case, folder: Path) -> AsyncGenerator[McpServerConfig]:
    """The server as the configuration would describe it, started if it is called at a URL."""
    if not case.path:
        env = {"MEMORY_FILE_PATH": str(folder / "memory.json")}
        yield McpServerConfig(name=case.name, command=case.command, env=env, cwd=str(folder))
        return
    port = free_port()
    command = [str(port) if word == "PORT" else word for word in case.command]
    environment = {**os.environ, "PORT": str(port)}  # noqa: TID251  # a bench is an edge too
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, cwd=folder, stdin=quiet, stdout=quiet, stderr=quiet
    )
    try:
        yield McpServerConfig(name=case.name, url=f"http://127.0.0.1:{port}/{case.path}")
    finally:
        process.kill()
        await process.wait()


async def found(servers: McpServers, name: str) -> Tool | None:
    """The tool, once its server is connected."""
    for _ in range(int(START_S / 0.1)):
        for tool in servers.snapshot():
            if tool.spec.name.partition("__")[2].partition("__")[2] == name:
                return tool
        await asyncio.sleep(0.1)
    return None


async def tried(case: Case, folder: Path) -> tuple[bool, str]:
    """Call the tool; whether the answer is as expected, and what it was."""
    async with configured(case, folder) as config:
        environment = dict(os.environ)  # noqa: TID251  # a bench is an edge too
        place = ServerPlace(workspace=folder)
        async with McpServers([config], environment=environment, place=place) as servers:
            tool = await found(servers, case.tool)
            if tool is None:
                return False, servers.status()[0].why or "no such tool"
            result = await tool.run(case.args, DriverCall(folder))
            if case.expected == "once":
                return result.ok and result.text.count("temperature") == 1, result.text
            return result.ok and case.expected in result.text, result.text


def prepared(folder: Path) -> None:
    """What the servers work on."""
    (folder / "note.txt").write_text("a note\n", encoding="utf-8")
    (folder / "fast.py").write_text(FAST, encoding="utf-8")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (
        ("init", "-q", "repo"),
        ("-C", "repo", *identity, "commit", "-q", "--allow-empty", "-m", "first commit"),
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)


@asynccontextmanager
async def page_served() -> AsyncGenerator[str]:
    """A page on loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/page"
    finally:
        await asyncio.to_thread(server.shutdown)
        server.server_close()


async def run(cache: Path, wanted: Callable[[Case], bool]) -> int:
    """Try every server and print the table; the exit code."""
    for name in ("mcp-servers-node", "mcp-servers-python", "fastmcp"):
        await install(cache, name)
    failed = 0
    with tempfile.TemporaryDirectory() as made:
        folder = Path(await asyncio.to_thread(os.path.realpath, made))
        await asyncio.to_thread(prepared, folder)
        async with page_served() as page:
            for case in filter(wanted, cases(cache, folder, page)):
                is_right, said = await tried(case, folder)
                failed += not is_right
                line = " ".join(said.split())[:70]
                print(
                    f"{case.name:12}{case.wire:7}{case.tool:30}{'ok' if is_right else 'FAILED':8}{line}",
                    flush=True,
                )
    print(f"\n{failed} failed" if failed else "\nall answered")
    return 1 if failed else 0


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    cache = Path.home() / ".cache" / "holdfast-bench"
    parser.add_argument("--cache", type=Path, default=cache, help="where the servers are installed")
    parser.add_argument("--only", default="", help="try the servers whose names contain this")
    given = parser.parse_args()
    return asyncio.run(run(given.cache, lambda case: given.only in case.name))


if __name__ == "__main__":
    sys.exit(main())
