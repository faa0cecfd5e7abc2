"""A client that shows every byte, for tests of what a server really sends."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from holdfast.chaos import ChaosServer

PATHS = {"responses": "/v1/responses", "chat": "/v1/chat/completions", "anthropic": "/v1/messages"}


@dataclass(slots=True)
class RawClient:
    """One TCP connection to the server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    headers: dict[str, str] = field(default_factory=dict[str, str])

    async def post(self, wire: str = "chat", **body: object) -> None:
        payload = json.dumps({"model": "m", "stream": True, **body}).encode()
        await self.send_head(wire, len(payload))
        self.writer.write(payload)
        await self.writer.drain()

    async def send_head(self, wire: str, length: int, **headers: str) -> None:
        lines = [f"POST {PATHS[wire]} HTTP/1.1", "host: x", f"content-length: {length}"]
        lines += [f"{name.replace('_', '-')}: {text}" for name, text in headers.items()]
        self.writer.write("\r\n".join([*lines, "", ""]).encode())
        await self.writer.drain()

    async def read_head(self) -> int:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        self.headers = dict(line.split(": ", 1) for line in lines)
        return int(first.split(" ")[1])

    async def read_chunk(self) -> bytes:
        size = int((await self.reader.readuntil(b"\r\n"))[:-2], 16)
        chunk = await self.reader.readexactly(size)
        await self.reader.readexactly(2)
        return chunk

    async def read_body(self) -> bytes:
        if "content-length" in self.headers:
            return await self.reader.readexactly(int(self.headers["content-length"]))
        chunks: list[bytes] = []
        while chunk := await self.read_chunk():
            chunks.append(chunk)
        return b"".join(chunks)

    async def answer(self) -> bytes:
        await self.read_head()
        return await self.read_body()

    def reset(self) -> None:
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


@asynccontextmanager
async def connected(chaos: ChaosServer) -> AsyncGenerator[RawClient]:
    reader, writer = await asyncio.open_connection("127.0.0.1", chaos.port)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.transport.abort()


def events(body: bytes) -> list[tuple[str | None, object]]:
    """The (event, data) pairs of an event stream with LF line ends; comments are left out."""
    found: list[tuple[str | None, object]] = []
    for block in body.decode().split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            fields = dict(line.split(": ", 1) for line in lines)
            data = fields["data"]
            found.append((fields.get("event"), data if data == "[DONE]" else json.loads(data)))
    return found
