"""An application on a socket: how uvicorn serves it, and a server that its caller starts and ends."""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import uvicorn
from msgspec import Struct
from msgspec.structs import replace
from starlette.types import ASGIApp

from holdfast.host.opening import Opening
from holdfast.host.runtime import Runtime
from holdfast.racing import race
from holdfast.runner.supervisor import RunnerLimits
from holdfast.server.access.middleware import AccessMiddleware
from holdfast.server.app import ServerWork, make_app
from holdfast.server.image_urls import ImageUrls
from holdfast.server.options import Limits, ServerOptions
from holdfast.server.streams.stream import Streams
from holdfast.server.transport.connection import connection_with

HOST = "127.0.0.1"
LOOK_S = 0.001

if TYPE_CHECKING:
    from holdfast.server.transport.proxies import ReverseProxies


class Application(Struct, frozen=True):
    """The ASGI application, with its open event streams and the limits it keeps."""

    asgi: AccessMiddleware
    streams: Streams
    limits: Limits
    opening: Opening[Any] | None = None  # of the tools; None: they are open
    proxies: "ReverseProxies | None" = None

    def begin(self) -> None:
        """Open the tools; called once the server listens."""
        if self.opening is not None:
            self.opening.begin()

    async def until_opened(self) -> None:
        """Wait for the tools; raises OSError if they can't be opened."""
        if self.opening is not None:
            await self.opening.wait()


def application(
    runtime: Runtime,
    options: ServerOptions | None = None,
    limits: RunnerLimits | None = None,
    *,
    also: Mapping[str, ServerWork] = MappingProxyType({}),
    opening: Opening[Any] | None = None,
) -> Application:
    """The application on top of a runtime; its lifespan owns the runner, and what `also` does."""
    options = options or ServerOptions()
    options = replace(
        options,
        targets=runtime.targets,
        target_states=runtime.target_states,
        try_target=runtime.try_target,
        try_now=runtime.try_now,
        images=options.images or ImageUrls(),
        calls=runtime.calls,
        tools_failed=lambda: opening is not None and opening.has_failed,
    )
    streams = Streams()
    asgi = make_app(runtime.agent, streams, options=options, runner=limits, also=also)
    return Application(asgi, streams, options.limits, opening, _proxies(options))


def _proxies(options: ServerOptions) -> "ReverseProxies | None":
    if not (options.trusted_proxies or options.mount_path):
        return None
    from holdfast.server.transport.proxies import ReverseProxies  # few servers have one in front

    return ReverseProxies(options.trusted_proxies, options.mount_path)


def http_config(
    app: Application, *, outermost: ASGIApp | None = None, tls: ssl.SSLContext | None = None
) -> uvicorn.Config:
    """How an application is served: with deadlines against slow senders, and without uvicorn's own logs."""
    return uvicorn.Config(
        outermost or app.asgi,
        http=connection_with(app.limits, app.asgi.brings_key, files=app.asgi.open_files, proxies=app.proxies),
        proxy_headers=False,  # the connection reads them, from trusted proxies
        ssl_context_factory=None if tls is None else lambda _config, _default: tls,
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="on",
        server_header=False,
    )


@asynccontextmanager
async def serving(app: Application, *, outermost: ASGIApp | None = None) -> AsyncGenerator[str]:
    """Serve on a free loopback port, and yield the URL; runs that are open at the end resume next time."""
    with socket.create_server((HOST, 0)) as listening:
        listening.setblocking(False)
        server = InProcessServer(http_config(app, outermost=outermost))
        task = asyncio.create_task(server.serve(sockets=[listening]), name="serve")
        try:
            await server.wait_until_ready(task)
            app.begin()
            yield f"http://{HOST}:{listening.getsockname()[1]}"
        finally:
            app.streams.end()
            server.leave()
            await task


class InProcessServer(uvicorn.Server):
    """A uvicorn server that leaves signals to its owner and ends when told to, without polling."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ready = asyncio.Event()
        self._left = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and signal that requests are answered."""
        await super().startup(sockets)
        self._ready.set()

    async def main_loop(self) -> None:
        """Wait until the owner leaves."""
        await self._left.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close idle connections and let active responses finish, without uvicorn's tenth of a second."""
        del sockets  # the owner closes them
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        while self.server_state.connections or self.server_state.tasks:  # noqa: ASYNC110  # nothing reports that
            await asyncio.sleep(LOOK_S)
        for server in self.servers:
            await server.wait_closed()
        await self.lifespan.shutdown()

    async def wait_until_ready(self, serving: asyncio.Task[None]) -> None:
        """Return once requests are answered; raise OSError if the server ends before that."""
        ready = asyncio.create_task(self._ready.wait())
        await race(ready, watched=[serving])
        if serving.done() or self.should_exit:
            self.leave()
            await serving
            raise OSError("the server in this process didn't start; see holdfast.log")

    def leave(self) -> None:
        """Let the server end."""
        self.should_exit = True
        self._left.set()
