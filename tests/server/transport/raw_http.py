"""Connections that a test speaks HTTP on by itself."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from serving import Served

HEAD = b"Host: localhost\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@asynccontextmanager
async def connected(server: Served) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection that a test speaks on by itself."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 20)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def answers(server: Served, *sent: bytes) -> list[bytes]:
    """The answers to these bytes until the server closes, each from its status on."""
    async with connected(server) as (reader, writer):
        for piece in sent:
            writer.write(piece)
            await writer.drain()
        return (await reader.read()).split(b"HTTP/1.1 ")[1:]
