"""A fake of the endpoint `/audio/transcriptions`, as OpenAI documents it."""

import asyncio
from types import TracebackType
from typing import Self

from aiohttp import web
from msgspec import Struct


class SeenAudio(Struct):
    """One request: its key, its fields and its file."""

    key: str
    fields: dict[str, str]
    name: str = ""
    media_type: str = ""
    audio: bytes = b""


class FakeTranscriptions:
    """The endpoint on loopback; an async context manager. `answer` is its next body, `status` its status.

    With `hangs`, it takes a request and never answers.
    """

    def __init__(self) -> None:
        self.answer = b'{"text": "call me at nine"}'
        self.status = 200
        self.hangs = False
        self.seen: list[SeenAudio] = []
        self.taken = asyncio.Event()
        self.base_url = ""
        self._ends = asyncio.Event()

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=50_000_000)
        app.router.add_post("/v1/audio/transcriptions", self._transcribe)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.base_url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        await self._runner.cleanup()

    async def _transcribe(self, request: web.Request) -> web.Response:
        seen = SeenAudio(request.headers.get("authorization", ""), {})
        form = await request.post()
        for name, value in form.items():
            if isinstance(value, web.FileField):
                seen.name, seen.media_type = value.filename, value.content_type
                seen.audio = value.file.read()
            else:
                seen.fields[name] = str(value)
        self.seen.append(seen)
        self.taken.set()
        if self.hangs:
            await self._ends.wait()
        return web.Response(body=self.answer, status=self.status, content_type="application/json")
