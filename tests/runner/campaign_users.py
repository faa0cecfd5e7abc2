"""The users of the fault campaign: they remember what they were told and shown, whatever dies meanwhile."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import aiohttp

from runner.campaign_model import KINDS
from serving import frames_in
from stream_server import stream_server

GONE = (aiohttp.ClientError, ConnectionError, TimeoutError, asyncio.IncompleteReadError)
OVER = {"completed", "failed", "cancelled", "interrupted"}
Told: TypeAlias = tuple[int, dict[str, Any]]


@dataclass(slots=True)
class Server:
    """The server as users know it: at an address while it lives."""

    http: aiohttp.ClientSession
    url: str = ""
    is_up: asyncio.Event = field(default_factory=asyncio.Event)
    look_s: float = 0.05  # how long users wait before they ask again

    def address(self) -> str:
        """Where the next request goes."""
        return self.url

    def up(self, url: str) -> None:
        """It lives again."""
        self.url = url
        self.is_up.set()

    async def call(
        self, method: str, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None
    ) -> Told:
        """Ask until there is an answer, in this life of the server or a later one."""
        while True:
            await self.is_up.wait()
            try:
                async with self.http.request(
                    method, self.address() + path, data=json.dumps(body or {}), headers=headers
                ) as answer:
                    told = answer.status, json.loads(await answer.read())
                    if answer.status not in {503, 504}:  # it said to come again
                        return told
            except GONE:
                pass
            await asyncio.sleep(self.look_s)


@dataclass(slots=True)
class Witness:
    """What was shown and promised; a place in a log that is shown with two contents is a lie."""

    shown: dict[tuple[str, int], dict[str, Any]] = field(
        default_factory=dict[tuple[str, int], dict[str, Any]]
    )
    sent: dict[str, str] = field(default_factory=dict[str, str])  # text -> run
    steered: dict[str, str] = field(default_factory=dict[str, str])  # text -> run
    stopped: set[str] = field(default_factory=set[str])
    received: Counter[str] = field(default_factory=Counter[str])  # effects outside
    denied: int = 0

    def see(self, session_id: str, seq: int, data: dict[str, Any]) -> None:
        """A frame came."""
        known = self.shown.setdefault((session_id, seq), data)
        assert known == data, f"{session_id} {seq} was shown as {known} and as {data}"


async def read_session(server: Server, session_id: str, witness: Witness) -> None:
    """Follow a session's log for ever, from where the last connection ended."""
    seen = 0
    while True:
        await server.is_up.wait()
        path = f"{server.address()}/api/sessions/{session_id}/events"
        try:
            async with server.http.get(path, headers={"Last-Event-ID": str(seen)} if seen else {}) as answer:
                if answer.status == 200:
                    async for frame in frames_in(answer.content):
                        if frame.id:
                            assert frame.id == seen + 1, f"{session_id}: {frame.id} follows {seen}"
                            seen = frame.id
                            witness.see(session_id, seen, frame.data)
        except GONE:
            pass
        await asyncio.sleep(server.look_s)


