"""A TCP proxy between a store and its database that a test can make misbehave."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal

Direction = Literal["to_server", "to_client"]


class TcpProxy:
    """Forwards bytes on a loopback port; each direction can be held, and all connections cut."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._server: asyncio.Server | None = None
        self._open = {"to_server": asyncio.Event(), "to_client": asyncio.Event()}
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_refusing = False
        self.held = asyncio.Event()  # something is being held back
        for gate in self._open.values():
            gate.set()

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    def hold(self, direction: Direction) -> None:
        """Keep what arrives from now on."""
        self.held.clear()
        self._open[direction].clear()

    def release(self) -> None:
        """Forward everything again, also what was kept on connections that still exist."""
        for gate in self._open.values():
            gate.set()

    def cut(self) -> None:
        """Reset every connection; what was kept is lost."""
        for writer in self._writers:
            writer.transport.abort()

    def refuse(self) -> None:
        """Cut everything, and accept no connections until `accept`."""
        self._is_refusing = True
        self.cut()

    def accept(self) -> None:
        """Accept connections again."""
        self._is_refusing = False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_refusing:
            writer.transport.abort()
            return
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        self._writers |= {writer, server_writer}
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._forward(reader, server_writer, "to_server"))
                tasks.create_task(self._forward(server_reader, writer, "to_client"))
        except* (OSError, asyncio.IncompleteReadError):
            pass  # the test cut it, or one side is gone
        finally:
            for one in (writer, server_writer):
                one.transport.abort()
                self._writers.discard(one)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: Direction
    ) -> None:
        while data := await reader.read(65_536):
            if not self._open[direction].is_set():
                self.held.set()
                await self._open[direction].wait()
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self.release()
        self.cut()
        await self._server.wait_closed()
        await asyncio.sleep(0)


@asynccontextmanager
async def proxy_to(server_port: int) -> AsyncGenerator[TcpProxy]:
    proxy = TcpProxy(server_port)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()
