"""How many calls one text delta costs the server, from the model's socket to the frame of a hermes reader.

python bench/delta_calls.py [--deltas 100] [--top 60]

The server is a process of its own with a profiler that counts the calls of Python functions in this package
(a coroutine that goes on is a call, too). The model sends the next delta when the reader has the frame of the
one before, so that none are batched. Servers with more deltas, and with more runs, give the cost of one delta
and of one run by their difference.
"""

import argparse
import asyncio
import atexit
import json
import signal
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType

import aiohttp

CONFIG = """
[server]
port = 0
data_dir = "{folder}/data"
api_keys = []
[agent]
workspace = "{folder}"
[[targets]]
name = "main"
wire = "chat"
base_url = "{url}"
model = "m"
"""
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
CHUNK = b'data: {"choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}\n\n'
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def serve_counted(config: str, out: str) -> None:
    """Be the server, and leave the counts in a file at the end."""
    counts: Counter[str] = Counter()

    def count(frame: FrameType, kind: str, _: object) -> None:
        if kind == "call":
            _, found, where = frame.f_code.co_filename.rpartition("/holdfast/")
            if found:
                counts[f"{where}:{frame.f_code.co_qualname}"] += 1

    from holdfast.cli.main import main  # imports are not what is counted

    atexit.register(lambda: Path(out).write_text(json.dumps(counts)))
    sys.argv = ["holdfast", "serve", "--config", config]
    threading.setprofile(count)
    sys.setprofile(count)
    main()


class Model:
    """Sends one delta each time that the reader has seen the last."""

    def __init__(self, deltas: int) -> None:
        self.seen = asyncio.Event()
        self._deltas = deltas

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        await reader.readexactly(length)
        writer.write(HEAD)
        for _ in range(self._deltas):
            self.seen.clear()
            writer.write(CHUNK)
            await writer.drain()
            await self.seen.wait()
        writer.write(END)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def serving(folder: Path) -> AsyncGenerator[str]:
    """A server that counts; its URL."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__, "--serve", str(folder / "holdfast.toml"), str(folder / "counts.json")),
        stdout=asyncio.subprocess.PIPE,
        cwd=folder,
    )
    assert process.stdout is not None
    try:
        greeting = (await process.stdout.readline()).decode()
        yield next(word for word in greeting.split() if word.startswith("http://"))
        process.send_signal(signal.SIGTERM)
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def counted(*, runs: int, deltas: int) -> Counter[str]:
    """The calls of a server that carried out so many runs of so many deltas, each with one reader."""
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp))
    model = Model(deltas)
    async with await asyncio.start_server(model.answer, "127.0.0.1", 0) as listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        (folder / "holdfast.toml").write_text(CONFIG.format(folder=folder, url=url))
        async with serving(folder) as server, aiohttp.ClientSession(server) as http:
            for _ in range(runs):
                async with http.post("/v1/runs", json={"input": "hi"}) as started:
                    run_id = (await started.json())["run_id"]
                async with http.get(f"/v1/runs/{run_id}/events") as events:
                    async for line in events.content:
                        if b'"message.delta"' in line:
                            model.seen.set()
    return Counter(json.loads((folder / "counts.json").read_text()))


async def measure(deltas: int, top: int) -> None:
    """Print what one delta and one run cost."""
    base = await counted(runs=2, deltas=deltas)
    longer = await counted(runs=2, deltas=2 * deltas)
    more = await counted(runs=4, deltas=deltas)
    of_delta = {name: (longer[name] - base[name]) / (2 * deltas) for name in longer}
    # What happens now and then, on a timer or for every so many records, is not the path of a delta.
    path = {name: calls for name, calls in of_delta.items() if calls >= 0.5}
    modules = {name.partition(":")[0] for name in path}
    of_run = sum((more[name] - base[name]) / 2 - deltas * of_delta.get(name, 0.0) for name in more)
    for name, calls in sorted(path.items(), key=lambda one: -one[1])[:top]:
        print(f"{calls:6.2f}  {name}")
    print(f"one delta: {sum(path.values()):.0f} calls in {len(modules)} modules")
    print(f"one run beside its deltas: {of_run:.0f} calls")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve_counted(sys.argv[2], sys.argv[3])
    else:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("--deltas", type=int, default=100)
        parser.add_argument("--top", type=int, default=60)
        given = parser.parse_args()
        asyncio.run(measure(given.deltas, given.top))
