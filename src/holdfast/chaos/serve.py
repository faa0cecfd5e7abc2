"""Ways to run the bad model server outside a test's own event loop: as a program, or in a thread.

Ports that never answer: one that refuses connections, and one that leaves them hanging.
"""

import asyncio
import socket
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager

from holdfast.chaos.scenarios import PREFIX, SCENARIOS, BadScript, ScenarioSource, parse_attempts
from holdfast.chaos.server import ChaosOptions, ChaosServer

OK, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130


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


HOST = "127.0.0.1"
FILLERS = 4


@contextmanager
def closed_port() -> Generator[int]:
    """A port on loopback that refuses every connection, reserved so that nobody else takes it."""
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        yield sock.getsockname()[1]


@contextmanager
def silent_port() -> Generator[int]:
    """A port on loopback where a connection is neither accepted nor refused (Linux: its backlog is full)."""
    with ExitStack() as stack:
        sock = stack.enter_context(socket.socket())
        sock.bind((HOST, 0))
        sock.listen(0)
        address = sock.getsockname()
        # Linux drops further connection requests once the backlog is full, as a dead network would.
        for _ in range(FILLERS):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(address)
        yield address[1]


def serve_until_stopped(
    host: str, port: int, *, script: str | None, on_ready: Callable[[str], None] | None = None
) -> int:
    """Serve until Ctrl-C, and return the exit code."""
    try:
        asyncio.run(serve_chaos(host, port, script=script, on_ready=on_ready or _print_models))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BadScript as error:
        sys.stderr.write(f"holdfast: --script: {error}\n")
        return MISUSED
    except OSError as error:
        sys.stderr.write(f"holdfast: {error}\n")
        return FAILED
    return OK


def _print_models(base_url: str) -> None:
    print_ready(f"Faulty model server on {base_url} (Responses, Chat Completions, Anthropic Messages)")
    print_ready(f"Models: {', '.join(f'chaos/{name}' for name in SCENARIOS)}")


def print_ready(url: str) -> None:
    """Print an address for the program that waits for it."""
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()
