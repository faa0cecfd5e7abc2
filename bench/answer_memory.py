"""What a long answer costs the server: resident memory at its peak, and time, per megabyte of the answer.

python bench/answer_memory.py [--mb 8 32] [--piece 24] [--reader native hermes chat list]

The server is a process of its own; the model server and the reader are this one. With `list` nobody reads the
answer, but somebody asks for the list of runs again and again. It fails if an answer costs more than four
times its size.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from restart import serving

MB = 1_000_000
COST_MAX = 4.0
WARM_UP = 40
LOOK_S = 0.2
CONFIG = """
[server]
port = 0
data_dir = "{folder}/data"
api_keys = []
[agent]
workspace = "{folder}"
answer_bytes_max = 200_000_000
[[targets]]
name = "main"
wire = "chat"
base_url = "{url}"
model = "m"
"""
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
CHUNK = b'data: {"choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]}\n\n'
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


class Model:
    """Answers in pieces of some size; `answer_bytes` says how long the next answers are."""

    def __init__(self, piece_bytes: int) -> None:
        self.answer_bytes = 100
        self.url = ""
        self._piece = (b"word and " * piece_bytes)[:piece_bytes]

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        await reader.readexactly(length)
        writer.write(HEAD)
        left = self.answer_bytes
        block = CHUNK % self._piece * 200
        try:
            while left > 0:
                writer.write(block)
                left -= 200 * len(self._piece)
                await writer.drain()
            writer.write(END)
            await writer.drain()
        except ConnectionError:
            pass  # it was cut off
        finally:
            writer.close()


@asynccontextmanager
async def modelling(piece_bytes: int) -> AsyncGenerator[Model]:
    """A model server on a port of its own."""
    model = Model(piece_bytes)
    server = await asyncio.start_server(model.answer, "127.0.0.1", 0)
    async with server:
        model.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        yield model


def resident_bytes(pid: int, name: str) -> int:
    """`VmRSS` or `VmHWM` of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise AssertionError(name)


def forget_peak(pid: int) -> None:
    """From now on the peak is measured anew."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


async def read(http: aiohttp.ClientSession, url: str, reader: str) -> None:
    """Ask, and read the answer to its end in one of the ways."""
    if reader == "chat":
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "go"}]}
        async with http.post(f"{url}/v1/chat/completions", json=body) as answer:
            async for _ in answer.content.iter_any():
                pass
        return
    async with http.post(f"{url}/v1/runs", json={"input": "go"}) as answer:
        run_id = (await answer.json())["run_id"]
    if reader == "list":
        state = "running"
        while state in {"queued", "running"}:
            await asyncio.sleep(LOOK_S)
            async with http.get(f"{url}/v1/runs?limit=1") as answer:
                state = (await answer.json())["data"][0]["status"]
        return
    async with http.get(f"{url}/v1/runs/{run_id}/events?view={reader}") as answer:
        async for _ in answer.content.iter_any():
            pass


async def measure(reader: str, mb: int, *, piece_bytes: int) -> float:
    """How many times its size an answer costs."""
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp))
    async with modelling(piece_bytes) as model:
        (folder / "holdfast.toml").write_text(CONFIG.format(folder=folder, url=model.url))
        timeout = aiohttp.ClientTimeout(total=None)
        async with serving(folder) as server, aiohttp.ClientSession(timeout=timeout) as http:
            # The caches of the store have a size of their own; many small answers fill them.
            model.answer_bytes = 400_000
            for _ in range(WARM_UP):
                await read(http, server.url, reader)
            pid = server.process.pid
            forget_peak(pid)
            before = resident_bytes(pid, "VmRSS")
            model.answer_bytes = mb * MB
            began_s = time.perf_counter()
            await read(http, server.url, reader)
            took_s = time.perf_counter() - began_s
            peak = resident_bytes(pid, "VmHWM")
    cost = (peak - before) / (mb * MB)
    print(f"{reader:<8} {mb:4} MB in pieces of {piece_bytes}: {cost:5.2f} x, {took_s:6.1f} s", flush=True)
    return cost


async def main() -> int:
    """Measure what was asked for; the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--piece", type=int, default=24)
    parser.add_argument("--reader", nargs="+", default=["native", "hermes", "chat"])
    options = parser.parse_args()
    costs = [
        await measure(reader, mb, piece_bytes=options.piece) for reader in options.reader for mb in options.mb
    ]
    return 1 if max(costs) > COST_MAX else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
