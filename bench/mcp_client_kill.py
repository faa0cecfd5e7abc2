"""The official MCP clients against a real server, which is killed with -9 while an answer is written.

python bench/mcp_client_kill.py CLIENTS_DIR. CLIENTS_DIR is where `npm i --prefix DIR node@24
@modelcontextprotocol/sdk` was run. Each client calls `run_agent`; the server is killed and started again, and
the client must get the one answer of the one run.
"""

import argparse
import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from ag_ui_client import CONFIG, WORDS, started
from holdfast.chaos import ChaosServer, SayWords, SeenRequest, Step
from holdfast.client.client import Client as HoldfastClient

KEY = "mcp-bench-key-0123456789"
BEGUN_S = 1.0
WITHIN_S = 60.0


@dataclass(frozen=True)
class Scene:
    """Where the server and the clients are."""

    home: Path
    port: int
    clients: Path

    @property
    def url(self) -> str:
        """The server's address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def program(self) -> str:
        """The command under test."""
        return str(Path(sys.executable).with_name("holdfast"))

    @property
    def environment(self) -> dict[str, str]:
        """What commands get."""
        node = self.clients / "node_modules/node/bin"
        return {"HOME": str(self.home), "PATH": f"{node}{os.pathsep}{os.defpath}"}


Way = Callable[[Scene], Awaitable[str]]


async def _called(client: Client) -> str:
    result: Any = await client.call_tool("run_agent", {"message": "slowly"})
    return result.content[0].text


async def python_http(scene: Scene) -> str:
    """Version 2025-11-25: the package itself reads on with Last-Event-ID."""
    headers = {"Authorization": f"Bearer {KEY}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(30, read=300)) as http,
        Client(streamable_http_client(f"{scene.url}/mcp", http_client=http), mode="legacy") as client,
    ):
        return await _called(client)


async def python_task(scene: Scene) -> str:
    """Version 2026-07-28: the task is polled, over as many connections as it takes."""
    meta = "io.modelcontextprotocol/"
    can: dict[str, Any] = {"extensions": {f"{meta}tasks": {}}}
    about: dict[str, Any] = {f"{meta}protocolVersion": "2026-07-28", f"{meta}clientCapabilities": can}

    async def asked(method: str, name: str, params: dict[str, Any]) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {KEY}", "Accept": "application/json, text/event-stream"}
        headers |= {"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name}
        body: dict[str, Any] = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": method,
            "params": {**params, "_meta": about},
        }
        while True:
            try:
                async with httpx2.AsyncClient(headers=headers) as http:
                    return (await http.post(f"{scene.url}/mcp", json=body)).json()["result"]
            except httpx2.TransportError:
                await asyncio.sleep(0.2)

    call = {"name": "run_agent", "arguments": {"message": "slowly"}}
    task = await asked("tools/call", "run_agent", call)
    while task["status"] == "working":
        await asyncio.sleep(0.2)
        task = await asked("tasks/get", task["taskId"], {"taskId": task["taskId"]})
    return task["result"]["content"][0]["text"]


def python_stdio(mode: str) -> Way:
    """`holdfast mcp` beside the server that is killed."""

    async def way(scene: Scene) -> str:
        started_by = StdioServerParameters(
            command=scene.program,
            args=["mcp", "--config", str(scene.home / "config.toml")],
            env=scene.environment,
            cwd=scene.home / "work",
        )
        async with Client(stdio_client(started_by), mode=mode) as client:
            return await _called(client)

    return way


def typescript(*words: str) -> Way:
    """The package for TypeScript."""

    async def way(scene: Scene) -> str:
        await asyncio.to_thread(
            shutil.copy,
            Path(__file__).with_name("mcp_client_kill.mjs"),
            scene.clients / "mcp_client_kill.mjs",
        )
        places = {"URL": f"{scene.url}/mcp", "KEY": KEY, "PROGRAM": scene.program}
        places["CONFIG"] = str(scene.home / "config.toml")
        node = str(scene.clients / "node_modules/node/bin/node")
        client = await asyncio.create_subprocess_exec(
            *(node, str(scene.clients / "mcp_client_kill.mjs")),
            *(places.get(word, word) for word in words),
            env=scene.environment,
            cwd=scene.home / "work",
            stdout=subprocess.PIPE,
        )
        try:
            said, _ = await client.communicate()
        finally:
            if client.returncode is None:
                client.kill()
                await client.wait()
        lines = said.decode().splitlines()
        return next((line[8:] for line in lines if line.startswith("answer: ")), "no answer")

    return way


WAYS: dict[str, Way] = {
    "Python, HTTP, 2025-11-25": python_http,
    "Python, HTTP, 2026-07-28 as a task": python_task,
    "Python, stdio, 2025-11-25": python_stdio("legacy"),
    "Python, stdio, 2026-07-28": python_stdio("auto"),
    "TypeScript, HTTP, 2025-11-25": typescript("http", "URL", "KEY"),
    "TypeScript, stdio, 2025-11-25": typescript("stdio", "PROGRAM", "CONFIG"),
}


def slowly(request: SeenRequest) -> list[Step]:
    """An answer that takes a few seconds."""
    del request
    return [SayWords(WORDS, pace_s=0.15)]


async def tried(name: str, clients: Path) -> bool:
    """Whether the client got the one answer."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        home = Path(folder)
        free.bind(("127.0.0.1", 0))
        scene = Scene(home, free.getsockname()[1], clients)
        free.close()
        (home / "work").mkdir()
        async with ChaosServer(choose=slowly) as chaos:
            config = CONFIG.format(port=scene.port, data=home / "data", key=KEY, url=chaos.base_url)
            (home / "config.toml").write_text(config)
            (home / "config.toml").chmod(0o600)
            server = await started(home, scene.port)
            calling = asyncio.ensure_future(WAYS[name](scene))
            try:
                async with asyncio.timeout(WITHIN_S):
                    while not chaos.seen.requests and not calling.done():  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                    await asyncio.sleep(BEGUN_S)
                    assert not calling.done(), "the answer was there before the kill"
                    server.kill()
                    await server.wait()
                    server = await started(home, scene.port)
                    answer = await calling
                async with HoldfastClient(scene.url, KEY) as client:
                    runs = len((await client.runs()).data)
            except (TimeoutError, AssertionError) as error:
                answer, runs = f"failed: {error}", -1
            finally:
                calling.cancel()
                await asyncio.wait({calling})
                server.terminate()
                await server.wait()
        good = answer == WORDS and runs == 1
        print(f"{name:38} {'pass' if good else f'FAIL: {runs} runs, {answer[:200]}'}", flush=True)
        return good


async def tried_all(clients: Path, only: str) -> bool:
    """Whether every client did."""
    return all([await tried(name, clients) for name in WAYS if only in name])


def main() -> None:
    """Run it with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clients", type=Path)
    parser.add_argument("--only", default="", help="a part of the names of ways")
    given = parser.parse_args()
    sys.exit(not asyncio.run(tried_all(given.clients.resolve(), given.only)))


if __name__ == "__main__":
    main()
