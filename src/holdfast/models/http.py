"""HTTP to model servers: with `upload` and `body`, the only module that knows which client is used.

The client's own ideas about time and number (total timeouts, connection limits, thread-pool DNS) are all
switched off: waiting is the watchdog's affair.
"""

import errno
import ssl
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.http_exceptions import ContentEncodingError

from holdfast.deadlines import Sign
from holdfast.failure_rules import Break
from holdfast.models.body import Body
from holdfast.models.upload import Upload
from holdfast.models.watchdog import Watchdog
from holdfast.models.wire import WireRequest

KEPT_ALIVE_S = 30.0
KEPT_ALIVE_MAX = 64
HEADER_BYTES_MAX = 64 * 1024  # gateways send policies and cookies that are longer than the client likes
STALE_S = 2.0  # a connection that was closed meanwhile says so within a round trip


class Broken(Exception):
    """The connection did not hold; `said` is what the system has to say of it."""

    def __init__(self, how: Break, said: str = "") -> None:
        super().__init__(how, said)
        self.how: Break = how
        self.said = said


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer whose head has come."""

    status: int
    headers: Mapping[str, str]
    body: Body


class ModelHttp:
    """The connections to all model servers; an async context manager."""

    def __init__(self, resolver: AbstractResolver | None = None) -> None:
        self._stack = AsyncExitStack()
        self._resolver = resolver
        self._keeping: aiohttp.ClientSession | None = None
        self._fresh: aiohttp.ClientSession | None = None
        self._under_way = 0

    async def __aenter__(self) -> Self:
        resolver = self._resolver or aiohttp.AsyncResolver()
        self._stack.push_async_callback(resolver.close)
        keeping = _connector(resolver, keepalive_timeout=KEPT_ALIVE_S)
        self._keeping = await self._stack.enter_async_context(_session(keeping))
        self._fresh = await self._stack.enter_async_context(_session(_connector(resolver, force_close=True)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @asynccontextmanager
    async def post(self, request: WireRequest, watchdog: Watchdog) -> AsyncGenerator[Reply]:
        """Send the request and yield the reply; raises Broken, also out of the block that reads it.

        However the block is left, the connection is either whole and kept, or closed at once.
        """
        self._under_way += 1
        try:
            upload, response = await self._sent(request, watchdog)
            try:
                yield _reply(response)
            finally:
                upload.end()
                # At its end a response gives its connection back by itself, and someone else may have it.
                if response.connection is not None or not upload.written:
                    upload.abort()
                    response.close()
        except (aiohttp.ClientError, OSError) as error:
            raise Broken(_how(error), _said(error)) from error
        finally:
            self._under_way -= 1

    async def _sent(self, request: WireRequest, watchdog: Watchdog) -> tuple[Upload, aiohttp.ClientResponse]:
        assert self._keeping is not None, "ModelHttp is an async context manager"
        assert self._fresh is not None
        trip = _Trip(watchdog)
        if self._under_way <= KEPT_ALIVE_MAX:
            try:
                return await _posted(self._keeping, request, trip=trip)
            except (aiohttp.ServerDisconnectedError, OSError):
                if not trip.was_stale():
                    raise
            # A kept connection that the peer had closed meanwhile: nobody has seen the request.
            watchdog.begin_again()
        return await _posted(self._fresh, request, trip=trip)


@dataclass(slots=True)
class _Trip:
    """What the trace hooks tell of one request."""

    watchdog: Watchdog
    reused_s: float | None = None

    def was_stale(self) -> bool:
        """Whether a break now means that the connection was dead when it was taken."""
        return self.reused_s is not None and time.monotonic() - self.reused_s < STALE_S


async def _posted(
    session: aiohttp.ClientSession, request: WireRequest, *, trip: _Trip
) -> tuple[Upload, aiohttp.ClientResponse]:
    upload = Upload(request.body, trip.watchdog)
    try:
        response = await session.post(
            request.url,
            data=upload,
            headers={"accept-encoding": "identity", "user-agent": "holdfast"} | request.headers,
            allow_redirects=False,
            trace_request_ctx=trip,
        )
    except BaseException:
        upload.end()
        upload.abort()
        raise
    return upload, response


def _connector(resolver: AbstractResolver, **options: Any) -> aiohttp.TCPConnector:
    # The client's cache resolves in tasks that outlive a cancelled call; the resolver has a cache of its own.
    return aiohttp.TCPConnector(limit=0, resolver=resolver, use_dns_cache=False, **options)


def _session(connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        trace_configs=[_trace()],
        skip_auto_headers=("user-agent",),
        max_line_size=HEADER_BYTES_MAX,
        max_field_size=HEADER_BYTES_MAX,
    )


def _trace() -> aiohttp.TraceConfig:
    async def connected(_: aiohttp.ClientSession, context: Any, __: object) -> None:
        context.trace_request_ctx.watchdog.sign(Sign.CONNECTED)

    async def reused(_: aiohttp.ClientSession, context: Any, __: object) -> None:
        context.trace_request_ctx.reused_s = time.monotonic()
        context.trace_request_ctx.watchdog.sign(Sign.CONNECTED)

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(connected)
    trace.on_connection_reuseconn.append(reused)
    return trace


def _reply(response: aiohttp.ClientResponse) -> Reply:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(response.status, headers, Body(response))


def _how(error: aiohttp.ClientError | OSError) -> Break:
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "dns"
        case aiohttp.ClientConnectorCertificateError():
            return "tls_untrusted"
        case aiohttp.ClientSSLError():
            return "tls_other"
        case aiohttp.ClientConnectorError():
            return "refused" if error.os_error.errno == errno.ECONNREFUSED else "unreachable"
        case aiohttp.ClientPayloadError(__cause__=ContentEncodingError()):
            return "protocol"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError():
            return "reset" if isinstance(error.__cause__, ConnectionError) else "eof"
        case OSError():
            return "reset"
        case _:
            return "protocol"


def _said(error: aiohttp.ClientError | OSError) -> str:
    """Why, where it is not plain from how: what is wrong with a certificate, a handshake, a route, a head."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return ""
        case aiohttp.ClientConnectorCertificateError(certificate_error=ssl.SSLCertVerificationError() as why):
            return why.verify_message
        case aiohttp.ClientConnectorError(os_error=ssl.SSLError() as why):
            return (why.reason or "").replace("_", " ").lower()
        case aiohttp.ClientConnectorError(os_error=why):
            return "" if why.errno == errno.ECONNREFUSED else why.strerror or ""
        case aiohttp.ClientResponseError():
            return error.message.partition(". Please install")[0]
        case aiohttp.ClientPayloadError(__cause__=ContentEncodingError() as why):
            return why.message
        case _:
            return ""
