"""HTTP to model servers: the only module that knows which client is used.

The client's own ideas about time and number (total timeouts, connection limits, thread-pool DNS) are all
switched off: waiting is the watchdog's affair.
"""

import asyncio
import socket
import struct
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, cast

import aiohttp
from aiohttp.abc import AbstractStreamWriter

from holdfast.deadlines import Sign
from holdfast.failure_rules import Break
from holdfast.models.watchdog import Watchdog
from holdfast.models.wire import WireRequest

KEPT_ALIVE_S = 30.0
STALE_RETRIES_MAX = 8
PIECE_BYTES = 64 * 1024
LOOK_FIRST_S = 0.002
LOOK_LAST_S = 1.0
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 seconds: close with a reset, throw away what is unsent


class Broken(Exception):
    """The connection did not hold."""

    def __init__(self, how: Break) -> None:
        super().__init__(how)
        self.how: Break = how


class Upload(aiohttp.payload.Payload):
    """A body that knows its connection and how much of it the peer has taken."""

    _value: bytes

    def __init__(self, body: bytes, watchdog: Watchdog) -> None:
        super().__init__(body, content_type="application/json")
        self._size = len(body)
        self._watchdog = watchdog
        self._looking: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport | None = None

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """See aiohttp."""
        return self._value.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send in pieces; the watchdog hears of each that found room."""
        self.transport = cast("asyncio.Transport | None", getattr(writer, "transport", None))
        body = self._value
        for start in range(0, len(body), PIECE_BYTES):
            await writer.write(body[start : start + PIECE_BYTES])
            self._watchdog.sign(Sign.ACCEPTED)
        self._look(left=len(body) + 1, pause_s=LOOK_FIRST_S)

    def _look(self, *, left: int, pause_s: float) -> None:
        """The kernel swallows megabytes, so a request is sent when the kernel has got rid of them."""
        still = unsent_bytes(self.transport)
        if not still:
            self._watchdog.sign(Sign.SENT)
            return
        if still < left:
            self._watchdog.sign(Sign.ACCEPTED)
        later_s = min(pause_s * 2, LOOK_LAST_S)
        loop = asyncio.get_running_loop()
        self._looking = loop.call_later(pause_s, lambda: self._look(left=min(left, still), pause_s=later_s))

    def end(self) -> None:
        """No longer look."""
        if self._looking is not None:
            self._looking.cancel()

    def abort(self) -> None:
        """Close the connection now, whatever is still unsent."""
        if self.transport is not None and not self.transport.is_closing():
            if unsent_bytes(self.transport):
                bare = self.transport.get_extra_info("socket")
                if bare is not None:
                    bare.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.transport.abort()


if sys.platform == "linux":
    import fcntl
    import termios

    def _in_kernel(bare: socket.socket) -> int:
        answer = fcntl.ioctl(bare.fileno(), termios.TIOCOUTQ, b"\0\0\0\0")
        return int.from_bytes(answer, sys.byteorder)
else:

    def _in_kernel(bare: socket.socket) -> int:  # noqa: ARG001  # only Linux tells
        return 0


def unsent_bytes(transport: asyncio.Transport | None) -> int:
    """What was written and the peer has not acknowledged, as far as the system tells."""
    if transport is None or transport.is_closing():
        return 0
    bare = transport.get_extra_info("socket")
    return transport.get_write_buffer_size() + (_in_kernel(bare) if bare is not None else 0)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer whose head has come."""

    status: int
    headers: Mapping[str, str]
    pieces: AsyncIterator[bytes]
    drain: Callable[[], bool]


class ModelHttp:
    """The connections to all model servers; an async context manager."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(
            limit=0, keepalive_timeout=KEPT_ALIVE_S, resolver=aiohttp.AsyncResolver(), ttl_dns_cache=30
        )
        session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            trace_configs=[_trace()],
            skip_auto_headers=("user-agent",),
        )
        self._session = await self._stack.enter_async_context(session)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @asynccontextmanager
    async def post(self, request: WireRequest, watchdog: Watchdog) -> AsyncGenerator[Reply]:
        """Send the request and yield the reply; raises Broken, also out of the reply's pieces.

        However the block is left, the connection is either whole and kept, or closed at once.
        """
        upload, response = await self._sent(request, watchdog)
        kept = False
        try:
            reply = _reply(response)
            yield reply
            kept = reply.drain()
        finally:
            upload.end()
            if kept:
                response.release()
            else:
                upload.abort()
                response.close()

    async def _sent(self, request: WireRequest, watchdog: Watchdog) -> tuple[Upload, aiohttp.ClientResponse]:
        assert self._session is not None, "ModelHttp is an async context manager"
        headers = {"accept-encoding": "identity", "user-agent": "holdfast"} | request.headers
        for _ in range(STALE_RETRIES_MAX):
            upload = Upload(request.body, watchdog)
            trip = _Trip(watchdog)
            try:
                response = await self._session.post(
                    request.url, data=upload, headers=headers, allow_redirects=False, trace_request_ctx=trip
                )
            except BaseException as error:
                upload.end()
                upload.abort()
                if trip.reused and isinstance(error, aiohttp.ServerDisconnectedError | ConnectionResetError):
                    # A kept connection that the peer had closed meanwhile: nobody has seen the request.
                    continue
                how = _how(error)
                if how is not None:
                    raise Broken(how) from error
                raise
            else:
                return upload, response
        raise Broken("eof")


@dataclass(slots=True)
class _Trip:
    """What the trace hooks tell of one request."""

    watchdog: Watchdog
    reused: bool = False


def _trace() -> aiohttp.TraceConfig:
    async def connected(_: aiohttp.ClientSession, context: Any, __: object) -> None:
        context.trace_request_ctx.watchdog.sign(Sign.CONNECTED)

    async def reused(_: aiohttp.ClientSession, context: Any, __: object) -> None:
        context.trace_request_ctx.reused = True
        context.trace_request_ctx.watchdog.sign(Sign.CONNECTED)

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(connected)
    trace.on_connection_reuseconn.append(reused)
    return trace


def _reply(response: aiohttp.ClientResponse) -> Reply:
    async def pieces() -> AsyncIterator[bytes]:
        content = response.content
        try:
            while piece := await content.readany():
                yield piece
        except (aiohttp.ClientError, ConnectionError) as error:
            raise Broken(_how(error) or "eof") from error

    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(response.status, headers, pieces(), response.content.at_eof)


def _how(error: BaseException) -> Break | None:
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "dns"
        case aiohttp.ClientConnectorCertificateError():
            return "tls_untrusted"
        case aiohttp.ClientSSLError():
            return "tls_other"
        case aiohttp.ClientConnectorError():
            return "refused"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError():
            return "reset" if isinstance(error.__cause__, ConnectionError) else "eof"
        case aiohttp.ClientOSError() | ConnectionError():
            return "reset"
        case aiohttp.ClientError():
            return "protocol"
        case _:
            return None
