"""The clients that bench/model_calls.py compares: ours, some that do less, the official SDKs."""

import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp
import anthropic
import httpx2
import msgspec
import openai

from holdfast import events as e
from holdfast.agent.runlog import RunLog
from holdfast.interfaces.journal import Store
from holdfast.interfaces.model import Answer, EventSink
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.memory import MemoryStore
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.messages import ModelRequest, UserMessage
from holdfast.models.adapters import adapter_of
from holdfast.models.call import ModelCalls
from holdfast.models.call_deps import CallDeps
from holdfast.models.http import ModelHttp
from holdfast.models.target_states import TargetStates
from holdfast.redaction import NO_SECRETS
from holdfast.targets import Target, Wire

REQUEST = ModelRequest(messages=(UserMessage("hi"),))
KEY = "sk-bench-0123456789"

Client: TypeAlias = Callable[[Wire, str], Awaitable[None]]


class _Said(msgspec.Struct):
    content: str = ""
    text: str = ""


class _Choice(msgspec.Struct):
    delta: _Said


class _Frame(msgspec.Struct):
    """As little of a frame as its text can be found with, on any wire."""

    delta: str | _Said = ""
    choices: tuple[_Choice, ...] = ()


_DECODE = msgspec.json.Decoder(_Frame).decode


class Ear:
    """A voice that keeps the pieces of the answer, as cheaply as a voice can."""

    def __init__(self) -> None:
        self.run_id = "run_1"
        self.resumed = False
        self.live: Callable[[], str] | None = None
        self.full = False
        self.pieces: list[str] = []
        self.first_s = 0.0
        self._segment = 0

    def emit(self, event: e.Event) -> None:
        """See Voice."""

    def say(self, segment: int, text: str) -> None:
        """See Voice."""
        del segment
        if not self.first_s:
            self.first_s = time.monotonic()
        self.pieces.append(text)

    def think(self, segment: int, text: str) -> None:
        """See Voice."""

    def next_segment(self) -> int:
        """See Voice."""
        self._segment += 1
        return self._segment

    async def room(self) -> None:
        """See Voice."""

    async def flush(self) -> None:
        """See Voice."""

    def now_ms(self) -> int:
        """See Voice."""
        return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class Clients:
    """All of them, on one server; each method takes a wire and what the server is to do, and does it."""

    port: int
    http: ModelHttp
    shared: TargetStates
    memory: MemoryStore
    sqlite: SqliteStore
    plain: aiohttp.ClientSession
    httpx: httpx2.AsyncClient
    openai: openai.AsyncOpenAI
    anthropic: anthropic.AsyncAnthropic
    numbers: Iterator[int] = field(default_factory=count)

    def target(self, wire: Wire, what: str) -> Target:
        """The server, told what to do."""
        base_url = f"http://127.0.0.1:{self.port}" + ("" if wire == "anthropic" else "/v1")
        headers = {"x-bench": what}
        return Target(name=wire, wire=wire, base_url=base_url, model="m", api_key=KEY, headers=headers)

    async def heard(self, wire: Wire, what: str) -> Ear:
        """Ours, with what was heard."""
        ear = Ear()
        await self._call(wire, what, ear)
        return ear

    async def ours(self, wire: Wire, what: str) -> None:
        """Ours: from the call to the events."""
        await self.heard(wire, what)

    async def to_memory(self, wire: Wire, what: str) -> None:
        """Ours, on to a log in memory."""
        await self._logged(wire, what, self.memory)

    async def to_sqlite(self, wire: Wire, what: str) -> None:
        """Ours, on to a log on disk."""
        await self._logged(wire, what, self.sqlite)

    async def only_bytes(self, wire: Wire, what: str) -> None:
        """The same HTTP client, reading and forgetting."""
        request = adapter_of(wire).build(REQUEST, self.target(wire, what), blobs={})
        async with self.plain.post(request.url, data=request.body, headers=request.headers) as response:
            content = response.content
            while await content.readany():
                pass

    async def decoded(self, wire: Wire, what: str) -> None:
        """The same, with each frame cut out and decoded: nobody who wants the text can do less."""
        request = adapter_of(wire).build(REQUEST, self.target(wire, what), blobs={})
        async with self.plain.post(request.url, data=request.body, headers=request.headers) as response:
            content, rest = response.content, b""
            while piece := await content.readany():
                *frames, rest = (rest + piece).split(b"\n\n")
                for frame in frames:
                    data = frame[frame.find(b"data: ") + 6 :]
                    if data.startswith(b"{"):
                        _DECODE(data)

    async def httpx_bytes(self, wire: Wire, what: str) -> None:
        """The HTTP client of the SDKs, reading and forgetting."""
        request = adapter_of(wire).build(REQUEST, self.target(wire, what), blobs={})
        stream = self.httpx.stream("POST", request.url, content=request.body, headers=request.headers)
        async with stream as response:
            async for _ in response.aiter_raw():
                pass

    async def sdk(self, wire: Wire, what: str) -> None:
        """The official package of the wire."""
        headers = {"x-bench": what}
        said: Any = [{"role": "user", "content": "hi"}]
        stream: Any
        if wire == "anthropic":
            stream = await self.anthropic.messages.create(
                model="m", messages=said, max_tokens=99, stream=True, extra_headers=headers
            )
        elif wire == "chat":
            stream = await self.openai.chat.completions.create(
                model="m", messages=said, stream=True, extra_headers=headers
            )
        else:
            stream = await self.openai.responses.create(
                model="m", input="hi", stream=True, extra_headers=headers
            )
        async for _ in stream:
            pass

    async def _call(self, wire: Wire, what: str, sink: EventSink) -> None:
        deps = CallDeps(lambda: self.http, self.shared, self.memory, SystemClock(), lambda: 0.5)
        answer = await ModelCalls(deps, (self.target(wire, what),)).answer(REQUEST, sink, turn=1)
        assert isinstance(answer, Answer), answer

    async def _logged(self, wire: Wire, what: str, store: Store) -> None:
        number, clock = next(self.numbers), SystemClock()
        session_id = f"s{number}"
        await store.append(session_id, [e.SessionCreated(at_ms=clock.now_ms(), epoch="x")])
        fence = await store.claim(session_id)
        async with RunLog(store, clock, run=(session_id, f"r{number}"), fence=fence) as log:
            await self._call(wire, what, log)
            await log.flush()


@asynccontextmanager
async def clients_of(port: int) -> AsyncGenerator[Clients]:
    """All clients, ready to ask the server on this port."""
    url = f"http://127.0.0.1:{port}"
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    with tempfile.TemporaryDirectory() as folder:
        memory, sqlite = (
            MemoryStore(NO_SECRETS),
            await SqliteStore.open(Path(folder) / "bench.db", NO_SECRETS),
        )
        async with (
            ModelHttp() as http,
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
            ) as plain,
            httpx2.AsyncClient(limits=limits, timeout=None) as httpx,
            openai.AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0) as of_openai,
            anthropic.AsyncAnthropic(api_key=KEY, base_url=url, max_retries=0) as of_anthropic,
        ):
            shared = TargetStates(memory, SystemClock())
            yield Clients(port, http, shared, memory, sqlite, plain, httpx, of_openai, of_anthropic)
        await sqlite.close()
        await memory.close()
