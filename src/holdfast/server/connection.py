"""One HTTP connection: uvicorn's, with deadlines for slow senders and the envelope for what is no HTTP."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from holdfast.server.options import Limits
from holdfast.server.problems import bad_request

_GARBLED = bad_request("That is not an HTTP request", code="invalid_http").encoded()
_GARBLED_ANSWER = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nx-content-type-options: nosniff\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(_GARBLED), _GARBLED)
)


def connection_with(limits: Limits) -> type[asyncio.Protocol]:
    """The protocol class for uvicorn's `http` setting."""

    class Connection(DeadlinedConnection):
        deadlines = limits

    return Connection


class DeadlinedConnection(HttpToolsProtocol):
    """Cuts a connection whose headers, or whose unread body, take too long.

    A body that a route reads has a deadline there, and an answer that says so; this one is for the rest of a
    body that nobody reads any more.
    """

    deadlines = Limits()
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Headers must follow."""
        super().connection_made(transport)
        self._cut_after(self.deadlines.headers_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is expected any more."""
        self._rest()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """The next request on the same connection has a deadline of its own."""
        self._rest()
        self._cut_after(self.deadlines.headers_s)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The body must follow."""
        self._rest()
        self._cut_after(self.deadlines.body_s + 1.0)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """All is there."""
        self._rest()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """What cannot be parsed gets the same envelope as everything else."""
        del msg
        self._rest()
        self.transport.write(_GARBLED_ANSWER)
        self.transport.close()

    def _cut_after(self, seconds: float) -> None:
        self._deadline = self.loop.call_later(seconds, self._cut)

    def _rest(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _cut(self) -> None:
        self._deadline = None
        transport: Any = self.transport
        if transport is not None and not transport.is_closing():
            transport.close()
