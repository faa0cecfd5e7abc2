"""Where real clients are tried: a `holdfast serve` process, and every byte on both of its sides recorded."""

import asyncio
import contextlib
import json
import re
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

STARTED_S = 60.0
PIECE_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class RawRequest:
    """One HTTP request as it was sent."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        """The path with its query."""
        return self.line.split()[1]


@dataclass(slots=True)
class RecordedConnection:
    """The bytes of one connection, in both directions."""

    up: bytearray = field(default_factory=bytearray)
    down: bytearray = field(default_factory=bytearray)


@dataclass(slots=True)
class Recorder:
    """Passes bytes between a client and a port, and keeps all of them."""

    connections: list[RecordedConnection] = field(default_factory=list[RecordedConnection])

    @asynccontextmanager
    async def before(self, port: int) -> AsyncGenerator[str]:
        """Listen before this port; yields the address."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen = RecordedConnection()
            self.connections.append(seen)
            with contextlib.suppress(OSError):
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    pumps = (_pump(reader, far_writer, seen.up), _pump(far_reader, writer, seen.down))
                    await _first(*pumps)
                finally:
                    far_writer.close()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    def requests(self) -> list[RawRequest]:
        """Every whole request, in the order of connections."""
        return [request for seen in self.connections for request in _requests(bytes(seen.up))]

    def sent(self) -> bytes:
        """Everything that went from the client's side."""
        return b"".join(bytes(seen.up) for seen in self.connections)

    def received(self) -> bytes:
        """Everything that came back."""
        return b"".join(bytes(seen.down) for seen in self.connections)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: bytearray) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(PIECE_BYTES):
            kept.extend(piece)
            writer.write(piece)
            await writer.drain()


async def _first(*pumps: "asyncio._CoroutineLike[None]") -> None:  # pyright: ignore[reportPrivateUsage]
    tasks = [asyncio.ensure_future(pump) for pump in pumps]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _requests(data: bytes) -> Iterator[RawRequest]:
    while b"\r\n\r\n" in data:
        head, _, data = data.partition(b"\r\n\r\n")
        line, *fields = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in fields)}
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body, data = _unchunked(data)
        else:
            length = int(headers.get("content-length", 0))
            body, data = data[:length], data[length:]
        yield RawRequest(line, headers, body)


def _unchunked(data: bytes) -> tuple[bytes, bytes]:
    body = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        length = int(size or b"0", 16)
        body, data = body + data[:length], data[length + 2 :]
        if not length:
            break
    return body, data


def is_same_but_for_the_model(sent: bytes, arrived: bytes) -> bool:
    """Whether what arrived is what was sent, byte for byte, with another value of `model`."""
    if sent == arrived:
        return True
    try:
        before, after = (json.dumps(json.loads(body)["model"]).encode() for body in (sent, arrived))
    except (ValueError, KeyError, TypeError):
        return False
    for found in re.finditer(rb'"model"\s*:\s*', sent):
        at = found.end()
        rest = sent[at:]
        if rest.startswith(before) and sent[:at] + after + rest[len(before) :] == arrived:
            return True
    return False


@asynccontextmanager
async def holdfast(config: str, home: Path) -> AsyncGenerator[int]:
    """`holdfast serve` with this configuration; yields its port."""
    path = home / "holdfast.toml"
    path.write_text(config)
    command = Path(sys.executable).parent / "holdfast"
    process = await asyncio.create_subprocess_exec(
        command, "serve", "--config", path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(STARTED_S):
            port = await _port(process.stdout)
        draining = asyncio.create_task(process.stdout.read())
        try:
            yield port
        finally:
            draining.cancel()
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _port(printed: asyncio.StreamReader) -> int:
    said = ""
    while line := (await printed.readline()).decode():
        said += line
        if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
            return int(found[1])
    raise SystemExit(f"holdfast serve did not start:\n{said}")
