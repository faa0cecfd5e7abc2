"""One HTTP connection: uvicorn's, with deadlines for slow senders and the envelope for what is no HTTP."""

import asyncio
import socket
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from holdfast.server.edge import SECURITY_HEADERS
from holdfast.server.options import Limits
from holdfast.server.problems import Problem, bad_request

_GARBLED = bad_request("That is not an HTTP request", code="invalid_http")
_TOO_LONG = Problem(431, "The headers are more than is taken", code="headers_too_large")


def connection_with(limits: Limits) -> type[asyncio.Protocol]:
    """The protocol class for uvicorn's `http` setting."""

    class Connection(DeadlinedConnection):
        deadlines = limits

    return Connection


class _TooLong(Exception):
    """More headers than are taken; the parser hands it on as an error of its own."""


class DeadlinedConnection(HttpToolsProtocol):
    """Cuts a connection whose headers, or whose unread body, take too long, and one with too many headers.

    A body that a route reads has a deadline there, and an answer that says so; this one is for the rest of a
    body that nobody reads any more.
    """

    deadlines = Limits()
    _deadline: asyncio.TimerHandle | None = None
    _last: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _is_in_head = True
    _is_too_long = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Headers must follow."""
        # Head and body are two writes: the second would wait for the reader's delayed acknowledgement.
        known: socket.socket | None = transport.get_extra_info("socket")
        if known is not None and known.family in {socket.AF_INET, socket.AF_INET6}:
            known.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connection_made(transport)
        self._cut_after(self.deadlines.headers_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is expected any more."""
        self._rest()
        if self._last is not None:
            self._last.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A head that never ends is not gathered."""
        if self._is_in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._is_in_head and self._head_bytes > self.deadlines.header_bytes_max:
            self._is_too_long = True
            self.send_400_response("")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One more header."""
        is_too_long = len(name) + len(value) > self.deadlines.header_bytes_max
        if is_too_long or len(self.headers) >= self.deadlines.headers_max:
            self._is_too_long = True
            raise _TooLong
        super().on_header(name, value)

    def on_message_begin(self) -> None:
        """The next request on the same connection has a deadline of its own."""
        self._is_in_head, self._head_bytes = True, 0
        self._rest()
        self._cut_after(self.deadlines.headers_s)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The body must follow."""
        self._is_in_head = False
        self._rest()
        self._cut_after(self.deadlines.body_s + 1.0)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """All is there."""
        self._rest()
        super().on_message_complete()

    def shutdown(self) -> None:
        """The server goes: what is under way may end, but a client that does not read is not waited for."""
        super().shutdown()
        self._last = self.loop.call_later(self.deadlines.going_s, self._abort)

    def send_400_response(self, msg: str) -> None:
        """What cannot be parsed gets the same envelope as everything else."""
        del msg
        self._rest()
        if not self.transport.is_closing():
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

    def _cut(self) -> None:
        self._deadline = None
        transport: Any = self.transport
        if transport is not None and not transport.is_closing():
            transport.close()


def _answer(problem: Problem) -> bytes:
    body = problem.encoded()
    headers = [
        (b"content-type", b"application/json"),
        (b"connection", b"close"),
        (b"content-length", b"%d" % len(body)),
        *SECURITY_HEADERS,
    ]
    return b"HTTP/1.1 %d %b\r\n%b\r\n%b" % (
        problem.status,
        HTTPStatus(problem.status).phrase.encode(),
        b"".join(b"%b: %b\r\n" % header for header in headers),
        body,
    )
