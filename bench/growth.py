"""How costs grow: python bench/growth.py [--turns 1000] [--readers 100] [--only turns,readers].

`turns` compares the server's CPU for a turn at the start of a session with the 100th and the last of a long
one, interleaved in one process, so that a busy machine slows all of them alike. `readers` shows the CPU per
event and reader as readers are added to one run.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

import aiohttp
import uvloop

from load import WHATS, Server, holdfast, script
from server import readers

EARLY = 100  # the second point on the curve
ROUNDS = 20


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


async def main(only: list[str], *, last: int, most: int) -> None:
    """Measure what is wanted."""
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
    parser.add_argument("--only", default="turns,readers")
    given = parser.parse_args()
    uvloop.run(main(given.only.split(","), last=given.turns, most=given.readers))
