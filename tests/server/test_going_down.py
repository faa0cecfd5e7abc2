"""A server that goes down: whom it sends away did not leave."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

from holdfast import events as e
from holdfast.chaos import ChaosServer, Gate, Say, Wait
from holdfast.interfaces.journal import IfSessionNew
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.runner.supervisor import RunnerLimits
from holdfast.server.options import Limits, ServerOptions
from scene import Scene
from serving import PATIENT, Setting, served, target_of
from stores import MemoryStore
from tables import for_each_row

GRACE_S = 31.5


@dataclass(slots=True)
class Grace(SystemClock):
    """A clock on which the grace for readers who left is over when the test says so."""

    over: asyncio.Event = field(default_factory=asyncio.Event)
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def sleep_s(self, seconds: float) -> None:
        if seconds == GRACE_S:
            self.begun.set()
            await self.over.wait()
        else:
            await SystemClock.sleep_s(self, seconds)


async def until_nobody_hangs_up() -> None:
    """Wait until whatever follows from a reader's leaving has happened."""
    while any(task.get_name().startswith("hang up") for task in asyncio.all_tasks()):  # noqa: ASYNC110
        await asyncio.sleep(0)


async def test_a_shutdown_that_outlasts_the_grace_stops_no_run_of_a_plain_client() -> None:
    """P6: the server ended the stream, not the client; the run goes on with the next server."""
    disk, clock, gate = MemoryDisk(), Grace(), Gate()
    limits = Limits(disconnect_grace_s=GRACE_S)
    setting = Setting(clock=clock, options=ServerOptions(limits=limits))
    async with ChaosServer([Say("hal"), Wait(gate)], [Say("whole")]) as chaos:
        target = target_of(chaos, patience=PATIENT)
        async with served(target, store=MemoryStore(disk), setting=setting) as server:
            body = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
            async with server.http.post(f"{server.url}/v1/chat/completions", json=body) as answer:
                run_id = answer.headers["X-Hermes-Run-Id"]
                await gate.reached()
                server.streams.end()
                await answer.read()
            await clock.begun.wait()
            clock.over.set()
            await until_nobody_hangs_up()
            assert (await server.get(f"/v1/runs/{run_id}"))[1]["status"] == "running"
        async with served(target, store=MemoryStore(disk)) as server:
            assert (await server.ended(run_id))["output"] == "whole"


@for_each_row("path", ["/api/sessions/s/export", "/api/sessions/s/events", "/v1/runs/r1/events"])
async def test_a_client_that_does_not_read_does_not_hold_up_the_end(path: str) -> None:
    """P3, P10: what fits into no buffer any more is cut off a moment after the server was told to go."""
    scene = Scene()
    scene.put(e.SessionCreated, epoch="e")
    scene.send("hi", run_id="r1")
    scene.call()
    scene.pieces(*["x" * 100_000] * 300)
    store = MemoryStore()
    await store.append("s", cast("list[e.Input]", [event for _, event in scene.log]), when=[IfSessionNew()])
    limits = Setting(
        options=ServerOptions(limits=Limits(going_s=0.05)), runner=RunnerLimits(resume_runs="asked")
    )
    async with asyncio.timeout(60), ChaosServer() as chaos:
        async with served(target_of(chaos), store=store, setting=limits) as server:
            host, _, port = server.url.removeprefix("http://").partition(":")
            reader, writer = await asyncio.open_connection(host, int(port), limit=1000)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
    await store.close()
