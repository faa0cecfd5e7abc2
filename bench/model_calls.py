"""What a model call costs: python bench/model_calls.py [--quick] [--only burst,paced,calls,cancel].

Each figure stands beside the same work done by a loop that only reads the bytes (with the same HTTP client
and with httpx2), by one that also decodes each frame, and by the official SDK. The model server runs in a
process of its own. The machine is never quiet, so the factors within one run are worth more than the numbers.
"""

import argparse
import asyncio
import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import uvloop

from holdfast.targets import Wire
from model_clients import Client, Clients, clients_of

WIRES: tuple[Wire, ...] = ("responses", "chat", "anthropic")
Named: TypeAlias = Sequence[tuple[str, Client]]


def of_tokens(clients: Clients) -> Named:
    return (
        ("bytes", clients.only_bytes),
        ("+decode", clients.decoded),
        ("ours", clients.ours),
        ("+memory", clients.to_memory),
        ("+sqlite", clients.to_sqlite),
        ("httpx2", clients.httpx_bytes),
        ("SDK", clients.sdk),
    )


def of_calls(clients: Clients) -> Named:
    return (
        ("bytes", clients.only_bytes),
        ("ours", clients.ours),
        ("httpx2", clients.httpx_bytes),
        ("SDK", clients.sdk),
    )


async def cost(client: Client, wire: Wire, what: str, *, at_once: int = 1) -> tuple[float, float]:
    """CPU and wall-clock seconds of so many streams at once."""
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    await asyncio.gather(*(client(wire, what) for _ in range(at_once)))
    return time.process_time() - cpu_s, time.perf_counter() - wall_s


async def tokens(named: Named, what: str, *, at_once: int, count: int, rounds: int) -> None:
    """One table: CPU per token of each client, and the factor to the loop that only reads."""
    print(f"\n{what}, {at_once} at once: µs of CPU per token (and how many times bytes), median of {rounds}")
    print(f"{'':11}" + "".join(f"{name:>15}" for name, _ in named) + f"{'SDK / ours':>12}{'tokens/s':>10}")
    for wire in WIRES:
        spent: dict[str, list[float]] = {name: [] for name, _ in named}
        rates: list[float] = []
        for _ in range(rounds):
            for name, client in named:
                cpu_s, wall_s = await cost(client, wire, what, at_once=at_once)
                spent[name].append(1e6 * cpu_s / count / at_once)
                if name == "ours":
                    rates.append(count * at_once / wall_s)
        cells = [
            f"{statistics.median(each):8.2f} ({_factor(each, spent['bytes']):4.1f})"
            for each in spent.values()
        ]
        less = _factor(spent["SDK"], spent["ours"])
        print(f"{wire:11}" + "".join(cells) + f"{less:12.1f}{statistics.median(rates):10,.0f}")


def _factor(spent: list[float], base: list[float]) -> float:
    return statistics.median(one / other for one, other in zip(spent, base, strict=True))


async def calls(clients: Clients, count: int) -> None:
    """What a call costs that says one word, and how soon after the server's first byte that word is heard."""
    print(
        f"\none call of one word: ms of CPU; ms from the first byte sent to our first event ({count} calls)"
    )
    for wire in WIRES:
        cells: list[str] = []
        for name, client in of_calls(clients):
            cpu_s = time.process_time()
            for _ in range(count):
                await client(wire, "burst 1")
            cells.append(f"{name} {1000 * (time.process_time() - cpu_s) / count:.2f}")
        late_ms = sorted([await _late_ms(clients, wire) for _ in range(count)])
        worst_ms = late_ms[int(0.99 * count)]
        print(
            f"{wire:11}{'   '.join(cells)}   first event {statistics.median(late_ms):.2f}, p99 {worst_ms:.2f}"
        )


async def _late_ms(clients: Clients, wire: Wire) -> float:
    ear = await clients.heard(wire, "stamp")
    return 1000 * (ear.first_s - float("".join(ear.pieces)))


async def crowd(clients: Clients, at_once: int) -> None:
    """Many calls at the same moment."""
    print(f"\n{at_once} calls at once, 50 tokens each: ms of wall clock, ms of CPU per call")
    for wire in WIRES:
        cells: list[str] = []
        for name, client in of_calls(clients):
            await cost(client, wire, "burst 50", at_once=at_once)
            cpu_s, wall_s = await cost(client, wire, "burst 50", at_once=at_once)
            cells.append(f"{name} {1000 * wall_s:.0f}, {1000 * cpu_s / at_once:.2f}")
        print(f"{wire:11}{'   '.join(cells)}")


async def cancels(clients: Clients, count: int) -> None:
    """How long after a cancel the server sees the close."""
    print(f"\nfrom cancel to the server seeing the close, in ms ({count} calls)")
    for wire in WIRES:
        late_ms = sorted([await _closed_ms(clients, wire) for _ in range(count)])
        print(f"{wire:11}median {statistics.median(late_ms):.2f}, worst {late_ms[-1]:.2f}")


async def _closed_ms(clients: Clients, wire: Wire) -> float:
    task = asyncio.ensure_future(clients.ours(wire, "paced 1000 20"))
    await asyncio.sleep(0.03)
    cancel_s, closed_s = time.monotonic(), 0.0
    task.cancel()
    await asyncio.wait([task])
    while closed_s < cancel_s:
        async with clients.plain.get(f"http://127.0.0.1:{clients.port}/closed") as answer:
            closed_s = float(await answer.text())
    return 1000 * (closed_s - cancel_s)


async def measure(port: int, only: set[str], *, rounds: int, count: int, paced: int) -> None:
    """All tables that are asked for."""
    async with clients_of(port) as clients:
        for wire in WIRES:
            for _, client in of_tokens(clients):
                await client(wire, "burst 500")
        # The SDKs are large: without this, everyone pays for walking through them again and again.
        gc.collect()
        gc.freeze()
        named = of_tokens(clients)
        if "burst" in only:
            await tokens(named, f"burst {count}", at_once=1, count=count, rounds=rounds)
        if "paced" in only:
            for at_once in (8, 64):
                few = max(1, rounds // 2)
                await tokens(named, f"paced {paced} 20", at_once=at_once, count=paced, rounds=few)
        if "calls" in only:
            await calls(clients, 50 * rounds)
            await crowd(clients, 200)
        if "cancel" in only:
            await cancels(clients, 10 * rounds)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--only", default="burst,paced,calls,cancel")
    given = options.parse_args()
    rounds, count, paced = (2, 10_000, 100) if given.quick else (7, 40_000, 300)
    server = Path(__file__).with_name("fake_model.py")
    with subprocess.Popen([sys.executable, server], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        try:
            only = set(given.only.split(","))
            uvloop.run(measure(port, only, rounds=rounds, count=count, paced=paced))
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
