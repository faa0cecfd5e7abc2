"""One HTTP connection: uvicorn's, with deadlines for slow senders and the envelope for what is no HTTP."""

import asyncio
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, ClassVar, Protocol, cast

import httptools
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from holdfast.models.unsent_bytes import unsent_bytes
from holdfast.server.access.middleware import HEALTH_PATHS, SECURITY_HEADERS, SIGN_IN_BYTES_MAX
from holdfast.server.options import Limits
from holdfast.server.problems import Problem, bad_request
from holdfast.server.transport.open_files import AGAIN_S, HEALTH_S, OpenFiles, Place

_GARBLED = bad_request("That is not an HTTP request", code="invalid_http")
_NO_ROOM = Problem(
    503,
    "There is no room for more connections; try again",
    code="too_many_connections",
    headers={"Retry-After": str(AGAIN_S)},
)
_TOO_LONG = Problem(431, "The headers are more than is taken", code="headers_too_large")


def connection_with(
    limits: Limits, knows: Callable[[Scope], bool], *, files: OpenFiles | None = None
) -> type[asyncio.Protocol]:
    """The protocol class for uvicorn's `http` setting; `knows` says whether a request brings a good key."""

    class Connection(DeadlinedConnection):
        deadlines = limits
        open_files = files or OpenFiles()
        unauthenticated = UnauthenticatedConnections(
            limits.unauthenticated_max, limits.unauthenticated_bytes_max
        )
        brings_key = staticmethod(knows)

    return Connection


class _TooLong(Exception):
    """More headers than are taken; the parser hands it on as an error of its own."""


class _TooManyAhead(Exception):
    """More requests than may wait for their answers; what came before them is answered."""


class _NoTunnel(Exception):
    """A request for a connection to somewhere else; the parser hands it on, too."""


class Cuttable(Protocol):
    """A connection that can be cut."""

    def cut(self) -> None:
        """Close it at once; it does not call back."""
        ...


class UnauthenticatedConnections:
    """Connections that have brought no key yet: at most so many, holding at most so many bytes.

    Past a limit nobody is refused: the oldest are cut, since an honest client soon sends its key.
    """

    def __init__(self, connections_max: int, bytes_max: int) -> None:
        self._connections_max = connections_max
        self._bytes_max = bytes_max
        self._held: dict[Cuttable, int] = {}  # the oldest first
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, connection: Cuttable, held_bytes: int) -> None:
        """The connection holds so many bytes of headers and bodies now."""
        self._bytes += held_bytes - self._held.get(connection, 0)
        self._held[connection] = held_bytes
        while len(self._held) > self._connections_max or (
            self._bytes > self._bytes_max and len(self._held) > 1
        ):
            oldest = next(iter(self._held))
            self.forget(oldest)
            oldest.cut()

    def forget(self, connection: Cuttable) -> None:
        """The connection is gone or has a key now; also for one that was never held."""
        self._bytes -= self._held.pop(connection, 0)


