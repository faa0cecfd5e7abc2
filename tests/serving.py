"""A real server on a real socket, with the bad model server behind it, inside one test's event loop."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import uvicorn

from holdfast.agent.means import AgentMeans, nothing_is_allowed
from holdfast.chaos import ChaosServer
from holdfast.clock import SystemClock
from holdfast.interfaces import Store
from holdfast.journal.memory import MemoryStore
from holdfast.models.attempt import CallMeans
from holdfast.models.call import ModelCalls
from holdfast.models.http import ModelHttp
from holdfast.models.shared import Shared
from holdfast.server.app import make_app
from holdfast.server.stream import Streams
from holdfast.targets import Patience, RetryLimits, Target

QUICK = Patience(first_event_s=0.4, gap_s=0.4)


def target_of(chaos: ChaosServer, *, name: str = "main", patience: Patience = QUICK) -> Target:
    """The bad model server as a target that is given up on quickly."""
    return Target(
        name=name,
        wire="chat",
        base_url=chaos.base_url,
        model="m",
        api_key="sk-test-of-a-key",
        patience=patience,
        retry=RetryLimits(backoff_base_s=0.01, backoff_max_s=0.02),
    )


@dataclass(frozen=True, slots=True)
class Frame:
    """One SSE frame as a client reads it."""

    id: int
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Served:
    """A running server, as its clients see it."""

    url: str
    http: aiohttp.ClientSession

    async def post(self, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, Any]]:
        """POST JSON, or bytes as they are."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.http.post(self.url + path, data=data, headers=headers) as answer:
            return answer.status, await answer.json()

    async def get(self, path: str, **headers: str) -> tuple[int, dict[str, Any]]:
        """GET JSON."""
        async with self.http.get(self.url + path, headers=headers) as answer:
            return answer.status, await answer.json()

    async def start(self, text: str = "hi", **fields: Any) -> str:
        """Start a run and return its id."""
        status, answer = await self.post("/v1/runs", {"input": text, **fields})
        assert status == 202, answer
        return answer["run_id"]

    async def frames(
        self, run_id: str, *, view: str = "hermes", after: int | None = None
    ) -> AsyncIterator[Frame]:
        """The run's frames until the stream ends."""
        headers = {} if after is None else {"Last-Event-ID": str(after)}
        path = f"{self.url}/v1/runs/{run_id}/events?view={view}"
        async with self.http.get(path, headers=headers) as answer:
            assert answer.status in {200, 204}, await answer.text()
            seq = 0
            async for line in answer.content:
                if line.startswith(b"id: "):
                    seq = int(line[4:])
                elif line.startswith(b"data: "):
                    yield Frame(seq, json.loads(line[6:]))

    async def all_frames(self, run_id: str, *, view: str = "hermes", after: int | None = None) -> list[Frame]:
        """All of them."""
        return [frame async for frame in self.frames(run_id, view=view, after=after)]

    async def ended(self, run_id: str) -> dict[str, Any]:
        """Wait for the run's end and show it."""
        await self.all_frames(run_id)
        _, shown = await self.get(f"/v1/runs/{run_id}")
        return shown


@asynccontextmanager
async def served(*targets: Target, store: Store | None = None) -> AsyncGenerator[Served]:
    """A server on a free port; leaving it is an orderly shutdown."""
    async with AsyncExitStack() as stack:
        kept = store or MemoryStore()
        if store is None:
            stack.push_async_callback(kept.close)
        clock = SystemClock()
        http = await stack.enter_async_context(ModelHttp())
        shared = Shared(kept, clock.now_ms)
        await shared.load()
        calls = ModelCalls(CallMeans(http, shared, kept, clock, lambda: 0.5), targets)
        streams = Streams()
        app = make_app(
            AgentMeans(store=kept, model=calls, clock=clock, judge=nothing_is_allowed, tools=dict), streams
        )
        listening = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_config=None, lifespan="on", ws="none")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        client = await stack.enter_async_context(aiohttp.ClientSession())
        try:
            yield Served(f"http://127.0.0.1:{listening.getsockname()[1]}", client)
        finally:
            streams.end()
            server.should_exit = True
            await serving
