"""A proxy that cuts each connection after so many bytes of its answer's body."""

import asyncio
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from stream_server import stream_server


class Cutting:
    """Passes requests on, and the body of each answer only so far; an async context manager."""

    def __init__(self, url: str, *, after_bytes: int) -> None:
        parts = urlsplit(url)
        self._host, self._port = str(parts.hostname), int(parts.port or 80)
        self._after_bytes = after_bytes
        self._stack = AsyncExitStack()
        self.connections = 0
        self.url = ""

    async def __aenter__(self) -> Self:
        port = await self._stack.enter_async_context(stream_server(self._serve))
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        back, forth = await asyncio.open_connection(self._host, self._port)
        try:
            forth.write(await reader.readuntil(b"\r\n\r\n"))
            writer.write(await back.readuntil(b"\r\n\r\n"))
            left = self._after_bytes
            while left > 0 and (piece := await back.read(left)):
                left -= len(piece)
                writer.write(piece)
                await writer.drain()
        finally:
            for one in (writer, forth):
                one.transport.abort()
