"""Several `holdfast serve` processes with one Postgres; each reaches it through a proxy of its own."""

import asyncio
import random
import signal
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from typing_extensions import override

from fakes.tcp_proxy import TcpProxy
from forked import Forked
from ports import reserved_port
from postgres_lab import PostgresServer, own_server, proxied
from runner.campaign_users import GONE, Server
from runner.program import configure, start_server

START_S = 60.0
DRAIN_S = 1.0
SHUTDOWN_S = 30.0  # the longest that an orderly end may take, whatever the database does


@dataclass(slots=True)
class ServerNode:
    """A server, in one life or the next, always on the same port."""

    name: str
    folder: Path
    port: int
    http: aiohttp.ClientSession
    process: Forked | None = None
    broken: list[str] = field(default_factory=list[str])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def output(self) -> str:
        """What it has said in all its lives."""
        return (self.folder / "output.log").read_text("utf-8", errors="replace")

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.returncode is None

    async def start(self) -> None:
        """Begin a life; it may take a while until it answers."""
        assert not self.is_alive
        with (self.folder / "output.log").open("ab") as output:
            self.process = await start_server(self.folder, output=output)

    async def until_up(self) -> None:
        """Wait until it answers."""
        async with asyncio.timeout(START_S):
            while not await self.answers("/health"):
                assert self.is_alive, f"{self.name} ended while it started:\n{self.output[-3000:]}"
                await asyncio.sleep(0.1)

    async def answers(self, path: str) -> bool:
        """Whether it answers a request with success."""
        with suppress(*GONE):
            async with self.http.get(self.url + path) as answer:
                return answer.status == 200
        return False

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the server alone, not to what it started; that it has ended is a finding."""
        assert self.process is not None
        if self.is_alive:
            self.process.send_signal(number)
        else:
            said = [line for line in self.output.splitlines() if line.strip()][-2:]
            self.broken.append(f"{self.name} ended by itself with {self.process.returncode}: {said}")

    async def kill(self) -> None:
        """End the life at once."""
        assert self.process is not None
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()

    async def shut_down(self) -> None:
        """End the life in order; that it takes too long, or ends with an error, is a finding."""
        assert self.process is not None
        is_up = await self.answers("/health")  # until then, a signal just ends it
        self.signal(signal.SIGTERM)
        began_s = time.monotonic()
        try:
            async with asyncio.timeout(SHUTDOWN_S):
                code = await self.process.wait()
        except TimeoutError:
            self.broken.append(f"{self.name} did not end within {SHUTDOWN_S:g} s of SIGTERM")
            await self.kill()
            return
        took_s = time.monotonic() - began_s
        if code != 0 and (is_up or code != -signal.SIGTERM):
            self.broken.append(f"{self.name} ended with {code} {took_s:.1f} s after SIGTERM")


@dataclass(slots=True)
class ClusterNode(ServerNode):
    """One of several servers, with its own way to the database."""

    proxy: TcpProxy = field(kw_only=True)


class Cluster(Server):
    """The servers as users know them: any of them takes any request."""

    def __init__(
        self,
        http: aiohttp.ClientSession,
        nodes: Sequence[ClusterNode],
        postgres: PostgresServer,
        dsn: str,
        *,
        chance: random.Random,
    ) -> None:
        super().__init__(http, look_s=0.2)
        self.nodes = nodes
        self.postgres = postgres
        self.dsn = dsn
        self._chance = chance
        self.is_up.set()

    @override
    def address(self) -> str:
        return self._chance.choice(self.nodes).url

    @property
    def broken(self) -> list[str]:
        """What was wrong with the processes themselves."""
        return [text for node in self.nodes for text in node.broken]


@asynccontextmanager
async def cluster(
    folder: Path, model_url: str, http: aiohttp.ClientSession, *, nodes: int, seed: int
) -> AsyncGenerator[Cluster]:
    """Started servers with one workspace; whatever still runs at the end is killed."""
    workspace = folder / "work"
    async with AsyncExitStack() as stack:
        postgres = await asyncio.to_thread(own_server)
        stack.push_async_callback(asyncio.to_thread, postgres.close)
        dsn = await asyncio.to_thread(postgres.database)
        made: list[ClusterNode] = []
        for nth in range(nodes):
            proxy, through = await stack.enter_async_context(proxied(postgres, dsn))
            node = ClusterNode(
                f"node-{nth + 1}", folder / f"node-{nth + 1}", reserved_port(), http, proxy=proxy
            )
            _configure(node, model_url, through, workspace=workspace)
            stack.push_async_callback(end, node)
            made.append(node)
        for node in made:
            await node.start()
        for node in made:
            await node.until_up()
        yield Cluster(http, made, postgres, dsn, chance=random.Random(f"{seed} addresses"))


def _configure(node: ClusterNode, model_url: str, dsn: str, *, workspace: Path) -> None:
    node.folder.mkdir()
    server = (
        f'port = {node.port}\nstore = "{dsn}"\nnode_name = "{node.name}"\nnode_url = "{node.url}"\n'
        f'volumes = {{ shared = "{workspace}" }}\n'
    )
    configure(node.folder, model_url, drain_s=DRAIN_S, workspace=workspace, server=server)
    (node.folder / "holdfast.toml").chmod(0o600)


async def end(node: ServerNode) -> None:
    """Kill a server that still runs."""
    if node.is_alive:
        node.signal(signal.SIGCONT)
        await node.kill()
