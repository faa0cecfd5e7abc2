"""A TCP proxy that breaks connections on command: for tests of whatever talks to a database over a network.

It forwards bytes in both directions without reading them. A test tells it when to cut connections, to swallow
bytes in one direction or both, to cut a connection between a statement and its reply, or to be slow.
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Literal, Self, TypeAlias

PIECE_BYTES = 64 * 1024
CONNECT_S = 10.0
_TURNS = 5  # of the loop, in which a connection is made or closed

Direction: TypeAlias = Literal["to_server", "to_client"]
BOTH: tuple[Direction, ...] = ("to_server", "to_client")


class _Link:
    """One connection of a client, and ours to the server for it."""

    def __init__(
        self,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self.readers = {"to_server": client[0], "to_client": server[0]}
        self.writers = {"to_server": server[1], "to_client": client[1]}
        self.has_asked = False  # something was forwarded to the server since its last reply

    def abort(self, *directions: Direction) -> None:
        """Reset the connections that these directions lead to."""
        for direction in directions or BOTH:
            _reset(self.writers[direction])


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection so that its other end gets a reset, not an end of file."""
    raw = writer.get_extra_info("socket")
    if not writer.transport.is_closing() and raw is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class TcpProxy:
    """Forwards connections to a server, and breaks them on command; an async context manager.

    What is held back isn't lost: once the fault is healed, it arrives late, as it may after a partition of a
    network.
    """

    def __init__(self, host: str, port: int) -> None:
        self._server_at = (host, port)
        self._listening: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_open = {direction: asyncio.Event() for direction in BOTH}
        self._refuses = False
        self._replies_to_cut = 0
        self._is_to_cut: Callable[[bytes], bool] | None = None
        self.delay_s = 0.0
        self.cuts = asyncio.Semaphore(0)  # counts the connections that `cut_reply` has cut
        self.holds = asyncio.Event()  # something is held back
        self.heal()

    async def __aenter__(self) -> Self:
        self._listening = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=PIECE_BYTES)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._listening is not None, "it was entered"
        loop = asyncio.get_running_loop()
        for listening in self._listening.sockets:
            loop.remove_reader(listening.fileno())
        for _ in range(_TURNS):  # whoever has been accepted is known now
            await asyncio.sleep(0)
        self._listening.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(_TURNS):  # and now their connections are closed
            await asyncio.sleep(0)
        await self._listening.wait_closed()

    @property
    def port(self) -> int:
        """The loopback port that clients connect to."""
        assert self._listening is not None, "it was entered"
        return int(self._listening.sockets[0].getsockname()[1])

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._links)

    def heal(self) -> None:
        """Work from now on, and deliver what was held back."""
        self._refuses = False
        self._replies_to_cut = 0
        self.delay_s = 0.0
        self.holds.clear()
        for is_open in self._is_open.values():
            is_open.set()

    def drop(self) -> None:
        """Reset all connections; new ones work."""
        for link in self._links:
            link.abort()

    def cut(self) -> None:
        """Reset all connections, and refuse new ones."""
        self._refuses = True
        self.drop()

    def black_hole(self, *directions: Direction) -> None:
        """Hold back everything, or what goes in one direction; connections stay open, also new ones."""
        for direction in directions or BOTH:
            self._is_open[direction].clear()

    def strand(self) -> None:
        """Reset the clients' side of all connections, but still deliver to the server what they have sent.

        After `black_hole("to_server")`, those are statements that reach the server after their clients have
        connected anew.
        """
        for link in self._links:
            link.abort("to_client")

    def cut_reply(self, *, times: int = 1, after: Callable[[bytes], bool] | None = None) -> None:
        """Reset connections between a statement, which is delivered, and its reply, which is not.

        With `after`, only a statement counts that contains the right bytes.
        """
        self._replies_to_cut = times
        self._is_to_cut = after

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Known at once: a task that is cancelled before it begins would leave its connection open.
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, writer))

    def _ended(self, writer: asyncio.StreamWriter, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        _reset(writer)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            return
        try:
            async with asyncio.timeout(CONNECT_S):
                server = await asyncio.open_connection(*self._server_at, limit=PIECE_BYTES)
        except (OSError, TimeoutError):
            return  # the client sees that nobody is there
        link = _Link((reader, writer), server)
        self._links.add(link)
        try:
            async with asyncio.TaskGroup() as pumps:
                for direction in BOTH:
                    pumps.create_task(self._pump(link, direction))
        finally:
            self._links.discard(link)
            link.abort()

    async def _pump(self, link: _Link, direction: Direction) -> None:
        """Forward until the sender is gone; a receiver that is gone ends the other pump by itself."""
        reader, writer = link.readers[direction], link.writers[direction]
        with suppress(OSError):
            while data := await reader.read(PIECE_BYTES):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                if not self._is_open[direction].is_set():
                    self.holds.set()
                    await self._is_open[direction].wait()
                if direction == "to_server":
                    link.has_asked = link.has_asked or self._is_to_cut is None or self._is_to_cut(data)
                elif self._is_cut_here(link):
                    return
                writer.write(data)
                await writer.drain()
        if not writer.is_closing():
            with suppress(OSError):
                writer.close()

    def _is_cut_here(self, link: _Link) -> bool:
        """Whether this reply is one to cut, and if so, cut its connection."""
        if not self._replies_to_cut or not link.has_asked:
            link.has_asked = False
            return False
        self._replies_to_cut -= 1
        link.abort()
        self.cuts.release()
        return True
