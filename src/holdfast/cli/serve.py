"""`holdfast serve`: the server on its data directory."""

import asyncio
import logging
import random
import socket
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import uvicorn

from holdfast import __version__
from holdfast.agent.means import AgentMeans
from holdfast.agent.policy import ConfiguredJudge
from holdfast.cli.demo_model import demo_server, demo_target
from holdfast.clock import SystemClock
from holdfast.interfaces import JournalError
from holdfast.journal.sqlite import SqliteStore
from holdfast.models.attempt import CallMeans
from holdfast.models.call import ModelCalls
from holdfast.models.http import ModelHttp
from holdfast.models.shared import Shared
from holdfast.server.app import make_app
from holdfast.server.lock import DirectoryBusy, DirectoryLock
from holdfast.server.stream import Streams

OK, FAILED = 0, 1


def serve(host: str, port: int, *, data_dir: Path) -> int:
    """Serve until SIGTERM or Ctrl-C; the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        with DirectoryLock(data_dir) as lock:
            run = uvicorn.Config("unused", loop="uvloop").get_loop_factory()
            with asyncio.Runner(loop_factory=run) as runner:
                return runner.run(_serve(host, port, data_dir=data_dir, lock=lock))
    except (DirectoryBusy, JournalError, OSError) as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return FAILED


async def _serve(host: str, port: int, *, data_dir: Path, lock: DirectoryLock) -> int:
    async with AsyncExitStack() as stack:
        listening = _listen(host, port)
        stack.callback(listening.close)
        store = await SqliteStore.open(data_dir / "holdfast.db")
        stack.push_async_callback(store.close)
        http = await stack.enter_async_context(ModelHttp())
        demo = await stack.enter_async_context(demo_server())
        clock = SystemClock()
        shared = Shared(store, clock.now_ms)
        await shared.load()
        calls = ModelCalls(
            CallMeans(http, shared, store, clock, random.random), (demo_target(demo.base_url),)
        )
        streams = Streams()
        app = make_app(
            AgentMeans(
                store=store,
                model=calls,
                clock=clock,
                judge=ConfiguredJudge(home=Path.home()),
                workspace=Path.cwd(),
            ),
            streams,
        )
        server = _Server(
            uvicorn.Config(
                app,
                log_config=None,
                log_level="warning",
                access_log=False,
                lifespan="on",
                server_header=False,
            ),
            streams,
        )
        url = f"http://{host}:{listening.getsockname()[1]}"
        lock.announce(url)
        print(f"Holdfast {__version__} on {url} (data in {data_dir})", flush=True)
        print(f'Try: curl -N -X POST {url}/v1/runs -d \'{{"input": "hello"}}\'', flush=True)
        await server.serve(sockets=[listening])
    return OK


class _Server(uvicorn.Server):
    """Ends open event streams first, so that shutting down waits for nobody who only listens."""

    def __init__(self, config: uvicorn.Config, streams: Streams) -> None:
        super().__init__(config)
        self._streams = streams

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn."""
        self._streams.end()
        await super().shutdown(sockets)


def _listen(host: str, port: int) -> socket.socket:
    """Bind before anything else starts, so that a taken port is an error of its own."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise OSError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another with --port"
        ) from error
    listening.listen(1024)
    listening.setblocking(False)
    return listening
