"""How costs grow: python bench/growth.py [--turns 1000] [--readers 100] [--only turns,readers,sessions].

`turns` compares the server's CPU for a turn at the start of a session with the 100th and the last of a long
one, interleaved in one process, so that a busy machine slows all of them alike. `readers` shows the CPU per
event and reader as readers are added to one run. `sessions` lists and searches 20,000 sessions, and opens one
of 3,000 turns, once after each of several starts and then again, as the page does: the session and its newest
messages.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import aiohttp
import uvloop

import long_session
import restart
from holdfast.chaos import ChaosServer
from load import WHATS, Server, holdfast, script
from server import readers

EARLY = 100  # the second point on the curve
ROUNDS = 20
SESSIONS = 20_000
LONG_TURNS = 3_000
STARTS = 3
SEEN_EACH = 30


async def turn(http: aiohttp.ClientSession, server: Server, session_id: str) -> str:
    """One run of a session, or of a new one; returns the session once the run has ended."""
    body = {"input": "hi", "model": "burst"} | ({"session_id": session_id} if session_id else {})
    async with http.post(f"{server.url}/v1/runs", json=body) as answer:
        started = await answer.json()
        assert answer.status in {200, 201, 202}, started
    async with http.get(f"{server.url}/v1/runs/{started['run_id']}/events") as events:
        await events.read()
    return started["session_id"]


async def cost_s(http: aiohttp.ClientSession, server: Server, session_id: str) -> float:
    before_s = server.cpu_s()
    await turn(http, server, session_id)
    return server.cpu_s() - before_s


async def turns(server: Server, last: int) -> None:
    """Print the CPU of a first, an early and a late turn."""
    async with aiohttp.ClientSession() as http:
        sessions = {1: ""}
        for count in (EARLY, last):
            sessions[count] = session_id = await turn(http, server, "")
            for _ in range(count - ROUNDS // 2 - 1):
                await turn(http, server, session_id)
        spent: dict[int, list[float]] = {count: [] for count in sessions}
        for _ in range(ROUNDS):
            for count, session_id in sessions.items():
                spent[count].append(1000 * await cost_s(http, server, session_id))
    first = statistics.median(spent[1])
    for count, costs in spent.items():
        cost = statistics.median(costs)
        print(f"turn {count:5}: {cost:6.2f} ms of CPU, {cost / first:.2f} x the first")


async def request_ms(http: aiohttp.ClientSession, *urls: str) -> float:
    """How long these requests take, one after the other."""
    began_s = time.perf_counter()
    for url in urls:
        async with http.get(url) as answer:
            assert answer.status == 200, url
            await answer.read()
    return 1000 * (time.perf_counter() - began_s)


async def sessions() -> None:
    """Print how long the list, a search and the long session take."""
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp)) / "sessions"
    async with ChaosServer([]) as chaos:
        await asyncio.to_thread(restart.configure, folder, chaos)
        store = folder / "data" / "holdfast.db"
        await restart.fill(store, sessions=SESSIONS, open_runs=0)
        await long_session.fill(store, messages=2 * LONG_TURNS)
        first: list[float] = []
        spent: dict[str, list[float]] = {}
        for _ in range(STARTS):
            async with restart.serving(folder) as server, aiohttp.ClientSession() as http:
                root = f"{server.url}/api/sessions"
                views = {
                    "list": [f"{root}?limit=50"],
                    "search": [f"{root}?q=question+123&limit=20"],
                    "session of 3,000 turns": [f"{root}/long", f"{root}/long/messages"],
                }
                await request_ms(http, f"{root}/s1", f"{root}/s1/messages", *views["list"])  # imports
                first.append(await request_ms(http, *views["session of 3,000 turns"]))
                spent = {
                    name: [await request_ms(http, *urls) for _ in range(SEEN_EACH)]
                    for name, urls in views.items()
                }
        print(f"the session of 3,000 turns, first time after a start: {statistics.median(first):.1f} ms")
        for name, times in spent.items():
            print(f"{name}: median {statistics.median(times):.1f} ms, worst {max(times):.1f} ms")


async def main(only: list[str], *, last: int, most: int) -> None:
    """Measure what is wanted."""
    if "sessions" in only:
        await sessions()
    with (
        tempfile.TemporaryDirectory() as name,
        script("fake_model.py") as model,
        holdfast(Path(name), model.url, WHATS) as server,
    ):
        if "turns" in only:
            await turns(server, last)
        if "readers" in only:
            for count in (1, most // 10, most):
                await readers(server, count)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=1000)
    parser.add_argument("--readers", type=int, default=100)
    parser.add_argument("--only", default="turns,readers,sessions")
    given = parser.parse_args()
    uvloop.run(main(given.only.split(","), last=given.turns, most=given.readers))
