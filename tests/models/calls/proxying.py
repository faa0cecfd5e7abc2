"""A small HTTP proxy as companies have them, and a door of TLS in front of the bad model server."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from holdfast.chaos import Gate
from stream_server import stream_server

HERE = "127.0.0.1"
PIECE_BYTES = 16_384
SMALL_BUFFER_BYTES = 4096

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(slots=True)
class Proxy:
    """What a proxy does, and what it saw.

    It passes everything on, whatever the host, to the port of this machine that is asked for. `answers` it
    gives in place of that, one per connection; with `held` it waits at this gate before it does anything, and
    with `takes_bytes` it stops reading a tunnel after so many.
    """

    answers: list[bytes] = field(default_factory=list[bytes])
    held: Gate | None = None
    takes_bytes: int | None = None
    opening: str = "HTTP/1.1 200 Connection established"
    port: int = 0
    lines: list[str] = field(default_factory=list[str])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    closed: Gate = field(default_factory=Gate)  # opens when a client has gone

    @property
    def url(self) -> str:
        return f"http://{HERE}:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client."""
        try:
            await self._serve(reader, writer)
        finally:
            self.closed.open()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await _head(reader)
        self.lines.append(head[0])
        self.headers.append({k.lower(): v for k, _, v in (line.partition(": ") for line in head[1:])})
        if self.held is not None:
            await _first(self.held.passed(), reader.read(1))
        if self.answers:
            writer.write(self.answers.pop(0))
        elif head[0].startswith("CONNECT "):
            await self._tunnel(reader, writer, port=int(head[0].split()[1].rpartition(":")[2]))
        else:
            await self._pass_on(reader, writer, head=head)

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, port: int) -> None:
        async with _connected(port) as (there, out):
            writer.write(f"{self.opening}\r\n\r\n".encode())
            await _first(_pour(reader, out, bytes_max=self.takes_bytes), _pour(there, writer))

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, head: list[str]
    ) -> None:
        method, url, version = head[0].split(" ")
        host, _, path = url.removeprefix("http://").partition("/")
        kept = [line for line in head[1:] if not line.lower().startswith("proxy-")]
        async with _connected(int(host.rpartition(":")[2])) as (there, out):
            out.write("\r\n".join([f"{method} /{path} {version}", *kept, "", ""]).encode())
            await _first(_pour(reader, out), _pour(there, writer))


async def _pour(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, bytes_max: int | None = None
) -> None:
    poured = 0
    while piece := await reader.read(PIECE_BYTES):
        writer.write(piece)
        await writer.drain()
        poured += len(piece)
        if bytes_max is not None and poured >= bytes_max:
            await asyncio.get_running_loop().create_future()


@asynccontextmanager
async def _connected(port: int) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(HERE, port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def _head(reader: asyncio.StreamReader) -> list[str]:
    return (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]


async def _first(*waits: Awaitable[object]) -> None:
    """Until one of them is over; the rest is given up."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def proxy(
    *answers: str, held: Gate | None = None, takes_bytes: int | None = None, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[Proxy]:
    """A proxy on a port of its own; an answer is a status line and headers."""
    given = [
        f"HTTP/1.1 {answer}\r\ncontent-length: 0\r\n\r\n".encode() if answer else b"" for answer in answers
    ]
    it = Proxy(given, held, takes_bytes)
    async with _listening(
        it.serve, tls=tls, buffer_bytes=SMALL_BUFFER_BYTES if takes_bytes else 0
    ) as it.port:
        yield it


@asynccontextmanager
async def behind_tls(port: int, context: ssl.SSLContext) -> AsyncGenerator[int]:
    """A port that speaks TLS and passes on to this one, which does not."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with _connected(port) as (there, out):
            await _first(_pour(reader, out), _pour(there, writer))

    async with _listening(serve, tls=context) as own:
        yield own


@asynccontextmanager
async def _listening(
    serve: Serve, *, tls: ssl.SSLContext | None = None, buffer_bytes: int = 0
) -> AsyncGenerator[int]:
    """A server whose clients are all gone when it is left."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await serve(reader, writer)
        finally:
            writer.close()

    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if buffer_bytes:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    sock.bind((HERE, 0))
    async with stream_server(one, sock=sock, ssl=tls) as port:
        yield port
