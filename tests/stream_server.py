"""Small servers of tests, each a function of a connection; leaving one ends all its connections."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

Serve: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]

_TURNS = 5  # of the loop, in which a connection that was accepted becomes a call


@asynccontextmanager
async def stream_server(serve: Serve, *, path: str = "", **options: Any) -> AsyncGenerator[int]:
    """A server on a free loopback port, which is yielded, or at the path of a socket.

    Up to Python 3.11, asyncio's own forgets whoever is connected when it ends. Whether they are gone by then
    is a matter of luck, and the warning about an open connection fails another test.
    """
    writers: list[asyncio.StreamWriter] = []
    tasks: set[asyncio.Task[None]] = set()

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        task = asyncio.create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    if path:
        server = await asyncio.start_unix_server(accepted, path, **options)
    else:
        place = {} if "sock" in options else {"host": "127.0.0.1", "port": 0}
        server = await asyncio.start_server(accepted, **place, **options)
    try:
        yield 0 if path else int(server.sockets[0].getsockname()[1])
    finally:
        await _end(server, writers, tasks)


async def _end(
    server: asyncio.Server, writers: list[asyncio.StreamWriter], tasks: set[asyncio.Task[None]]
) -> None:
    # A connection that is accepted while the server closes would be forgotten, too.
    for listening in server.sockets:
        asyncio.get_running_loop().remove_reader(listening.fileno())
    await _turns()
    server.close()
    for writer in writers:
        writer.transport.abort()
    left = list(tasks)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await _turns()


async def _turns() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)
