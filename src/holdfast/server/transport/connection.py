"""One HTTP connection: uvicorn's, with deadlines for slow clients and error envelopes for invalid HTTP."""

import asyncio
import os
import socket
import weakref
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

import httptools
from msgspec import Struct
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from holdfast.models.unsent_bytes import unsent_bytes
from holdfast.server.access.middleware import HEALTH_PATHS, SECURITY_HEADERS, keyless_bytes_max
from holdfast.server.options import Limits
from holdfast.server.problems import Problem, bad_request
from holdfast.server.transport.open_files import AGAIN_S, HEALTH_S, OpenFiles, Place

if TYPE_CHECKING:
    from holdfast.server.transport.proxies import ReverseProxies

_GARBLED = bad_request("This isn't a valid HTTP request", code="invalid_http")
_METHOD = bad_request(
    "The request doesn't start with a known HTTP method such as GET or POST. Use http, not https",
    code="invalid_http",
)
_NO_PROXY = bad_request("CONNECT isn't supported: this server isn't a proxy", code="invalid_http")
_OTHER_HOST = bad_request(
    "The URL's host doesn't match the Host header: this server isn't a proxy", code="invalid_http"
)
_NO_ROOM = Problem(
    503,
    "Too many connections are open. Try again",
    code="too_many_connections",
    headers={"Retry-After": str(AGAIN_S)},
)
# How long, and how much, the rest of a body is read before the connection of an answered request is closed.
DRAIN_S = 2.0
DRAIN_BYTES_MAX = 64 * 1024 * 1024
_TOO_LONG = Problem(431, "The request headers are too large", code="headers_too_large")


def connection_with(
    limits: Limits,
    knows: Callable[[Scope], bool],
    *,
    files: OpenFiles | None = None,
    proxies: "ReverseProxies | None" = None,
) -> type[asyncio.Protocol]:
    """The protocol class for uvicorn's `http` setting; `knows` says whether a request is authenticated."""

    class Connection(DeadlinedConnection):
        deadlines = limits
        open_files = files or OpenFiles()
        reverse_proxies = proxies
        unauthenticated = UnauthenticatedConnections(
            limits.unauthenticated_max,
            limits.unauthenticated_bytes_max,
            grace_s=limits.unauthenticated_grace_s,
        )
        brings_key = staticmethod(knows)

    return Connection


class _TooLong(Exception):
    """The headers are too large; the parser passes this on as its own error."""


class _TooManyAhead(Exception):
    """Too many pipelined requests; those before are answered."""


class _NoTunnel(Exception):
    """A CONNECT request; the parser passes this on, too."""


class _ForeignHost(Exception):
    """A request for a whole URL of another host than its header names; the parser passes this on, too."""


class Cuttable(Protocol):
    """A connection that can be closed at once."""

    def cut(self) -> None:
        """Close it at once; this doesn't call back."""
        ...


class _Held(Struct):
    """A connection without a key: since when it's open, and how many bytes it holds."""

    since_s: float
    held_bytes: int


class UnauthenticatedConnections:
    """Connections that haven't sent a key yet, with a limit on their number and on the bytes they hold.

    Past a limit, the oldest are closed. A large number alone closes none within its grace period: in a burst
    of honest clients, hundreds are accepted before the first of their requests is read.
    """

    def __init__(self, connections_max: int, bytes_max: int, *, grace_s: float) -> None:
        self._connections_max = connections_max
        self._bytes_max = bytes_max
        self._grace_s = grace_s
        self._held: dict[Cuttable, _Held] = {}  # the oldest first
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, connection: Cuttable, held_bytes: int, *, now_s: float) -> None:
        """Record how many bytes of headers and bodies the connection holds now."""
        held = self._held.setdefault(connection, _Held(now_s, 0))
        self._bytes += held_bytes - held.held_bytes
        held.held_bytes = held_bytes
        self.trim(now_s)

    def trim(self, now_s: float) -> None:
        """Close the oldest connections beyond the limits."""
        while self._held:
            oldest, held = next(iter(self._held.items()))
            is_crowded = len(self._held) > self._connections_max and now_s - held.since_s >= self._grace_s
            is_heavy = self._bytes > self._bytes_max and len(self._held) > 1
            if not (is_crowded or is_heavy):
                return
            self.forget(oldest)
            oldest.cut()

    def forget(self, connection: Cuttable) -> None:
        """Forget a connection that is gone or has a key; unknown ones are fine."""
        held = self._held.pop(connection, None)
        self._bytes -= held.held_bytes if held is not None else 0


