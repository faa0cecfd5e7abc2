"""What a dead process leaves behind: logs, spools, a lock on the store, and a server started on them."""

import asyncio
import json
import signal
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import aiohttp

from forked import Forked
from holdfast import events as e
from holdfast.chaos import ChaosServer
from holdfast.events import Event, Input
from holdfast.interfaces.journal import IfSessionNew
from holdfast.journal.spool import Spool
from runner.program import start_server
from scene import Scene
from serving import Answer, Frame, frames_in
from stores import SqliteStore
from tools.calls import until

KEY = "a-key-that-is-long-enough"
CONFIG = """
[server]
port = 0
data_dir = "{folder}/data"
api_keys = ["{key}"]
[agent]
workspace = "{folder}"
[[targets]]
name = "alpha"
wire = "chat"
base_url = "{url}"
model = "m"
api_key = "sk-test-of-a-key"
"""
HOLDER = """
import sys, apsw
db = apsw.Connection(sys.argv[1])
db.set_busy_timeout(60_000)
db.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.readline()
db.execute("ROLLBACK")
"""
EARLIER_MESSAGES = 96
GIVEN_UP_AFTER_S = 60.0  # so that what never comes fails a test instead of holding it up
PAST_S = 120.0  # longer than the times of the earlier messages go on


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with a configuration and the data of servers that ran there."""

    folder: Path

    @property
    def store(self) -> Path:
        return self.folder / "data" / "holdfast.db"

    @property
    def spool(self) -> Path:
        return self.folder / "data" / "spool"

    def configure(self, chaos: ChaosServer, *, more: str = "") -> None:
        text = more + CONFIG.format(folder=self.folder, key=KEY, url=chaos.base_url)
        (self.folder / "holdfast.toml").write_text(text)
        self.store.parent.mkdir(exist_ok=True)

    async def log(self, session_id: str, scene: Scene) -> None:
        """Write a session's log, as a process that is gone did."""
        store = await SqliteStore.open(self.store)
        events = [event for _, event in scene.log]
        # Events of runs need no owner where the log does not exist yet.
        await store.append(session_id, cast("list[Input]", events), when=[IfSessionNew()])
        await store.close()

    async def spooled(self, session_id: str, run_id: str, *batches: Sequence[Event]) -> None:
        """Leave a spool, one record for each batch, as a process that is gone did."""
        spool = Spool(self.spool)
        for batch in batches:
            await spool.put(session_id, run_id, batch)

    def spool_bytes(self) -> bytes:
        return b"".join(path.read_bytes() for path in sorted(self.spool.glob("*.spool")))

    async def until_spooled(self, text: str) -> None:
        """Wait until a spool holds the text."""
        await until(lambda: text.encode() in self.spool_bytes())


def scene_with_past(name: str = "", *, age_s: float = 60.0) -> Scene:
    """A session with its earlier messages, half of them answers; all of it is so old."""
    scene = Scene(ms=int(1000 * (time.time() - age_s - PAST_S)))
    scene.put(e.SessionCreated, epoch="e")
    for number in range(EARLIER_MESSAGES // 2):
        scene.send(f"question {number}", run_id=f"r{name}{number}")
        scene.call()
        scene.text(f"answer {number}", segment=number)
        scene.of_run(e.CallEnded, call_id=f"c{scene.calls}", finish="stop")
        scene.ends()
    return scene


def interrupted(name: str = "", *, age_s: float = 60.0) -> Scene:
    """The same with one more run, `rx` with the name between, whose process died in its first call."""
    scene = scene_with_past(name, age_s=age_s)
    scene.send("the last question", run_id=f"r{name}x")
    scene.call()
    return scene


@dataclass(frozen=True, slots=True)
class Serving:
    """A server process, as its clients see it."""

    process: Forked
    url: str
    http: aiohttp.ClientSession

    async def ask(self, method: str, path: str, body: Any = None) -> Answer:
        data = None if body is None else json.dumps(body)
        async with self.http.request(method, self.url + path, data=data) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    async def get(self, path: str) -> dict[str, Any]:
        answer = await self.ask("GET", path)
        assert answer.status == 200, answer.body
        return answer.json

    async def messages(self, session_id: str) -> dict[str, Any]:
        return await self.get(f"/api/sessions/{session_id}/messages?limit=500")

    async def events(self, run_id: str) -> list[dict[str, Any]]:
        """What the log holds of the run now."""
        polled = await self.get(f"/v1/runs/{run_id}/events?view=native&cursor=0")
        return polled["events"]

    @asynccontextmanager
    async def following(self, path: str) -> AsyncGenerator["Reader"]:
        async with self.http.get(self.url + path) as answer:
            assert answer.status == 200
            yield Reader(answer)

    async def start(self, session_id: str, text: str = "hi") -> str:
        answer = await self.ask("POST", "/v1/runs", {"input": text, "session_id": session_id})
        assert answer.status == 202, answer.body
        return answer.json["run_id"]

    async def until_type(self, path: str, kind: str) -> list[dict[str, Any]]:
        async with self.following(path) as reader:
            return await reader.until(lambda frame: frame["type"] == kind)


class Reader:
    """Someone who follows a stream and remembers all that was shown."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._frames = frames_in(answer.content)
        self.seen: list[dict[str, Any]] = []

    async def until(self, holds: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        async with asyncio.timeout(GIVEN_UP_AFTER_S):
            async for frame in self._frames:
                if _is_stored(frame):
                    self.seen.append(frame.data)
                    if holds(frame.data):
                        return self.seen
        raise AssertionError(f"the stream ended after {[one['type'] for one in self.seen]}")


def _is_stored(frame: Frame) -> bool:
    return frame.id != 0


@asynccontextmanager
async def serving(place: Place, *, end_with: signal.Signals) -> AsyncGenerator[Serving]:
    """A server on the place; leaving this ends it with the signal."""
    process = await start_server(place.folder)
    greeting = (await process.stdout.readline()).decode()
    assert "Holdfast" in greeting, (await process.stderr.read()).decode()
    url = next(word for word in greeting.split() if word.startswith("http://"))
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as http:
        try:
            yield Serving(process, url, http)
        finally:
            if process.returncode is None:
                process.send_signal(end_with)
            await process.communicate()


Release = Callable[[], Awaitable[None]]


@asynccontextmanager
async def locked(place: Place) -> AsyncGenerator[Release]:
    """Another process holds SQLite's write lock until it is asked to let go."""
    holder = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HOLDER, str(place.store)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"held\n"

    async def release() -> None:
        await holder.communicate(b"\n")

    try:
        yield release
    finally:
        if holder.returncode is None:
            await release()


def said(messages: dict[str, Any], *, of: str) -> list[str]:
    """The entries of a run in their order, each as one short line, marks included."""
    return [_line(entry) for entry in messages["data"] if entry["run_id"] == of]


def _line(entry: dict[str, Any]) -> str:
    marked = f" <{entry['mark']}>" if "mark" in entry else ""
    match entry["kind"]:
        case "person":
            return f"> {entry['content']}"
        case "text":
            return entry["content"]
        case "tool":
            return f"[{entry['name']} {entry['state']} {entry['result']}]"
        case "notice":
            return f"! {entry['notice']}{marked}"
        case _:
            return f"= {entry['outcome']}{marked}"
