"""What a run feels of its neighbours: the first token of a new run on an idle server and on a busy one.

python bench/delta_batcher.py [--streams 64] [--runs 20]

Busy is: so many runs that stream, and one whose tool keeps a processor busy in its own process.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp

from holdfast.chaos import CallTool, ChaosServer, Say
from load import TARGET, Load, Server, Way, script

CONFIG = """
[server]
port = 0
data_dir = "{folder}/data"
api_keys = []
drain_s = 0
max_concurrent_runs = 1024
[agent]
workspace = "{folder}"
[[targets]]
name = "tool"
wire = "chat"
base_url = "{url}"
model = "m"
"""
PACED, QUICK = "paced 3000 20", "burst 5"
SPIN = "for (( n = 0; n < 10**12; n++ )); do :; done"


@asynccontextmanager
async def serving(folder: Path, tool_url: str, model_url: str) -> AsyncGenerator[Server]:
    """A server with three targets: one calls the tool, one streams, one answers at once."""
    text = CONFIG.format(folder=folder, url=tool_url)
    for name, what in {"paced": PACED, "quick": QUICK}.items():
        text += TARGET.format(name=name, url=model_url, what=what)
    await asyncio.to_thread((folder / "holdfast.toml").write_text, text, encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        *(".venv/bin/holdfast", "serve", "--config", str(folder / "holdfast.toml")),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    greeting = (await process.stdout.readline()).decode()
    try:
        yield Server(process.pid, next(word for word in greeting.split() if word.startswith("http://")))
    finally:
        process.terminate()
        await process.wait()


async def first_tokens_ms(way: Way, http: aiohttp.ClientSession, *, runs: int) -> list[float]:
    """The first token of so many runs, one after the other."""
    load = Load()
    for _ in range(runs):
        await way.ask(http, QUICK, target="quick", load=load)
    return load.first_ms


async def spin(way: Way, http: aiohttp.ClientSession) -> None:
    """Start the run whose tool keeps a processor busy, and allow it."""
    url = way.server.url
    async with http.post(f"{url}/v1/runs", json={"input": "spin", "model": "tool"}) as answer:
        run_id = (await answer.json())["run_id"]
    while True:
        async with http.get(f"{url}/v1/runs/{run_id}") as answer:
            run = await answer.json()
        if run.get("approval"):
            allow = {"choice": "once", "approval_id": run["approval"]["approval_id"]}
            async with http.post(f"{url}/v1/runs/{run_id}/approval", json=allow) as answer:
                assert answer.status == 200
        if run["last_event"] == "tool.started":
            return
        await asyncio.sleep(0.05)


def line(name: str, first_ms: list[float]) -> str:
    """Median and worst."""
    return f"{name:<44} median {statistics.median(first_ms):7.1f} ms   worst {max(first_ms):7.1f} ms"


async def measure(options: argparse.Namespace, model: Server, folder: Path) -> None:
    """Idle, then busy."""
    async with AsyncExitStack() as stack:
        chaos = await stack.enter_async_context(
            ChaosServer([CallTool("shell", {"command": SPIN})], [Say("")])
        )
        server = await stack.enter_async_context(serving(folder, chaos.base_url, model.url))
        connector = aiohttp.TCPConnector(limit=0)
        http = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        way = Way("runs", server, "runs")
        await first_tokens_ms(way, http, runs=5)
        idle = await first_tokens_ms(way, http, runs=options.runs)
        print(line("an idle server", idle), flush=True)
        began = [
            asyncio.create_task(way.ask(http, PACED, target="paced", load=Load()))
            for _ in range(options.streams)
        ]
        await spin(way, http)
        await asyncio.sleep(2)
        cpu_s, wall_s = server.cpu_s(), time.perf_counter()
        busy = await first_tokens_ms(way, http, runs=options.runs)
        share = (server.cpu_s() - cpu_s) / (time.perf_counter() - wall_s)
        print(line(f"{options.streams} runs stream, one tool spins", busy))
        ratio = statistics.median(busy) / statistics.median(idle)
        print(f"{ratio:.1f} times the idle median; the server used {share:.0%} of a processor")
        for task in began:
            task.cancel()
        await asyncio.wait(began)


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    with script("fake_model.py") as model, tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(options, model, Path(folder)))


if __name__ == "__main__":
    main()
