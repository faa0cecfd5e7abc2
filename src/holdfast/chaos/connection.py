"""One connection of the bad model server, down to who closed it and how.

Reads HTTP/1.1 requests off a connection, one after the other.
"""

import asyncio
import select
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import httptools
import msgspec
from msgspec import Struct

from holdfast.chaos.frames import JsonObject
from holdfast.chaos.gates import Notifier
from holdfast.chaos.record import ClosedBy, SeenConnection, SeenRequest

if TYPE_CHECKING:
    from holdfast.chaos.server import ChaosServer

NotHttp = httptools.HttpParserError
WantsUpgrade = httptools.HttpParserUpgrade


class RequestHead(Struct, frozen=True):
    """Method, target and headers of a request, and whether the client wants to use the connection again."""

    method: str
    target: str
    headers: dict[str, str]
    keeps_alive: bool = True


@dataclass(slots=True)
class RequestParser:
    """Feeds bytes to httptools and passes on what it finds."""

    listener: "ChaosConnection"
    _parser: httptools.HttpRequestParser = field(init=False)
    _target: bytes = b""
    _headers: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)

    def feed(self, data: bytes) -> None:
        """Take bytes; raises NotHttp, or WantsUpgrade if they ask for another protocol."""
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        """A request starts."""
        self._target, self._headers = b"", {}

    def on_url(self, url: bytes) -> None:
        """A piece of the target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; the last of a name counts."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """All headers are known."""
        method = self._parser.get_method().decode("latin-1")
        target, keeps_alive = self._target.decode("latin-1"), self._parser.should_keep_alive()
        self.listener.head_read(RequestHead(method, target, self._headers, keeps_alive))

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self.listener.piece_read(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self.listener.request_read()


class HangupWatch:
    """Watches a socket for FIN and RST without reading; it sees nothing on systems without epoll.

    A transport whose reading is paused learns of neither. The kernel queues FIN behind unread bytes, but
    epoll reports it at once, and an epoll descriptor can itself be watched by any event loop.
    """

    def __init__(self, fd: int, on_gone: Callable[[ClosedBy], None]) -> None:
        self._on_gone = on_gone
        self._loop = asyncio.get_running_loop()
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        if self._epoll is not None:
            self._epoll.register(fd, select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR)
            self._loop.add_reader(self._epoll.fileno(), self._check)

    def stop(self) -> None:
        """Stop watching; may be called again."""
        if self._epoll is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None

    def _check(self) -> None:
        if self._epoll is None:
            return
        events = self._epoll.poll(0)
        if events:
            mask = events[0][1]
            self.stop()
            self._on_gone(ClosedBy.PEER_RESET if mask & select.EPOLLERR else ClosedBy.PEER)


# Small while headers are read, so that hardly any of the body is read with them.
HEAD_READ_BYTES = 4 * 1024
BODY_READ_BYTES = 128 * 1024
HELD_BYTES_MAX = 64 * 1024


class ChaosExchange:
    """A request that is being read and answered."""

    def __init__(
        self, seen: SeenRequest, answer: Callable[[], Awaitable[None]], *, reads_by_script: bool
    ) -> None:
        self.seen = seen
        self.answer = answer
        self.reads_by_script = reads_by_script
        self.body = bytearray()
        self.is_complete = False

    def parsed_body(self) -> JsonObject | None:
        """The body as a JSON object, or nothing if it is something else."""
        try:
            return msgspec.json.decode(self.body, type=JsonObject)
        except msgspec.MsgspecError:
            return None


class ChaosConnection(asyncio.BufferedProtocol):
    """Reads requests and lets the server answer them."""

    def __init__(self, server: "ChaosServer") -> None:
        self._server = server
        self._buffer = memoryview(bytearray(HEAD_READ_BYTES))
        self._parser = RequestParser(self)
        self._notifier = Notifier()
        self._exchange: ChaosExchange | None = None
        self._task: asyncio.Task[None] | None = None
        self._held = bytearray()
        self._allowance: int | None = None
        self._watch: HangupWatch | None = None
        self._can_write = True
        self._closes_on_reuse = False
        self._may_keep_alive = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Enter the connection in the record."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)
        self.seen: SeenConnection = self._server.record.add_connection()
        self._server.connection_began(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Settle who closed it, and stop whatever was being performed on it."""
        self._stop_watch()
        self._closed_by(ClosedBy.SERVER if exc is None else ClosedBy.PEER_RESET)
        self.seen.closed_s = time.monotonic()
        if self._task is not None:
            self._task.cancel()
        self._server.connection_ended(self, self._task)
        self._server.record.changed()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Room for what may be read now, and not a byte more."""
        del sizehint
        is_uploading = self._exchange is not None and not self._exchange.is_complete
        size = BODY_READ_BYTES if is_uploading else HEAD_READ_BYTES
        if len(self._buffer) != size:
            # Large only during an upload, so that thousands of streams cost little.
            self._buffer = memoryview(bytearray(size))
        return self._buffer[: size if self._allowance is None else max(1, min(size, self._allowance))]

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was read."""
        data = bytes(self._buffer[:nbytes])
        self.seen.received_bytes += nbytes
        self._server.record.changed()
        if self._exchange is None and self._closes_on_reuse:
            self._closed_by(ClosedBy.SERVER)
            self._transport.abort()
            return
        if self._allowance is not None:
            self._allowance = max(0, self._allowance - nbytes)
        self._take(data)
        if self._allowance == 0:
            self._pause_reading()
        self._notifier.notify()

    def eof_received(self) -> bool:
        """The peer has closed its side, so nothing more needs to be sent."""
        self._closed_by(ClosedBy.PEER)
        self._transport.abort()
        return False

    def pause_writing(self) -> None:
        """The kernel takes no more for now."""
        self._can_write = False

    def resume_writing(self) -> None:
        """Everything has been handed to the kernel."""
        self._can_write = True
        self._notifier.notify()

    def head_read(self, head: RequestHead) -> None:
        """Let the server decide, and start to answer."""
        self.seen.requests += 1
        self._may_keep_alive = head.keeps_alive
        exchange = self._server.request_arrived(self, head)
        self._exchange = exchange
        if exchange.reads_by_script:
            self._allowance = 0
            self._pause_reading()
        elif head.headers.get("expect", "").lower() == "100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._task = asyncio.get_running_loop().create_task(self._serve(exchange))

    def piece_read(self, piece: bytes) -> None:
        """Keep a piece of the body, up to the limit."""
        exchange = self._exchange
        assert exchange is not None, "a body follows a head"
        exchange.seen.upload_bytes += len(piece)
        if exchange.seen.upload_bytes <= self._server.record.limits.body_bytes_max:
            exchange.body += piece

    def request_read(self) -> None:
        """The request is complete; from here on only the end of the connection matters."""
        exchange = self._exchange
        assert exchange is not None, "a message ends after its head"
        exchange.is_complete = True
        self._allowance = None
        self._resume_reading()
        self._server.record.add_body(exchange.seen, exchange.parsed_body())
        exchange.body.clear()

    @property
    def upload_is_complete(self) -> bool:
        """Whether the request's body has been read whole."""
        return self._exchange is not None and self._exchange.is_complete

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection can be used again after this answer, as far as is known now."""
        return self._may_keep_alive and self.upload_is_complete

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._transport.is_closing()

    async def send(self, data: bytes) -> None:
        """Write, and wait until the kernel has taken it all."""
        if self.is_closed:
            # The end of the connection is on its way and cancels this task.
            await asyncio.get_running_loop().create_future()
        exchange = self._exchange
        if exchange is not None and exchange.seen.first_byte_s is None:
            exchange.seen.first_byte_s = time.monotonic()
            self._server.record.changed()
        self._transport.write(data)
        self.seen.sent_bytes += len(data)
        # One loop step per write keeps a fast script from starving everything else.
        await asyncio.sleep(0)
        if not self._can_write:
            await self._notifier.until(lambda: self._can_write)

    async def read_upload(self, count_max: int | None) -> None:
        """Read about this many more bytes of the request (all of it: None), then no more."""
        exchange = self._exchange
        assert exchange is not None, "an upload belongs to a request"
        if exchange.is_complete or count_max == 0:
            return
        self._allowance = count_max
        self._resume_reading()
        await self._notifier.until(lambda: exchange.is_complete or self._allowance == 0)

    def hang_up(self) -> None:
        """Close with FIN (the kernel makes it RST if the peer sent what was never read)."""
        self._closed_by(ClosedBy.SERVER)
        self._transport.close()

    def reset(self) -> None:
        """Close with RST."""
        self._closed_by(ClosedBy.SERVER)
        sock = cast("socket.socket", self._transport.get_extra_info("socket"))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def abort(self) -> None:
        """Close at once, as the server's own end does."""
        self._closed_by(ClosedBy.SERVER)
        self._transport.abort()

    def close_after_answer(self) -> None:
        """Do not use the connection for another request."""
        self._may_keep_alive = False

    def close_on_reuse(self) -> None:
        """Close when the next request arrives, without a byte of an answer."""
        self._closes_on_reuse = True

    async def _serve(self, exchange: ChaosExchange) -> None:
        seen = exchange.seen
        try:
            if not exchange.reads_by_script:
                await self.read_upload(None)
            await exchange.answer()
            seen.finished = True
        finally:
            seen.ended_s = time.monotonic()
            self._server.record.changed()
        if self.is_closed:
            return
        if not self.keeps_alive:
            self.hang_up()
            return
        self._exchange, self._task = None, None
        held = bytes(self._held)
        self._held.clear()
        self._resume_reading()
        if held:
            self._take(held)

    def _take(self, data: bytes) -> None:
        if self.upload_is_complete:
            # The next request may come while the last step of this one is still being performed.
            self._held += data
            if len(self._held) > HELD_BYTES_MAX:
                self._pause_reading()
            return
        try:
            self._parser.feed(data)
        except NotHttp:
            self._refuse("400 Bad Request")
        except WantsUpgrade:
            self._refuse("426 Upgrade Required")  # to plain HTTP: there are no WebSockets here

    def _refuse(self, status: str) -> None:
        self._transport.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
        self.hang_up()

    def _pause_reading(self) -> None:
        if self._watch is None and not self.is_closed:
            self._transport.pause_reading()
            sock = cast("socket.socket", self._transport.get_extra_info("socket"))
            self._watch = HangupWatch(sock.fileno(), self._gone_while_paused)

    def _resume_reading(self) -> None:
        if self._watch is not None:
            self._stop_watch()
            self._transport.resume_reading()

    def _stop_watch(self) -> None:
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

    def _gone_while_paused(self, closed_by: ClosedBy) -> None:
        self._closed_by(closed_by)
        self._transport.abort()

    def _closed_by(self, closed_by: ClosedBy) -> None:
        # Only the first sign counts; later ones are its consequences.
        if self.seen.closed_by is None:
            self.seen.closed_by = closed_by
