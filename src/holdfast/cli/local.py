"""A server inside this process, so that chat and run need none; whoever comes second attaches to it."""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import uvicorn

from holdfast.cli.attach import Works
from holdfast.client.address import Address
from holdfast.config.configuration import Loaded
from holdfast.host.assembly import assemble, http_server
from holdfast.host.lock import DirectoryLock
from holdfast.host.server_keys import keys_of, made_key
from holdfast.server.streams.stream import Streams

HOST = "127.0.0.1"
LOOK_S = 0.005
LOOKS_MAX = 10  # as long as a connection that was closed here may take to be closed there


@asynccontextmanager
async def local_server(loaded: Loaded, lock: DirectoryLock, *, works: Works) -> AsyncGenerator[Address]:
    """Serve the data directory on loopback until this is left; what still runs then goes on next time."""
    settings = loaded.settings
    made = await asyncio.to_thread(made_key, settings)
    keys = keys_of(settings, made)
    async with AsyncExitStack() as stack:
        listening = socket.create_server((HOST, 0))
        stack.callback(listening.close)
        listening.setblocking(False)
        streams = Streams()
        goes_on = "all" if works == "all" else "asked"
        app = await assemble(stack, settings, streams, keys=keys, goes_on=goes_on, config=loaded.file)
        config = http_server(app, settings)
        server = _Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listening]), name="serve")
        try:
            await server.is_ready(serving)
            if works == "nothing":
                await app.drain()
            url = f"http://{HOST}:{listening.getsockname()[1]}"
            lock.announce(url)
            yield Address(url, keys[0].secret if keys else "")
        finally:
            streams.end()
            server.leave()
            await serving


class _Server(uvicorn.Server):
    """A server whose owner says when it ends; signals are the owner's too."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ready = asyncio.Event()
        self._left = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """See uvicorn."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn."""
        await super().startup(sockets)
        self._ready.set()

    async def main_loop(self) -> None:
        """See uvicorn, which looks ten times a second whether it is over."""
        await self._left.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn, which waits a tenth of a second also when no client is left."""
        for server in self.servers:
            server.close()
        for _ in range(LOOKS_MAX):
            if not self.server_state.connections and not self.server_state.tasks:
                await self.lifespan.shutdown()
                return
            await asyncio.sleep(LOOK_S)
        await super().shutdown(sockets)

    async def is_ready(self, serving: asyncio.Task[None]) -> None:
        """Wait until requests are answered; raises if that will never be."""
        ready = asyncio.create_task(self._ready.wait())
        await asyncio.wait({ready, serving}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if serving.done() or self.should_exit:
            self.leave()
            await serving
            raise OSError("the server inside this process did not start; holdfast.log says why")

    def leave(self) -> None:
        """End it."""
        self.should_exit = True
        self._left.set()


def private() -> None:
    """Conversations, keys and logs are their owner's business."""
    os.umask(0o077)
