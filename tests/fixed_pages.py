"""A web server on loopback that answers each path with fixed bytes and remembers what it was asked."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from stream_server import stream_server


@dataclass
class FixedPages:
    """Answers each path with what it is given; PORT in a page becomes the server's port."""

    pages: Mapping[str, bytes]
    port: int = 0
    heads: list[str] = field(default_factory=list[str])

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    @property
    def asked(self) -> list[str]:
        """The paths that were asked for, in order."""
        return [head.split()[1] for head in self.heads]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            writer.write(self.pages[head.split()[1]].replace(b"PORT", str(self.port).encode()))
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def fixed_pages(pages: Mapping[str, bytes]) -> AsyncGenerator[FixedPages]:
    made = FixedPages(pages)
    async with stream_server(made.serve) as made.port:
        yield made


def page(body: bytes | str, kind: str = "text/plain", *headers: str, status: str = "200 OK") -> bytes:
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(data)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + data
