"""What a model call costs: python bench/model_calls.py [--quick] [--only burst,paced,calls,cancel].

Each figure stands beside the same work done by a loop that only reads the bytes (aiohttp, httpx2) and by the
official SDK. The model server runs in a process of its own. Ratios within one run are worth more than numbers.
"""

import argparse
import asyncio
import gc
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import httpx2
import openai
import uvloop

from holdfast.capabilities import Answer
from holdfast.clock import SystemClock
from holdfast.events import Event
from holdfast.journal.memory import MemoryStore
from holdfast.messages import ModelRequest, UserMessage
from holdfast.models.adapters import ADAPTERS
from holdfast.models.attempt import CallMeans
from holdfast.models.call import ModelCalls
from holdfast.models.http import ModelHttp
from holdfast.models.shared import Shared
from holdfast.targets import Target, Wire

WIRES: tuple[Wire, ...] = ("responses", "chat", "anthropic")
REQUEST = ModelRequest(messages=(UserMessage("hi"),))
KEY = "sk-bench-0123456789"

Client = Callable[[Wire, str], Awaitable[None]]


class Ear:
    """A voice that counts and keeps the pieces, as cheaply as a voice can."""

    def __init__(self) -> None:
        self.run_id = "run_1"
        self.live: Callable[[], str] | None = None
        self.full = False
        self.pieces: list[str] = []
        self.first_s = 0.0
        self._segment = 0

    def emit(self, event: Event) -> None:
        pass

    def say(self, segment: int, text: str) -> None:
        del segment
        if not self.first_s:
            self.first_s = time.monotonic()
        self.pieces.append(text)

    def think(self, segment: int, text: str) -> None:
        del segment, text

    def next_segment(self) -> int:
        self._segment += 1
        return self._segment

    async def room(self) -> None:
        return

    async def settled(self) -> None:
        return

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


@dataclass
class Bench:
    """All clients on one server."""

    port: int
    http: ModelHttp
    shared: Shared
    store: MemoryStore
    plain: aiohttp.ClientSession
    httpx: httpx2.AsyncClient
    openai: openai.AsyncOpenAI
    anthropic: anthropic.AsyncAnthropic

    def target(self, wire: Wire, what: str) -> Target:
        base_url = f"http://127.0.0.1:{self.port}" + ("" if wire == "anthropic" else "/v1")
        headers = {"x-bench": what}
        return Target(name=wire, wire=wire, base_url=base_url, model="m", api_key=KEY, headers=headers)

    async def ours(self, wire: Wire, what: str) -> Ear:
        clock = SystemClock()
        means = CallMeans(self.http, self.shared, self.store, clock, lambda: 0.5)
        ear = Ear()
        answer = await ModelCalls(means, (self.target(wire, what),)).answer(REQUEST, ear, turn=1)
        assert isinstance(answer, Answer), answer
        return ear

    async def by_ours(self, wire: Wire, what: str) -> None:
        await self.ours(wire, what)

    async def by_bytes(self, wire: Wire, what: str) -> None:
        request = ADAPTERS[wire].build(REQUEST, self.target(wire, what), blobs={})
        async with self.plain.post(request.url, data=request.body, headers=request.headers) as response:
            content = response.content
            while await content.readany():
                pass

    async def by_httpx2(self, wire: Wire, what: str) -> None:
        request = ADAPTERS[wire].build(REQUEST, self.target(wire, what), blobs={})
        async with self.httpx.stream(
            "POST", request.url, content=request.body, headers=request.headers
        ) as response:
            async for _ in response.aiter_raw():
                pass

    async def by_sdk(self, wire: Wire, what: str) -> None:
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


@asynccontextmanager
async def ready(port: int) -> AsyncGenerator[Bench]:
    url = f"http://127.0.0.1:{port}"
    store = MemoryStore()
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    async with (
        ModelHttp() as http,
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
        ) as plain,
        httpx2.AsyncClient(limits=limits, timeout=None) as httpx,  # noqa: S113
        openai.AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0) as of_openai,
        anthropic.AsyncAnthropic(api_key=KEY, base_url=url, max_retries=0) as of_anthropic,
    ):
        shared = Shared(store, SystemClock().now_ms)
        yield Bench(port, http, shared, store, plain, httpx, of_openai, of_anthropic)
    await store.close()


async def cost(client: Client, wire: Wire, what: str, *, at_once: int = 1) -> tuple[float, float]:
    """CPU and wall-clock seconds of so many streams at once."""
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    await asyncio.gather(*(client(wire, what) for _ in range(at_once)))
    return time.process_time() - cpu_s, time.perf_counter() - wall_s


