"""Ways to run the bad model server outside a test's own event loop: as a program, or in a thread."""

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from holdfast.chaos.scenarios import PREFIX, SCENARIOS, ScenarioSource
from holdfast.chaos.script_text import parse_attempts
from holdfast.chaos.server import ChaosOptions, ChaosServer


async def serve_chaos(
    host: str = "127.0.0.1",
    port: int = 8199,
    *,
    script: str | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until cancelled: the script, over and over, or what the model name of a request asks for.

    Raises BadScript before it listens; `on_ready` gets the base URL once it does.
    """
    if script is not None:
        parse_attempts(script)
    models = tuple(PREFIX + name for name in SCENARIOS)
    options = ChaosOptions(host=host, port=port, models=models)
    async with ChaosServer(source=ScenarioSource(script), options=options) as server:
        if on_ready is not None:
            on_ready(server.base_url)
        await asyncio.get_running_loop().create_future()


@contextmanager
def chaos_in_thread(server: ChaosServer) -> Generator[ChaosServer]:
    """Run a server in a thread with an event loop of its own; gates and its record work from any thread.

    Entering and leaving wait for that thread, so do both outside a running event loop (in a fixture).
    """
    ready = threading.Event()
    stopping: list[Callable[[], None]] = []
    failures: list[BaseException] = []

    async def serve() -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        stopping.append(lambda: loop.call_soon_threadsafe(stop.set) and None)
        async with server:
            ready.set()
            await stop.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:  # noqa: BLE001 - carried to the thread that joins, which raises it
            failures.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="chaos", daemon=True)
    thread.start()
    ready.wait()
    try:
        if not failures:
            yield server
    finally:
        if not failures:
            stopping[0]()
        thread.join()
    if failures:
        raise failures[0]
