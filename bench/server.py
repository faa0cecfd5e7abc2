"""What the whole server costs: python bench/server.py [--quick] [--only burst,paced,stream,readers,…].

Each figure stands beside the same work done by a bare forwarder (the same HTTP client, uvicorn, no journal,
no agent) in the same run, by one that saves each piece with an fsync before it sends it (between the two lies
the price of losing nothing), and by the least server that keeps runs (bench/least.py). "runs" is POST
/v1/runs and its event stream; "agent chat" and "relay" are both POST /v1/chat/completions, where the model's
name says whether the agent answers or the request is passed on to the provider. The model server and the
servers under test are processes of their own; tokens are counted at the client, CPU at the server. The
machine is never quiet, so each figure has its ratio to the least server's in the same round behind it.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import aiohttp
import uvloop

from load import WHATS, Server, Way, at_once, holdfast, lines, script

ALL = "burst,paced,stream,readers,memory,start"


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))] if values else 0.0


async def crowd(ways: list[Way], target: str, *, rounds: int, clients: int) -> None:
    """One line: runs/s, CPU per token and time to the first token, each with its ratio to the last way's."""
    what, streams = WHATS[target], clients * (4 if target == "burst" else 2) + 8
    found: dict[str, list[tuple[float, float, float, float]]] = {way.name: [] for way in ways}
    lost = 0
    for _ in range(rounds):
        for way in ways:
            load, cpu_s, wall_s = await at_once(way, what, target=target, streams=streams, clients=clients)
            lost += load.lost
            first = (statistics.median(load.first_ms), percentile(load.first_ms, 0.95))
            found[way.name].append((streams / wall_s, 1e6 * cpu_s / max(load.tokens, 1), *first))
    cells: list[str] = []
    base = found[ways[-1].name]
    for name, rows in found.items():
        rate, cpu, first, late = (statistics.median(column) for column in zip(*rows, strict=True))
        times = [statistics.median(a[n] / b[n] for a, b in zip(rows, base, strict=True)) for n in range(4)]
        cells.append(
            f"{name}: {rate:6.1f} runs/s ({times[0]:.2f})  {cpu:6.1f} µs/token ({times[1]:.1f})"
            f"  first {first:6.1f} ms ({times[2]:.1f}) p95 {late:6.1f} ms ({times[3]:.1f})"
        )
    print(f"{target} {clients:4} at once  " + " | ".join(cells) + (f"  LOST {lost}" if lost else ""))


async def one_stream(ways: list[Way], rounds: int) -> None:
    """One stream of 20,000 tokens."""
    for way in ways:
        rates: list[float] = []
        costs: list[float] = []
        for _ in range(rounds):
            load, cpu_s, wall_s = await at_once(way, WHATS["long"], target="long", streams=1, clients=1)
            assert not load.lost, load
            rates.append(load.tokens / wall_s)
            costs.append(1e6 * cpu_s / load.tokens)
        print(
            f"one stream of 20,000, {way.name}: {statistics.median(rates):,.0f} tokens/s, "
            f"{statistics.median(costs):.1f} µs of CPU per token"
        )


async def readers(server: Server, count: int) -> None:
    """So many readers of one paced run: each must see every event."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        connector=connector, timeout=aiohttp.ClientTimeout(total=None), read_bufsize=2**20
    ) as http:
        async with http.post(f"{server.url}/v1/runs", data=b'{"input":"hi","model":"read"}') as answer:
            run_id = (await answer.json())["run_id"]
        url = f"{server.url}/v1/runs/{run_id}/events?view=native"

        async def read() -> tuple[int, bytes]:
            ids = [line async for line in lines(http, "GET", url) if line.startswith(b"id: ")]
            return len(ids), b",".join(ids)

        cpu_s = server.cpu_s()
        seen = await asyncio.gather(*(read() for _ in range(count)))
        cost = 1e6 * (server.cpu_s() - cpu_s) / count / seen[0][0]
    same = "the same for all" if len(set(seen)) == 1 else "NOT THE SAME FOR ALL"
    print(f"{count:5} readers of one run: {seen[0][0]} events each, {same}, {cost:.1f} µs of CPU each")


async def memory(server: Server) -> None:
    """What an idle reader and an open run hold."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as http:
        print(f"after start: {server.rss_bytes() / 2**20:.0f} MiB")

        async def start() -> str:
            async with http.post(f"{server.url}/v1/runs", data=b'{"input":"hi","model":"idle"}') as answer:
                return (await answer.json())["run_id"]

        await start()
        before = server.rss_bytes()
        runs = [await start() for _ in range(200)]
        await asyncio.sleep(1)
        print(f"an open run: {(server.rss_bytes() - before) / 200 / 1024:.0f} KiB (of 200)")
        before = server.rss_bytes()
        url = f"{server.url}/v1/runs/{runs[0]}/events"
        answers = [await http.get(url) for _ in range(1000)]
        for answer in answers:
            await answer.content.readany()
        print(f"an idle reader: {(server.rss_bytes() - before) / 1000 / 1024:.1f} KiB (of 1,000)")
        for answer in answers:
            answer.close()
        for run_id in runs:
            await (await http.post(f"{server.url}/v1/runs/{run_id}/stop")).read()


async def start(folder: Path, model_url: str) -> None:
    """From the command to the first good /health."""
    spent: list[float] = []
    rss = 0
    for n in range(5):
        own = folder / f"start{n}"
        own.mkdir()
        began_s = time.perf_counter()
        with holdfast(own, model_url, WHATS) as server:
            async with aiohttp.ClientSession() as http:
                async with http.get(f"{server.url}/health") as answer:
                    assert answer.status == 200
                spent.append(time.perf_counter() - began_s)
            rss = server.rss_bytes()
    print(f"start to /health: median {statistics.median(spent):.2f} s, then {rss / 2**20:.0f} MiB")


async def measure(folder: Path, only: set[str], *, rounds: int, most: int) -> None:
    with (
        script("fake_model.py") as model,
        script("forwarder.py", model.url) as bare,
        script("forwarder.py", model.url, str(folder / "pieces.db")) as saving,
        script("least.py", model.url, str(folder / "least.db")) as least,
    ):
        if "start" in only:
            await start(folder, model.url)
        with holdfast(folder, model.url, WHATS) as server:
            if "memory" in only:
                await memory(server)
            ours = [
                Way("runs", server, "runs"),
                Way("agent chat", server, "agent chat"),
                Way("relay", server, "relay"),
            ]
            bound = [Way("forwarder", bare, "forwarder"), Way("saving forwarder", saving, "forwarder")]
            await compare([*ours, *bound, Way("least", least, "runs")], only, rounds=rounds, most=most)
            if "readers" in only:
                for count in (1, 10, 100, 1000):
                    await readers(server, count)


async def compare(ways: list[Way], only: set[str], *, rounds: int, most: int) -> None:
    """The tables of several servers."""
    for way in ways:
        await at_once(way, WHATS["burst"], target="burst", streams=50, clients=5)
    for target in ("burst", "paced"):
        for clients in (1, 8, 64, 256):
            if target in only and clients <= most:
                await crowd(ways, target, rounds=rounds, clients=clients)
    if "stream" in only:
        await one_stream(ways, rounds)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--only", default=ALL)
    given = options.parse_args()
    rounds, most = (1, 64) if given.quick else (5, 256)
    with tempfile.TemporaryDirectory() as folder:
        uvloop.run(measure(Path(folder), set(given.only.split(",")), rounds=rounds, most=most))


if __name__ == "__main__":
    main()