async def tokens(bench: Bench, name: str, what: str, *, at_once: int, count: int, rounds: int) -> None:
    """One table: CPU per token of each client, beside that of the loop that only reads."""
    print(f"\n{name}: µs of CPU per token (× the bytes-only loop), median of {rounds}")
    print(
        f"{'':11}{'bytes':>9}{'ours':>9}{'×':>7}{'httpx2':>9}{'×':>7}{'SDK':>9}{'×':>7}{'SDK/ours':>10}{'tokens/s':>11}"
    )
    clients: list[Client] = [bench.by_bytes, bench.by_ours, bench.by_httpx2, bench.by_sdk]
    for wire in WIRES:
        spent: list[list[float]] = [[] for _ in clients]
        rates: list[float] = []
        for _ in range(rounds):
            for place, client in enumerate(clients):
                cpu_s, wall_s = await cost(client, wire, what, at_once=at_once)
                spent[place].append(1e6 * cpu_s / count / at_once)
                if place == 1:
                    rates.append(count * at_once / wall_s)
        plain, ours, httpx, sdk = (statistics.median(each) for each in spent)
        ratios = [statistics.median(a / b for a, b in zip(each, spent[0], strict=True)) for each in spent]
        print(
            f"{wire:11}{plain:9.2f}{ours:9.2f}{ratios[1]:7.2f}{httpx:9.2f}{ratios[2]:7.2f}{sdk:9.2f}{ratios[3]:7.1f}"
            f"{sdk / ours:10.1f}{statistics.median(rates):11,.0f}"
        )


async def calls(bench: Bench, count: int) -> None:
    """What one call costs that says one word, and how soon that word is an event."""
    print(
        f"\none call of one word: ms of CPU, and ms from the server's first byte to the first event ({count} calls)"
    )
    for wire in WIRES:
        row: list[float] = []
        for client in (bench.by_bytes, bench.by_ours, bench.by_httpx2, bench.by_sdk):
            await client(wire, "burst 1")
            cpu_s = time.process_time()
            for _ in range(count):
                await client(wire, "burst 1")
            row.append(1000 * (time.process_time() - cpu_s) / count)
        late: list[float] = []
        for _ in range(count):
            ear = await bench.ours(wire, "stamp")
            late.append(1000 * (ear.first_s - float("".join(ear.pieces))))
        late.sort()
        print(
            f"{wire:11} bytes {row[0]:.2f}  ours {row[1]:.2f}  httpx2 {row[2]:.2f}  SDK {row[3]:.2f}"
            f"   first event after {statistics.median(late):.2f} ms, p99 {late[int(0.99 * len(late))]:.2f}"
        )


async def cancels(bench: Bench, count: int) -> None:
    """How long after a cancel the server sees the close."""
    print(f"\nfrom cancel to the server seeing the close, in ms ({count} calls)")
    for wire in WIRES:
        late: list[float] = []
        for _ in range(count):
            task = asyncio.create_task(bench.by_ours(wire, "paced 1000 20"))
            await asyncio.sleep(0.03)
            cancel_s = time.monotonic()
            task.cancel()
            await asyncio.wait([task])
            closed_s = 0.0
            while closed_s < cancel_s:
                async with bench.plain.get(f"http://127.0.0.1:{bench.port}/closed") as answer:
                    closed_s = float(await answer.text())
            late.append(1000 * (closed_s - cancel_s))
        late.sort()
        print(f"{wire:11} median {statistics.median(late):.2f}  worst {late[-1]:.2f}")


async def crowd(bench: Bench, at_once: int) -> None:
    """Many calls at the same moment."""
    print(f"\n{at_once} calls at once, 50 tokens each")
    for wire in WIRES:
        for name, client in (("bytes", bench.by_bytes), ("ours", bench.by_ours)):
            await cost(client, wire, "burst 50", at_once=at_once)
            cpu_s, wall_s = await cost(client, wire, "burst 50", at_once=at_once)
            print(
                f"{wire:11} {name:6} {1000 * wall_s:7.0f} ms, {1000 * cpu_s / at_once:.2f} ms of CPU per call"
            )


async def measure(port: int, given: argparse.Namespace) -> None:
    quick, only = given.quick, set(given.only.split(","))
    rounds, count, paced = (3, 10_000, 100) if quick else (7, 40_000, 300)
    async with ready(port) as bench:
        for wire in WIRES:
            for client in (bench.by_bytes, bench.by_ours, bench.by_httpx2, bench.by_sdk):
                await client(wire, "burst 500")
        # The SDKs are large: without this, everyone pays for walking through them.
        gc.collect()
        gc.freeze()
        if "burst" in only:
            await tokens(bench, "burst, 1 stream", f"burst {count}", at_once=1, count=count, rounds=rounds)
        if "paced" in only:
            for at_once in (8, 64):
                name = f"paced, {at_once} streams"
                few = 1 if quick else 3
                await tokens(bench, name, f"paced {paced} 20", at_once=at_once, count=paced, rounds=few)
        if "calls" in only:
            await calls(bench, 100 if quick else 400)
            await crowd(bench, 200)
        if "cancel" in only:
            await cancels(bench, 10 if quick else 50)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--only", default="burst,paced,calls,cancel")
    given = options.parse_args()
    server = Path(__file__).with_name("fake_model.py")
    with subprocess.Popen([sys.executable, server], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        try:
            uvloop.run(measure(port, given))
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
