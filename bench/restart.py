"""How long a start takes: to the first /health, and to the first and the last run that goes on.

python bench/restart.py [--sessions 10000] [--open-runs 200] [--starts 3]

The data directory holds so many sessions with a short conversation each, and so many of their runs were cut
off in mid-answer by a crash. The model behind it answers at once.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from holdfast import events as e
from holdfast.chaos import ChaosServer, Say, Script, SeenRequest
from holdfast.interfaces.journal import IfSessionNew
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.redaction import NO_SECRETS

AT_MS = 1_700_000_000_000
CONFIG = """
[server]
port = 0
data_dir = "{folder}/data"
api_keys = []
drain_s = 0
[[targets]]
name = "main"
wire = "chat"
base_url = "{url}"
model = "m"
"""


@dataclass(frozen=True)
class Start:
    """What one start took, in seconds since the process was started."""

    health_s: float
    first_s: float | None
    last_s: float | None

    def __str__(self) -> str:
        """One line."""
        runs = (
            ""
            if self.first_s is None
            else f"   first run {self.first_s:.2f} s   last run {self.last_s:.2f} s"
        )
        return f"/health {self.health_s:.2f} s{runs}"


def conversation(nth: int) -> list[e.Event]:
    """A session with one finished run."""
    run: dict[str, Any] = {"at_ms": AT_MS + nth, "run_id": f"run_{nth:06}"}
    return [
        e.SessionCreated(at_ms=AT_MS + nth, epoch=f"e{nth}"),
        e.MessageAccepted(at_ms=AT_MS + nth, message_id=f"msg_{nth}", text=f"question {nth}"),
        e.RunQueued(message_id=f"msg_{nth}", **run),
        e.MessageDispatched(message_id=f"msg_{nth}", **run),
        e.RunStarted(**run),
        e.CallStarted(call_id=f"call_{nth}", turn=0, **run),
        e.AttemptStarted(call_id=f"call_{nth}", attempt_id=f"att_{nth}", target="main", **run),
        e.TextDelta(segment=1, text=f"the answer to {nth}", **run),
        e.TextDone(segment=1, text=f"the answer to {nth}", **run),
        e.CallEnded(call_id=f"call_{nth}", finish="stop", **run),
        e.RunEnded(outcome="completed", **run),
    ]


async def fill(path: Path, *, sessions: int, open_runs: int) -> None:
    """A store with so many sessions, of which some were cut off."""
    path.parent.mkdir(parents=True)
    store = await SqliteStore.open(path, NO_SECRETS)
    fence = await store.claim("")

    async def put(nth: int) -> None:
        events = conversation(nth)
        cut = events[:-3] if nth < open_runs else events
        await store.append(f"s{nth}", cut[:3], when=[IfSessionNew()])  # pyright: ignore[reportArgumentType]
        await store.append_run(f"s{nth}", cut[3:], fence=fence)

    for first in range(0, sessions, 500):
        await asyncio.gather(*[put(nth) for nth in range(first, min(first + 500, sessions))])
    await store.close()


@dataclass(frozen=True)
class Serving:
    """A started server."""

    process: asyncio.subprocess.Process
    url: str


@asynccontextmanager
async def serving(folder: Path) -> AsyncGenerator[Serving]:
    """A server on the folder, from the moment on at which it says where it listens; killed at the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "serve", "--config", str(folder / "holdfast.toml")),
        stdout=asyncio.subprocess.PIPE,
        cwd=folder,
    )
    assert process.stdout is not None
    greeting = (await process.stdout.readline()).decode()
    try:
        yield Serving(process, next(word for word in greeting.split() if word.startswith("http://")))
    finally:
        process.kill()
        await process.wait()


async def start(folder: Path, chaos: ChaosServer, *, resumes: int) -> Start:
    """One start, and kill -9 at its end."""
    before = len(chaos.seen.requests)
    began_s = time.monotonic()
    async with serving(folder) as server:
        async with aiohttp.ClientSession() as http, http.get(server.url + "/health") as answer:
            assert answer.status == 200
        health_s = time.monotonic() - began_s
        first_s = last_s = None
        if resumes:
            await chaos.seen.until_body(before + 1)
            first_s = time.monotonic() - began_s
            await chaos.seen.until_body(before + resumes)
            last_s = time.monotonic() - began_s
    return Start(health_s, first_s, last_s)


async def measure(options: argparse.Namespace) -> None:
    """Empty directories first, then the full one."""

    def script(request: SeenRequest) -> Script:
        del request
        return [Say("at once")]

    folder = Path(await asyncio.to_thread(tempfile.mkdtemp))
    async with ChaosServer(choose=script) as chaos:
        for nth in range(options.starts):
            empty = folder / f"empty{nth}"
            await asyncio.to_thread(configure, empty, chaos)
            print(f"an empty directory:  {await start(empty, chaos, resumes=0)}", flush=True)
        full = folder / "full"
        await asyncio.to_thread(configure, full, chaos)
        await fill(full / "data" / "holdfast.db", sessions=options.sessions, open_runs=options.open_runs)
        shown = f"{options.sessions} sessions, {options.open_runs} open runs:"
        print(f"{shown}  {await start(full, chaos, resumes=options.open_runs)}", flush=True)


def configure(folder: Path, chaos: ChaosServer) -> None:
    """Write the configuration."""
    folder.mkdir(parents=True)
    (folder / "holdfast.toml").write_text(CONFIG.format(folder=folder, url=chaos.base_url))


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--open-runs", type=int, default=200)
    parser.add_argument("--starts", type=int, default=3)
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