class DeadlinedConnection(HttpToolsProtocol):
    """Closes connections that send or read too slowly, or send too much outside of bodies.

    Until a request is authenticated, only as much of its body is buffered as a sign-in or a webhook needs,
    and it's closed when there are too many like it.

    A body that a route reads has its deadline there, with an error response; the one here is for the rest of
    a body that no route reads.
    """

    deadlines = Limits()
    unauthenticated: UnauthenticatedConnections
    brings_key: ClassVar["staticmethod[[Scope], bool]"]  # of a request whose headers are there
    open_files = OpenFiles()
    reverse_proxies: "ReverseProxies | None" = None
    _is_proxied = False
    _is_known = False
    _place: Place = "served"
    _deadline: asyncio.TimerHandle | None = None
    _last: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _socket: socket.socket | None = None
    _loose_bytes = 0  # since the headers began, or since the end of a body
    _is_in_head = True
    _is_too_long = False
    _refusal = _GARBLED
    _left_to_drain: int | None = None  # bytes of an answered request's body that are still read

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Wait for headers, with a deadline."""
        # Head and body are two writes; without this, the second waits for a delayed acknowledgement.
        known: socket.socket | None = transport.get_extra_info("socket")
        self._socket = known
        if known is not None and known.family in {socket.AF_INET, socket.AF_INET6}:
            known.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connection_made(transport)
        if self.reverse_proxies is not None:
            self._is_proxied = self.reverse_proxies.is_trusted(self.client[0] if self.client else "")
        self._place = self.open_files.came()
        if self._place == "none":
            self.unauthenticated.trim(self.loop.time())
            self._refuse_room()
            return
        self.unauthenticated.hold(self, 0, now_s=self.loop.time())
        self.timeout_keep_alive = self.deadlines.keep_alive_s
        self._cut_after(HEALTH_S if self._place == "health" else self.deadlines.header_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel all timers."""
        self.unauthenticated.forget(self)
        self.open_files.gone()
        self._rest()
        for timer in (self._last, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, but don't buffer endless headers, or endless data after a body."""
        self._loose_bytes += len(data)
        self._hold(self._loose_bytes)
        try:
            self._parse(data)
        except httptools.HttpParserError as error:
            self._refusal = _refusal_of(error)
            self.send_400_response("")
            return
        if self._loose_bytes > self.deadlines.header_bytes_max:
            self._is_too_long = True
            self.send_400_response("")
            self.transport.close()  # even while a response is being sent: the parser would keep buffering

    def _parse(self, data: bytes) -> None:
        """Feed the parser; it stops after a request to upgrade to another protocol.

        The upgrade is ignored. The parser treats the body as data of the other protocol, so it's parsed again
        without the upgrade header.
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
        """Collect the URL, up to the limit."""
        if len(self.url) + len(url) >= self.deadlines.header_bytes_max:
            self._is_too_long = True
            raise _TooLong
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header; trailers after a body are ignored."""
        if not self._is_in_head:
            return
        is_too_long = len(name) + len(value) > self.deadlines.header_bytes_max
        if is_too_long or len(self.headers) >= self.deadlines.headers_max:
            self._is_too_long = True
            raise _TooLong
        super().on_header(name, value)

    def on_message_begin(self) -> None:
        """Start the deadline of the next request."""
        if len(self.pipeline) >= self.deadlines.pipelined_max:
            raise _TooManyAhead
        self._is_in_head, self._loose_bytes = True, 0
        self._unset_keepalive_if_required()
        self._rest()
        self._cut_after(self.deadlines.header_s)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Start the deadline of the body."""
        self._is_in_head, self._loose_bytes = False, 0
        if self.parser.get_method() == b"CONNECT":
            raise _NoTunnel
        if not self.url.startswith((b"/", b"*")):
            self._check_host()
        if self.parser.should_upgrade():
            return  # it's parsed again without the upgrade
        if self.reverse_proxies is not None:
            self.url = self.reverse_proxies.unmounted(self.url)
            if self._is_proxied and (scheme := self.reverse_proxies.forwarded(self.headers)):
                self.scope["scheme"] = cast("Any", scheme)
        self._rest()
        self._cut_after(self.deadlines.body_total_s + 1.0)
        super().on_headers_complete()
        if not self._is_known and self.brings_key(cast("Scope", self.scope)):
            self._is_known = True
            self.unauthenticated.forget(self)

    def _check_host(self) -> None:
        """Raise _ForeignHost if a whole URL names another host than the header, which is what is checked."""
        named = self.url.partition(b"://")[2].partition(b"/")[0].partition(b"?")[0].lower()
        if any(name == b"host" and value.lower() != named for name, value in self.headers):
            raise _ForeignHost

    def _hold(self, held_bytes: int) -> None:
        if not self._is_known and not self.transport.is_closing():
            self.unauthenticated.hold(self, held_bytes, now_s=self.loop.time())

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Serve HTTP/1.0 without chunks, and past the connection limit only `/health`."""
        self._place = self.open_files.place(self._place)
        if self._place == "health" and cycle.scope["path"] not in HEALTH_PATHS:
            cycle.keep_alive = False
            app = _refuse
        if cycle.more_body:
            drained = _ClosedAfterBody(cycle, self._close_after_body)
            cycle.transport = cast("Any", drained)
        super()._start_asgi_task(
            cycle, _unchunked(app, cycle) if cycle.scope["http_version"] == "1.0" else app
        )

    def _close_after_body(self, cycle: RequestResponseCycle) -> None:
        """Close the connection, but read the rest of the body first: unread data would reset it.

        A client that is still sending would then never see the response.
        """
        if self.transport.is_closing() or not cycle.more_body:
            self.transport.close()
            return
        self._left_to_drain = DRAIN_BYTES_MAX
        self.flow.resume_reading()
        self._rest()
        self._cut_after(DRAIN_S)

    def on_body(self, body: bytes) -> None:
        """Collect body data; a client that sends it isn't idle."""
        self._loose_bytes = 0
        if self._left_to_drain is not None:
            self._left_to_drain -= len(body)
            if self._left_to_drain < 0:
                self._cut()
            return
        self._unset_keepalive_if_required()
        if not self._is_known:
            # One byte past the limit is enough to refuse it.
            most = keyless_bytes_max(self.cycle.scope["path"], self.deadlines)
            body = body[: max(0, most + 1 - len(self.cycle.body))]
            self._hold(len(self.cycle.body) + len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the body's deadline."""
        if self.parser.should_upgrade():
            return
        self._rest()
        if self._left_to_drain is not None:
            self.transport.close()
            return
        if self.cycle.response_complete and self.timeout_keep_alive_task is None:
            # The response went out before the body arrived, so no keep-alive timer is running yet.
            self._cut_after(self.deadlines.header_s)
        super().on_message_complete()

    def pause_writing(self) -> None:
        """The client reads too slowly; start a deadline for one that doesn't read at all."""
        super().pause_writing()
        if self._unread is None:
            self._wait_for_reader()

    def _wait_for_reader(self) -> None:
        left_bytes = self._left_bytes()
        self._unread = self.loop.call_later(self.deadlines.unread_s, self._cut_unless_read, left_bytes)

    def _left_bytes(self) -> int:
        """The kernel buffers megabytes, so a slow reader's progress shows there first."""
        return self.transport.get_write_buffer_size() + unsent_bytes(self._socket)

    def _cut_unless_read(self, left_bytes: int) -> None:
        if self._left_bytes() < left_bytes:
            self._wait_for_reader()
        else:
            self._abort()

    def resume_writing(self) -> None:
        """The client has read; cancel its deadline."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def shutdown(self) -> None:
        """Let active responses finish, but not for a client that doesn't read."""
        super().shutdown()
        self._last = self.loop.call_later(self.deadlines.going_s, self._abort)

    def send_400_response(self, msg: str) -> None:
        """Answer invalid HTTP with the usual error envelope, in its turn."""
        del msg
        self._rest()
        if self.transport.is_closing():
            return
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first complete head
        is_answering = cycle is not None and not cycle.response_complete
        is_whole = cycle is not None and (cycle.response_started or not cycle.more_body)
        if cycle is not None and is_answering and (is_whole or self.pipeline):
            # It follows a complete request, and would be taken for its response.
            cycle.keep_alive = False
            return
        self.transport.write(_answer(_TOO_LONG if self._is_too_long else self._refusal))
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

    def cut(self) -> None:
        """Close it at once. A client that still waits for its first response gets a 503."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first complete head
        if cycle is None and not self.transport.is_closing():
            self._refuse_room()
        else:
            self._abort()

    def _refuse_room(self) -> None:
        """Send a 503 and close. A request that is already here is read first: unread data would reset it."""
        if self._socket is not None:
            with suppress(OSError):
                os.read(self._socket.fileno(), self.deadlines.header_bytes_max)
        self.transport.write(_answer(_NO_ROOM))
        self.transport.close()

    def _cut(self) -> None:
        self._deadline = None
        transport: Any = self.transport
        if transport is not None and not transport.is_closing():
            transport.close()


class _ClosedAfterBody:
    """A connection as a response sees it: closed only after the rest of the request's body."""

    __slots__ = ("_close", "_cycle", "is_closing", "write")

    def __init__(self, cycle: RequestResponseCycle, close: Callable[[RequestResponseCycle], None]) -> None:
        self.write = cycle.transport.write
        self.is_closing = cycle.transport.is_closing
        self._close = close
        self._cycle = weakref.ref(cycle)  # which refers to this; without the cycle, it's freed at once

    def close(self) -> None:
        """Close the connection after the body."""
        if (cycle := self._cycle()) is not None:
            self._close(cycle)


def _refusal_of(error: httptools.HttpParserError) -> Problem:
    """Return the error for bytes that the parser rejects. Its messages are constant and repeat no input."""
    if isinstance(error, httptools.HttpParserInvalidMethodError):
        return _METHOD
    if isinstance(error, httptools.HttpParserCallbackError):
        match error.__context__:
            case _NoTunnel():
                return _NO_PROXY
            case _ForeignHost():
                return _OTHER_HOST
            case _:
                return _GARBLED
    return bad_request(f"This isn't a valid HTTP request: {error}", code="invalid_http")


def _unchunked(app: ASGIApp, cycle: RequestResponseCycle) -> Any:
    """The application for one HTTP/1.0 request: a response without a length ends with its connection."""

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
    """An application that refuses every request: too many connections."""
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
