"""The least that can keep runs: what is asked, answered and ended is on disk before anyone is told.

python bench/least.py MODEL_URL FILE. POST /v1/runs saves a message and answers; a task of its own asks the
model and saves what it says; GET /v1/runs/ID/events sends what is saved. The events are as many as Holdfast's
and the HTTP client, the server and the way to the disk the same, but nothing else is there: no routing, no
folds, no watchdogs, no limits, no sessions, no tools. Between this and the forwarder lies the price of a run,
between this and Holdfast that of all its other promises.
"""

import asyncio
import secrets
import sys
from collections.abc import Iterator
from typing import Any

import aiohttp
import msgspec

from forwarder import Saving, serve
from load import WHATS

ASKED = (b"session.created", b"message.accepted", b"run.queued")
BEGUN = (b"run.started", b"call.started", b"attempt.started")
ENDED = (b"text.done", b"usage", b"call.ended", b"run.ended")
FRAME = b'data: {"event":"%b","run_id":"%b","delta":%b}\n\n'
HEADERS = {
    b"POST": [(b"content-type", b"application/json")],
    b"GET": [(b"content-type", b"text/event-stream")],
}


class Delta(msgspec.Struct):
    """What a model says in one frame."""

    content: str = ""


class Choice(msgspec.Struct):
    """One of its answers."""

    delta: Delta


class Chunk(msgspec.Struct):
    """One frame."""

    choices: list[Choice]


CHUNKS = msgspec.json.Decoder(Chunk)


class Run:
    """The frames of one run that are on disk, and who waits for more."""

    def __init__(self, run_id: bytes, saving: Saving) -> None:
        self.run_id = run_id
        self._saving = saving
        self.frames: list[bytes] = []
        self.is_over = False
        self.more = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def add(self, *names: bytes, text: str = "") -> None:
        """Save first, then show."""
        frames = [FRAME % (name, self.run_id, msgspec.json.encode(text)) for name in names]
        await self._saving.save(*frames)
        self.frames += frames
        self.more.set()


class Runs:
    """The application."""

    def __init__(self, url: str, path: str) -> None:
        self._url = url
        self._path = path
        self._saving: Saving | None = None
        self._http: aiohttp.ClientSession | None = None
        self._runs: dict[bytes, Run] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            return
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                break
        method = scope["method"].encode()
        if method == b"POST":
            answers = [await self._start(msgspec.json.decode(body)["model"])]
        else:
            answers = self._runs[scope["path"].split("/")[3].encode()]
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS[method]})
        if isinstance(answers, Run):
            await _follow(answers, send)
        else:
            await send({"type": "http.response.body", "body": answers[0], "more_body": False})

    async def _start(self, target: str) -> bytes:
        if self._saving is None or self._http is None:
            self._saving = Saving(self._path)
            connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=None)
            self._http = aiohttp.ClientSession(connector=connector, timeout=timeout)
        run = Run(secrets.token_hex(16).encode(), self._saving)
        await run.add(*ASKED, text="hi")
        self._runs[run.run_id] = run
        run.task = asyncio.create_task(self._answer(run, self._http, target))
        return b'{"run_id":"%b","status":"queued"}' % run.run_id

    async def _answer(self, run: Run, http: aiohttp.ClientSession, target: str) -> None:
        await run.add(*BEGUN)
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
        asked = http.post(
            f"{self._url}/v1/chat/completions",
            data=msgspec.json.encode(body),
            headers={"x-bench": WHATS[target], "content-type": "application/json"},
        )
        whole, rest = "", b""
        async with asked as answer:
            while piece := await answer.content.readany():
                *lines, rest = (rest + piece).split(b"\n")
                if text := "".join(_texts(lines)):
                    whole += text
                    await run.add(b"message.delta", text=text)
        await run.add(*ENDED, text=whole)
        run.is_over = True


def _texts(lines: list[bytes]) -> Iterator[str]:
    for line in lines:
        if line.startswith(b"data: {"):
            for choice in CHUNKS.decode(line[6:]).choices:
                yield choice.delta.content


async def _follow(run: Run, send: Any) -> None:
    sent = 0
    while not run.is_over or sent < len(run.frames):
        run.more.clear()
        if sent < len(run.frames):
            body, sent = b"".join(run.frames[sent:]), len(run.frames)
            await send({"type": "http.response.body", "body": body, "more_body": True})
        else:
            await run.more.wait()
    await send({"type": "http.response.body", "body": b"", "more_body": False})


if __name__ == "__main__":
    serve(Runs(sys.argv[1], sys.argv[2]))