class User:
    """Someone with one session, who sends messages, answers what is asked, steers, queues and stops."""

    kinds: tuple[str, ...] = KINDS
    meddling: tuple[str, ...] = ("", "", "steer", "redirect", "stop")

    def __init__(self, name: str, server: Server, witness: Witness, *, seed: int) -> None:
        self.name = name
        self._server = server
        self._witness = witness
        self._chance = random.Random(f"{seed} {name}")
        self._nth = 0

    async def use(self, is_over: Callable[[], bool]) -> None:
        """Go on until told that it is over, and leave nothing unanswered."""
        while not is_over():
            begun = [await self._send()]
            while self._chance.random() < 0.25:
                begun.append(await self._send())  # waits in the queue
            await asyncio.gather(*[self._attend(run_id) for run_id in begun], self._meddle(begun[0]))
        await self._leave()

    async def _send(self) -> str:
        self._nth += 1
        text = f"{self._chance.choice(self.kinds)} {self.name}-{self._nth}"
        body = {"input": text, "session_id": self.name}
        headers = {"Idempotency-Key": f"send {text}"}
        tries = [self._server.call("POST", "/v1/runs", body, headers=headers)]
        if self._chance.random() < 0.3:
            tries.append(self._server.call("POST", "/v1/runs", body, headers=headers))
        told = await asyncio.gather(*tries)
        assert {status for status, _ in told} == {202}, told
        (run_id,) = {answer["run_id"] for _, answer in told}
        self._witness.sent[text] = run_id
        return run_id

    async def _attend(self, run_id: str) -> None:
        """Look until it has ended."""
        while True:
            status, run = await self._server.call("GET", f"/v1/runs/{run_id}")
            assert status == 200, (run_id, status, run)
            if run["status"] in OVER:
                return
            await asyncio.sleep(self._server.look_s)

    async def _meddle(self, run_id: str) -> None:
        """Steer, redirect, stop, or leave it alone."""
        meddling = self._chance.choice(self.meddling)
        await asyncio.sleep(self._chance.random() * 0.3)
        if meddling == "stop":
            status, _ = await self._server.call("POST", f"/v1/runs/{run_id}/stop")
            if status == 200:
                self._witness.stopped.add(run_id)
            await self._resume_queue()
        elif meddling:
            text = f"please-{meddling} {self.name}-{self._nth}"
            body, headers = {"message": text, "mode": meddling}, {"Idempotency-Key": text}
            status, _ = await self._server.call("POST", f"/v1/runs/{run_id}/messages", body, headers=headers)
            if status == 200:
                self._witness.steered[text] = run_id

    async def _resume_queue(self) -> None:
        await self._server.call("POST", f"/api/sessions/{self.name}/queue/resume")

    async def _leave(self) -> None:
        """Attend to the runs that late steers became, until nothing is open."""
        while True:
            await self._resume_queue()
            _, row = await self._server.call("GET", f"/api/sessions/{self.name}")
            _, queue = await self._server.call("GET", f"/api/sessions/{self.name}/queue")
            if not row["open_runs"] and not queue["data"]:
                return
            await asyncio.sleep(self._server.look_s)


async def answer_everyone(server: Server, witness: Witness, *, seed: int) -> None:
    """Answer for ever what any run asks: what may have happened before is never allowed again."""
    chance = random.Random(f"{seed} answers")
    while True:
        _, asked = await server.call("GET", "/v1/approvals")
        for one in asked["data"]:
            run = f"/v1/runs/{one['run_id']}"
            if one["kind"] == "question":
                await server.call("POST", f"{run}/question/{one['question_id']}", {"answer": "blue"})
                continue
            repeats = "unknown whether it took effect" in one["description"]
            choice = "deny" if repeats or chance.random() < 0.2 else "once"
            witness.denied += choice == "deny"
            answer = {"choice": choice, "approval_id": one["approval_id"]}
            await server.call("POST", f"{run}/approval", answer)
        await asyncio.sleep(server.look_s)


@asynccontextmanager
async def receive_effects(witness: Witness) -> AsyncGenerator[int]:
    """The port of a receiver of effects, outside of everything that dies."""

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readline()).decode().strip()
        witness.received[line.removeprefix("effect=")] += 1
        writer.close()

    async with stream_server(count) as port:
        yield port


@asynccontextmanager
async def everyone(
    users: Sequence[User], server: Server, witness: Witness, *, seed: int, is_over: asyncio.Event
) -> AsyncGenerator[list[asyncio.Task[None]]]:
    """The users at work, each with a reader of their session beside them, and one person who answers asks.

    Yields the users' tasks, which end after `is_over`; the others are ended when the block is left.
    """
    working = [asyncio.create_task(user.use(is_over.is_set)) for user in users]
    others = [asyncio.create_task(read_session(server, user.name, witness)) for user in users]
    others.append(asyncio.create_task(answer_everyone(server, witness, seed=seed)))
    try:
        yield working
        for other in others:
            # Whoever saw a contradiction has ended with it.
            if other.done():
                other.result()
    finally:
        for task in (*working, *others):
            task.cancel()
        await asyncio.wait([*working, *others])
