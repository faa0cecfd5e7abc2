"""Servers under test as processes, their CPU time and memory, and a client that counts tokens."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import aiohttp

TEXT = b'delta":'  # from here on a line is text
LETTER = b"k"  # each token has one, and what stands around tokens in a line has none
WHATS = {"burst": "burst 50", "paced": "paced 50 20", "long": "burst 20000", "read": "paced 200 20"}
WHATS["idle"] = "paced 2 60000"
CHAT_PATH = "/v1/chat/completions"
CHAT_BODY = b'{"model":"%b","stream":true,"messages":[{"role":"user","content":"hi"}]}'
CONFIG = """
[server]
port = 0
data_dir = "{folder}/data"
api_keys = []
max_concurrent_runs = 1024
[server.limits]
queued_runs_max = 4096
[agent]
workspace = "{folder}"
"""
TARGET = """
[[targets]]
name = "{name}"
wire = "chat"
base_url = "{url}/v1"
model = "m"
headers = {{ "x-bench" = "{what}" }}
"""


@dataclass(frozen=True)
class Server:
    """A process that answers on a port."""

    pid: int
    url: str

    def cpu_s(self) -> float:
        """The CPU time that the process has used, all its threads together."""
        return time.clock_gettime((~self.pid << 3) | 2)

    def rss_bytes(self) -> int:
        """The memory that it holds."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def script(name: str, *arguments: str) -> Generator[Server]:
    """One of the scripts beside this one that print their port."""
    path = Path(__file__).with_name(name)
    command = [sys.executable, path, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield Server(process.pid, f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.terminate()


@contextmanager
def holdfast(
    folder: Path, model_url: str, whats: dict[str, str], *, python: str = sys.executable
) -> Generator[Server]:
    """`holdfast serve` on a data directory in the folder; each name in `whats` is a target."""
    targets = [TARGET.format(name=name, url=model_url, what=what) for name, what in whats.items()]
    config = folder / "holdfast.toml"
    config.write_text(CONFIG.format(folder=folder) + "".join(targets), encoding="utf-8")
    command = [python, "-m", "holdfast", "serve", "--config", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        assert process.stdout is not None
        greeting = process.stdout.readline()
        try:
            yield Server(process.pid, next(word for word in greeting.split() if word.startswith("http://")))
        finally:
            process.terminate()
            process.communicate()


@dataclass
class Load:
    """What a number of streams brought: when each had its first token, and how many tokens came."""

    tokens: int = 0
    first_ms: list[float] = field(default_factory=list[float])
    lost: int = 0


@dataclass(frozen=True)
class Way:
    """One way to ask for a stream."""

    name: str
    server: Server
    route: Literal["runs", "agent chat", "relay", "forwarder"]

    async def ask(self, http: aiohttp.ClientSession, what: str, *, target: str, load: Load) -> None:
        """One stream from the first request to its end."""
        wanted, count, began_s = int(what.split()[1]), 0, time.perf_counter()
        async for line in self._lines(http, what, target):
            found = line[line.find(TEXT) :].count(LETTER)
            if found and not count:
                load.first_ms.append(1000 * (time.perf_counter() - began_s))
            count += found
        load.tokens += count
        load.lost += count != wanted

    async def _lines(self, http: aiohttp.ClientSession, what: str, target: str) -> AsyncIterator[bytes]:
        url = self.server.url
        if self.route == "forwarder":
            async for line in lines(http, "POST", url + "/", what=what):
                yield line
        elif self.route != "runs":
            model = f"holdfast/{target}" if self.route == "agent chat" else target
            async for line in lines(http, "POST", url + CHAT_PATH, body=CHAT_BODY % model.encode()):
                yield line
        else:
            body = b'{"input":"hi","model":"%b"}' % target.encode()
            async with http.post(f"{url}/v1/runs", data=body) as answer:
                run_id = (await answer.json())["run_id"]
            async for line in lines(http, "GET", f"{url}/v1/runs/{run_id}/events"):
                if b'"message.delta"' in line:
                    yield line


async def lines(
    http: aiohttp.ClientSession, method: str, url: str, *, what: str = "", body: bytes | None = None
) -> AsyncIterator[bytes]:
    """The lines of a stream, however it was cut."""
    headers = {"x-bench": what} if what else {}
    async with http.request(method, url, data=body, headers=headers) as answer:
        rest = b""
        while piece := await answer.content.readany():
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line


async def at_once(
    way: Way, what: str, *, target: str, streams: int, clients: int
) -> tuple[Load, float, float]:
    """So many streams from so many clients: what they brought, and the CPU and wall-clock seconds."""
    load, left = Load(), iter(range(streams))
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        connector=connector, timeout=aiohttp.ClientTimeout(total=None), read_bufsize=2**20
    ) as http:

        async def client() -> None:
            for _ in left:
                await way.ask(http, what, target=target, load=load)

        cpu_s, wall_s = way.server.cpu_s(), time.perf_counter()
        await asyncio.gather(*(client() for _ in range(clients)))
        return load, way.server.cpu_s() - cpu_s, time.perf_counter() - wall_s