class DeadlinedConnection(HttpToolsProtocol):
    """Cuts a connection that is slow to send or to read, and one that sends too much besides bodies.

    Until a request brings a key, no more of its bodies is kept than a sign-in takes, and it is cut when there
    are too many like it.

    A body that a route reads has a deadline there, and an answer that says so; the one here is for the rest
    of a body that nobody reads any more.
    """

    deadlines = Limits()
    unauthenticated: UnauthenticatedConnections
    brings_key: ClassVar["staticmethod[[Scope], bool]"]  # of a request whose headers are there
    open_files = OpenFiles()
    _is_known = False
    _place: Place = "served"
    _deadline: asyncio.TimerHandle | None = None
    _last: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _socket: socket.socket | None = None
    _loose_bytes = 0  # since a head began, or since the last of a body: headers, or what stands for nothing
    _is_in_head = True
    _is_too_long = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Headers must follow."""
        # Head and body are two writes: the second would wait for the reader's delayed acknowledgement.
        known: socket.socket | None = transport.get_extra_info("socket")
        self._socket = known
        if known is not None and known.family in {socket.AF_INET, socket.AF_INET6}:
            known.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connection_made(transport)
        self._place = self.open_files.came()
        if self._place == "none":
            transport.write(_answer(_NO_ROOM))
            transport.close()
            return
        self.unauthenticated.hold(self, 0)
        self.timeout_keep_alive = self.deadlines.keep_alive_s
        self._cut_after(HEALTH_S if self._place == "health" else self.deadlines.header_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is expected any more."""
        self.unauthenticated.forget(self)
        self.open_files.gone()
        self._rest()
        for timer in (self._last, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A head that never ends is not gathered, nor is what follows a body."""
        self._loose_bytes += len(data)
        self._hold(self._loose_bytes)
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self.send_400_response("")
            return
        if self._loose_bytes > self.deadlines.header_bytes_max:
            self._is_too_long = True
            self.send_400_response("")
            self.transport.close()  # also while something else is answered: the parser would gather on

    def _parse(self, data: bytes) -> None:
        """Hand the bytes to the parser; it stops behind a request to speak something else than HTTP/1.1.

        Such a request is to be served as if it had not asked. What the parser takes for the other protocol is
        its body, so it is parsed again without the question.
        """
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as stop:
                data = self._head_without_upgrade() + data[stop.args[0] :]
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            else:
                return

    def _head_without_upgrade(self) -> bytes:
        line = b"%b %b HTTP/%b\r\n" % (
            self.parser.get_method(),
            self.url,
            self.parser.get_http_version().encode(),
        )
        kept = [b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade"]
        return b"%b%b\r\n" % (line, b"".join(kept))

    def on_url(self, url: bytes) -> None:
        """Some more of the address."""
        if len(self.url) + len(url) >= self.deadlines.header_bytes_max:
            self._is_too_long = True
            raise _TooLong
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One more header; what stands behind a body is none."""
        if not self._is_in_head:
            return
        is_too_long = len(name) + len(value) > self.deadlines.header_bytes_max
        if is_too_long or len(self.headers) >= self.deadlines.headers_max:
            self._is_too_long = True
            raise _TooLong
        super().on_header(name, value)

    def on_message_begin(self) -> None:
        """The next request on the same connection has a deadline of its own."""
        if len(self.pipeline) >= self.deadlines.pipelined_max:
            raise _TooManyAhead
        self._is_in_head, self._loose_bytes = True, 0
        self._unset_keepalive_if_required()
        self._rest()
        self._cut_after(self.deadlines.header_s)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The body must follow."""
        self._is_in_head, self._loose_bytes = False, 0
        if self.parser.get_method() == b"CONNECT":
            raise _NoTunnel
        if self.parser.should_upgrade():
            return  # it comes again without that
        self._rest()
        self._cut_after(self.deadlines.body_total_s + 1.0)
        super().on_headers_complete()
        if not self._is_known and self.brings_key(cast("Scope", self.scope)):
            self._is_known = True
            self.unauthenticated.forget(self)

    def _hold(self, held_bytes: int) -> None:
        if not self._is_known and not self.transport.is_closing():
            self.unauthenticated.hold(self, held_bytes)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """See uvicorn; a client of HTTP/1.0 knows no chunks, and one too many is told only of our health."""
        self._place = self.open_files.place(self._place)
        if self._place == "health" and cycle.scope["path"] not in HEALTH_PATHS:
            cycle.keep_alive = False
            app = _refuse
        super()._start_asgi_task(
            cycle, _unchunked(app, cycle) if cycle.scope["http_version"] == "1.0" else app
        )

    def on_body(self, body: bytes) -> None:
        """Some of the body; who still sends one is not idle."""
        self._loose_bytes = 0
        self._unset_keepalive_if_required()
        if not self._is_known:
            # One byte more than is taken is enough to say so.
            body = body[: max(0, SIGN_IN_BYTES_MAX + 1 - len(self.cycle.body))]
            self._hold(len(self.cycle.body) + len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """All is there."""
        if self.parser.should_upgrade():
            return
        self._rest()
        if self.cycle.response_complete and self.timeout_keep_alive_task is None:
            # The answer went out before the body was there, so that nobody waits for the next request yet.
            self._cut_after(self.deadlines.header_s)
        super().on_message_complete()

    def pause_writing(self) -> None:
        """The client does not read as fast as it is written to; one that never reads is not waited for."""
        super().pause_writing()
        if self._unread is None:
            self._wait_for_reader()

    def _wait_for_reader(self) -> None:
        left_bytes = self._left_bytes()
        self._unread = self.loop.call_later(self.deadlines.unread_s, self._cut_unless_read, left_bytes)

    def _left_bytes(self) -> int:
        """The kernel takes megabytes, so a slow reader shows there long before it shows here."""
        return self.transport.get_write_buffer_size() + unsent_bytes(self._socket)

    def _cut_unless_read(self, left_bytes: int) -> None:
        if self._left_bytes() < left_bytes:
            self._wait_for_reader()
        else:
            self._abort()

    def resume_writing(self) -> None:
        """It read."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def shutdown(self) -> None:
        """The server goes: what is under way may end, but a client that does not read is not waited for."""
        super().shutdown()
        self._last = self.loop.call_later(self.deadlines.going_s, self._abort)

    def send_400_response(self, msg: str) -> None:
        """What cannot be parsed gets the same envelope as everything else, in its turn."""
        del msg
        self._rest()
        if self.transport.is_closing():
            return
        cycle = cast("RequestResponseCycle | None", self.cycle)  # none before the first head is whole
        is_answering = cycle is not None and not cycle.response_complete
        is_whole = cycle is not None and (cycle.response_started or not cycle.more_body)
        if cycle is not None and is_answering and (is_whole or self.pipeline):
            # It came behind a whole request, whose answer this would be taken for.
            cycle.keep_alive = False
            return
        self.transport.write(_answer(_TOO_LONG if self._is_too_long else _GARBLED))
        self.transport.close()

    def _cut_after(self, seconds: float) -> None:
        self._deadline = self.loop.call_later(seconds, self._cut)

    def _rest(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _abort(self) -> None:
        transport: Any = self.transport
        transport.abort()

    cut = _abort

    def _cut(self) -> None:
        self._deadline = None
        transport: Any = self.transport
        if transport is not None and not transport.is_closing():
            transport.close()


def _unchunked(app: ASGIApp, cycle: RequestResponseCycle) -> Any:
    """The application for one request: an answer without a length ends with its connection."""

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        is_measured = True

        async def send_plain(message: Message) -> None:
            nonlocal is_measured
            if message["type"] == "http.response.start":
                is_measured = any(name.lower() == b"content-length" for name, _ in message.get("headers", ()))
                cycle.chunked_encoding = None if is_measured else False
            elif not is_measured:
                cycle.expected_content_length = len(message.get("body", b""))
            await send(message)

        await app(scope, receive, send_plain)

    return answered


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that has no room for anyone."""
    del scope, receive
    body = _NO_ROOM.encoded()
    await send(
        {"type": "http.response.start", "status": _NO_ROOM.status, "headers": _headers(_NO_ROOM, body)}
    )
    await send({"type": "http.response.body", "body": body})


def _headers(problem: Problem, body: bytes) -> list[tuple[bytes, bytes]]:
    return [
        (b"content-type", b"application/json"),
        (b"connection", b"close"),
        (b"content-length", b"%d" % len(body)),
        *((name.lower().encode(), value.encode()) for name, value in problem.headers.items()),
        *SECURITY_HEADERS,
    ]


def _answer(problem: Problem) -> bytes:
    body = problem.encoded()
    return b"HTTP/1.1 %d %b\r\n%b\r\n%b" % (
        problem.status,
        HTTPStatus(problem.status).phrase.encode(),
        b"".join(b"%b: %b\r\n" % header for header in _headers(problem, body)),
        body,
    )
