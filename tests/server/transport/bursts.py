"""Bursts: thousands of requests at once at every limit that the server states.

Each burst goes to a server of its own on a real socket and a real file. The limit must hold exactly, whoever
is refused must leave nothing behind, and whatever was accepted must come to its end. As a command:
python bench/bursts.py --size 3000 --seed 1 [--only NAME]
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import aiohttp
from msgspec.structs import replace

from holdfast.chaos import ChaosServer, Gate, Say, Wait
from holdfast.runner.inbox import QUEUE_MAX
from holdfast.runner.supervisor import RunnerLimits
from holdfast.server.access.keys import KEYS_MAX
from holdfast.server.options import ApiKey, Limits, ServerOptions
from serving import PATIENT, Answer, Served, Setting, limited, served, target_of
from stores import SqliteStore

KEY = "sk-secret-of-the-owner"
RUNS_MAX = 8


@dataclass(slots=True)
class Stage:
    """A server under a burst, and the model behind it that answers once the gate is open."""

    server: Served
    gate: Gate
    dice: random.Random
    size: int

    async def at_once(self, requests: Sequence[tuple[str, str, Any]], **headers: str) -> list[Answer]:
        """All of them, in an order of chance; the answers are in the order of the requests."""
        order = list(range(len(requests)))
        self.dice.shuffle(order)

        async def one(nth: int) -> tuple[int, Answer]:
            method, path, body = requests[nth]
            return nth, await self.server.call(method, path, body=body, headers=headers)

        answers = dict(await asyncio.gather(*(one(nth) for nth in order)))
        return [answers[nth] for nth in range(len(requests))]

    async def runs(self) -> list[dict[str, Any]]:
        """Every run that the server knows of."""
        found: list[dict[str, Any]] = []
        cursor = ""
        for _ in range(1_000):
            _, page = await self.server.get(f"/v1/runs?limit=200&cursor={cursor}")
            found += page["data"]
            cursor = page["next_cursor"]
            if not cursor:
                return found
        raise AssertionError("the list of runs has no end")

    async def end_all(self) -> None:
        """Let the model answer, and wait until no run is open."""
        self.gate.open()
        for run in await self.runs():
            await self.server.ended_unread(run["run_id"])
        assert {run["status"] for run in await self.runs()} <= {"completed"}


Burst: TypeAlias = Callable[[int, int, Path], Awaitable[None]]


@asynccontextmanager
async def stage(size: int, seed: int, folder: Path, setting: Setting) -> AsyncGenerator[Stage]:
    """A server with a file of its own; the client opens as many connections as it likes."""
    gate = Gate()
    store = await SqliteStore.open(folder / "holdfast.db", durability="process")
    try:
        async with (
            ChaosServer([Wait(gate), Say("ok")], after_last="repeat") as chaos,
            served(target_of(chaos, patience=PATIENT), store=store, setting=setting) as server,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True)) as http,
        ):
            try:
                yield Stage(replace(server, http=http), gate, random.Random(seed), size)
            finally:
                gate.open()
    finally:
        await store.close()


def _count(answers: Sequence[Answer], refused: int, code: str) -> int:
    """How many were accepted; all others were refused in just this way."""
    bad = [answer for answer in answers if answer.status >= 300]
    assert {(answer.status, answer.code) for answer in bad} <= {(refused, code)}
    if refused == 429:
        assert all(int(answer.headers["Retry-After"]) > 0 for answer in bad)
    return len(answers) - len(bad)


async def waiting_runs(size: int, seed: int, folder: Path) -> None:
    """Runs of many sessions: as many as there are slots and places in the line."""
    most = size // 3
    setting = replace(limited(queued_runs_max=most), runner=RunnerLimits(runs_max=RUNS_MAX))
    async with stage(size, seed, folder, setting) as here:
        asked: list[tuple[str, str, Any]] = [
            ("POST", "/v1/runs", {"input": "x", "session_id": f"s{nth}"}) for nth in range(size)
        ]
        accepted = _count(await here.at_once(asked), 429, "queue_full")
        assert accepted == RUNS_MAX + most
        assert len(await here.runs()) == accepted
        assert _count(await here.at_once(asked[:RUNS_MAX]), 429, "queue_full") <= RUNS_MAX
        await here.end_all()
        assert _count(await here.at_once(asked[:1]), 429, "queue_full") == 1


async def waiting_runs_of_every_face(size: int, seed: int, folder: Path) -> None:
    """The same through each way to start a run."""
    most = size // 3
    setting = replace(limited(queued_runs_max=most), runner=RunnerLimits(runs_max=RUNS_MAX))
    said = {"messages": [{"role": "user", "content": "x"}]}
    ways: list[tuple[str, Any]] = [
        ("/v1/runs", {"input": "x"}),
        ("/v1/chat/completions", said),
        ("/v1/chat/completions", said | {"stream": True}),
        ("/v1/responses", {"input": "x", "background": True}),
        ("/v1/responses", {"input": "x", "stream": True}),
    ]
    async with stage(size, seed, folder, setting) as here:
        asked = [("POST", *here.dice.choice(ways)) for _ in range(size)]
        burst = asyncio.ensure_future(here.at_once(asked))
        await here.gate.reached(RUNS_MAX)
        # Those that wait for their answer have it once the gate is open.
        while sum(one["status"] == "queued" for one in await here.runs()) < most:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert len(await here.runs()) == RUNS_MAX + most
        here.gate.open()
        accepted = _count(await burst, 429, "queue_full")
        # Places become free while late requests come in.
        assert accepted == len(await here.runs()) >= RUNS_MAX + most
        await here.end_all()


async def one_sessions_queue(size: int, seed: int, folder: Path) -> None:
    """Messages to one session while its run is under way."""
    async with stage(size, seed, folder, Setting()) as here:
        await here.server.start("first", session_id="s")
        await here.gate.reached()
        body = {"input": "x", "session_id": "s"}
        assert _count(await here.at_once([("POST", "/v1/runs", body)] * size), 429, "queue_full") == QUEUE_MAX
        assert len((await here.server.get("/api/sessions/s/queue"))[1]["data"]) == QUEUE_MAX
        assert len(await here.runs()) == QUEUE_MAX + 1
        await here.end_all()


async def a_new_sessions_queue(size: int, seed: int, folder: Path) -> None:
    """Messages to a session that none of them found there."""
    async with stage(size, seed, folder, Setting()) as here:
        body = {"input": "x", "session_id": "s"}
        accepted = _count(await here.at_once([("POST", "/v1/runs", body)] * size), 429, "queue_full")
        assert QUEUE_MAX <= accepted <= QUEUE_MAX + 1
        assert len(await here.runs()) == accepted
        await here.end_all()


async def steers(size: int, seed: int, folder: Path) -> None:
    """Messages to the run under way."""
    async with stage(size, seed, folder, Setting()) as here:
        run_id = await here.server.start("first", session_id="s")
        await here.gate.reached()
        path = f"/v1/runs/{run_id}/steer"
        asked = [("POST", path, {"message": f"m{nth}"}) for nth in range(size)]
        assert _count(await here.at_once(asked), 429, "queue_full") == QUEUE_MAX
        assert len((await here.server.get("/api/sessions/s/queue"))[1]["data"]) == QUEUE_MAX
        await here.end_all()


async def one_run_at_most(size: int, seed: int, folder: Path) -> None:
    """Whoever does not want to wait, tries again, or sends the same thing twice."""
    async with stage(size, seed, folder, limited(queued_runs_max=size)) as here:
        alone = {"input": "x", "session_id": "s", "when_busy": "reject"}
        assert _count(await here.at_once([("POST", "/v1/runs", alone)] * size), 409, "session_busy") == 1
        again = await here.at_once([("POST", "/v1/runs", {"input": "y"})] * size, **{"Idempotency-Key": "k"})
        assert _count(again, 0, "") == size
        assert len({answer.json["run_id"] for answer in again}) == 1
        await here.end_all()
        retry = f"/v1/runs/{(await here.runs())[0]['run_id']}/retry"
        accepted = _count(await here.at_once([("POST", retry, None)] * size), 409, "session_busy")
        await here.end_all()
        # The gate is open, so one may end before the next is asked for.
        assert len(await here.runs()) == 2 + accepted


async def streams(size: int, seed: int, folder: Path) -> None:
    """Readers, and clients that start a run to read it."""
    await _streams(size, seed, folder, _READ + _STARTED)


async def streams_of_new_runs(size: int, seed: int, folder: Path) -> None:
    """Clients that each start a run to read it: none of them is told to come back to a run that it has."""
    await _streams(size, seed, folder, _STARTED)


_Ways: TypeAlias = tuple[tuple[str, str, Any], ...]
_READ: _Ways = (("GET", "/v1/runs/{run_id}/events", None), ("GET", "/api/sessions/s/events", None))
_STARTED: _Ways = (
    ("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "stream": True}),
    ("POST", "/v1/responses", {"input": "x", "stream": True}),
    ("POST", "/api/sessions/{new}/chat/stream", {"message": "x"}),
)


async def _streams(size: int, seed: int, folder: Path, ways: _Ways) -> None:
    most = size // 3
    async with stage(size, seed, folder, limited(subscribers_max=most)) as here:
        run_id = await here.server.start("first", session_id="s")
        asked = [here.dice.choice(ways) for _ in range(size)]
        opened: list[tuple[aiohttp.ClientResponse, str]] = []
        refused: list[tuple[int, str]] = []

        async def open_one(nth: int) -> None:
            method, path, body = asked[nth]
            url = here.server.url + path.format(new=f"n{nth}", run_id=run_id)
            answer = await here.server.http.request(method, url, json=body)
            if answer.status == 200:
                opened.append((answer, method))
            else:
                refused.append((answer.status, (await answer.json())["error"]["code"]))

        await asyncio.gather(*(open_one(nth) for nth in range(size)))
        assert (len(opened), set(refused)) == (most, {(429, "too_many_streams")})
        assert len(here.server.streams) == most
        assert len(await here.runs()) == 1 + sum(method == "POST" for _, method in opened)
        here.gate.open()
        for answer, _ in opened:
            answer.close()
        await here.server.until_streams(0)


async def keys(size: int, seed: int, folder: Path) -> None:
    """Named keys."""
    setting = Setting(options=ServerOptions(keys=(ApiKey("owner", KEY),)))
    owner = {"Authorization": f"Bearer {KEY}"}
    async with stage(max(size, KEYS_MAX + 50), seed, folder, setting) as here:
        asked = [("POST", "/api/keys", {"name": f"k{nth}"}) for nth in range(here.size)]
        made = await here.at_once(asked, **owner)
        assert _count(made, 429, "too_many_keys") == KEYS_MAX
        listed = (await here.server.get("/api/keys", **owner))[1]["data"]
        assert sum(key["source"] == "added" for key in listed) == KEYS_MAX
        assert len({answer.json["key"] for answer in made if answer.status == 201}) == KEYS_MAX


async def bodies_and_uploads(size: int, seed: int, folder: Path) -> None:
    """Bodies of just the size that is taken, and one byte more."""
    body_max, blob_max = 4_096, 8_192
    limits = Limits(body_bytes_max=body_max, blob_bytes_max=blob_max, queued_runs_max=size)
    options = ServerOptions(limits=limits)
    async with stage(size, seed, folder, Setting(options=options)) as here:
        here.gate.open()
        room = body_max - len(b'{"input":""}')
        sizes = [room + here.dice.choice([0, 1]) for _ in range(size)]
        asked = [("POST", "/v1/runs", b'{"input":"%b"}' % (b"x" * one)) for one in sizes]
        assert _count(await here.at_once(asked), 413, "body_too_large") == sizes.count(room)
        assert len(await here.runs()) == sizes.count(room)
        lengths = [blob_max + here.dice.choice([0, 1]) for _ in range(size)]
        files = [("POST", "/api/blobs", b"%08d" % nth + b"x" * (one - 8)) for nth, one in enumerate(lengths)]
        kept = await here.at_once(files)
        assert _count(kept, 413, "body_too_large") == lengths.count(blob_max)
        await here.end_all()


async def one_answer(size: int, seed: int, folder: Path) -> None:
    """The same session made, and the same run stopped, by many at once."""
    async with stage(size, seed, folder, Setting()) as here:
        made = await here.at_once([("POST", "/api/sessions", {"session_id": "s"})] * size)
        assert _count(made, 409, "session_exists") == 1
        run_id = await here.server.start("x", session_id="s")
        await here.gate.reached()
        stopped = await here.at_once([("POST", f"/v1/runs/{run_id}/stop", None)] * size)
        assert Counter(answer.status for answer in stopped)[200] >= 1
        assert (await here.server.ended_unread(run_id))["status"] == "cancelled"
        _, log = await here.server.get("/api/sessions/s/export")
        assert sum(event["type"] == "run.ended" for event in log["events"]) == 1


BURSTS: Mapping[str, Burst] = MappingProxyType(
    {
        one.__name__: one
        for one in (
            waiting_runs,
            waiting_runs_of_every_face,
            one_sessions_queue,
            a_new_sessions_queue,
            steers,
            one_run_at_most,
            streams,
            streams_of_new_runs,
            keys,
            bodies_and_uploads,
            one_answer,
        )
    }
)


async def campaign(size: int, seed: int, names: Sequence[str]) -> int:
    """Every burst once; how many broke."""
    broken = 0
    for name in names:
        begun_s = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                await BURSTS[name](size, seed, Path(folder))
                said = "holds"
            except AssertionError as error:
                broken, said = broken + 1, f"BROKEN: {error}"
        took_s = time.monotonic() - begun_s
        sys.stdout.write(f"{name:28} {size:6} at once, {took_s:5.1f} s: {said}\n")
    return broken


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--size", type=int, default=3_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", choices=BURSTS, action="append")
    chosen = options.parse_args()
    sys.exit(asyncio.run(campaign(chosen.size, chosen.seed, chosen.only or list(BURSTS))))
