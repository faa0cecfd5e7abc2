"""A proxy of the sandbox as a program inside it reaches it, a resolver, and a server to reach through it."""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from holdfast.sandbox.network_proxy import HEAD_BYTES_MAX, NetworkProxy
from stream_server import stream_server


@dataclass
class Names:
    """A resolver that gives each name the addresses of a table, and 127.0.0.1 to all others."""

    table: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    asked: list[str] = field(default_factory=list[str])

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        del port
        self.asked.append(host)
        return self.table.get(host, ["127.0.0.1"])


@dataclass
class Upstream:
    """A server on loopback that answers each connection with what it got, and then hangs up."""

    port: int = 0
    heard: list[bytes] = field(default_factory=list[bytes])


@asynccontextmanager
async def upstream() -> AsyncGenerator[Upstream]:
    """Open such a server."""
    server = Upstream()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard = await reader.read(HEAD_BYTES_MAX)
        server.heard.append(heard)
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nechoed:" + heard)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with stream_server(answer) as server.port:
        yield server


@asynccontextmanager
async def opened(proxy: NetworkProxy) -> AsyncGenerator[int]:
    """The proxy's port, handed out as the program in a sandbox does it."""
    async with proxy:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            with socket.socket(fileno=os.dup(proxy.fd)) as outside:
                socket.send_fds(outside, [b"1"], [listener.fileno()])
            yield listener.getsockname()[1]


async def said(port: int, request: bytes) -> bytes:
    """What the proxy answers to these bytes, to its end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


def connect(host: str) -> bytes:
    return f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
