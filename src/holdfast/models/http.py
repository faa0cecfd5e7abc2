"""HTTP to model servers; only this module, `upload`, `body` and `connection_errors` know the client.

The client's own limits (total timeouts, connection limits, thread-pool DNS) are switched off, because the
watchdog limits every wait.
"""

import ssl
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from msgspec import Struct
from typing_extensions import override

from holdfast.decisions.proxies import Proxy, proxy_at
from holdfast.models.body import Body, UploadPayload
from holdfast.models.connection_errors import connection_broken
from holdfast.models.watchdog import Watchdog
from holdfast.models.wire import WireRequest

KEPT_ALIVE_S = 30.0
KEPT_ALIVE_MAX = 64
HEADER_BYTES_MAX = 64 * 1024  # gateways send policies and cookies that exceed the client's default
AGENT = "holdfast"
STALE_S = 2.0  # a kept connection that the peer has closed fails within a round trip


class ModelResponse(msgspec.Struct, frozen=True):
    """A response whose headers have arrived."""

    status: int
    headers: Mapping[str, str]
    body: Body


class ModelHttp:
    """The connections to all model servers; an async context manager.

    `tls` replaces the certificates that this computer trusts.
    """

    def __init__(
        self,
        resolver: AbstractResolver | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        stale_s: float = STALE_S,
    ) -> None:
        self._stack = AsyncExitStack()
        self._stale_s = stale_s
        self._resolver = resolver
        self._tls = tls
        self._kept_alive: aiohttp.ClientSession | None = None
        self._fresh: aiohttp.ClientSession | None = None
        self._under_way = 0

    async def __aenter__(self) -> Self:
        return self.opened()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def opened(self) -> Self:
        """Open it without a context. Then `close` has to be called."""
        resolver = self._resolver or aiohttp.AsyncResolver()
        self._stack.push_async_callback(resolver.close)
        trusted = self._tls or True
        self._kept_alive = _session(_connector(resolver, ssl=trusted, keepalive_timeout=KEPT_ALIVE_S))
        self._stack.push_async_callback(self._kept_alive.close)
        self._fresh = _session(_connector(resolver, ssl=trusted, force_close=True))
        self._stack.push_async_callback(self._fresh.close)
        return self

    def trace(self, config: aiohttp.TraceConfig) -> None:
        """Let the client call these for each request from now on, and change its headers."""
        for session in (self._kept_alive, self._fresh):
            assert session is not None, "it's opened first"
            session.trace_configs.append(config)

    async def close(self) -> None:
        """End all connections."""
        await self._stack.aclose()

    @asynccontextmanager
    async def post(self, request: WireRequest, watchdog: Watchdog) -> AsyncGenerator[ModelResponse]:
        """Send the request and yield the response; raises ConnectionBroken, also while the block reads it.

        When the block ends, the connection is either intact and kept alive, or closed at once.
        """
        self._under_way += 1
        state = _RequestState(watchdog, proxy_at(request.proxy), stale_s=self._stale_s)
        try:
            upload, response = await self._sent(request, state)
            try:
                yield _reply(response)
            finally:
                upload.end()
                # A response that was read to its end has returned its connection, and another may use it.
                if response.connection is not None or not upload.written:
                    upload.abort()
                    response.close()
        except (aiohttp.ClientError, OSError) as error:
            raise connection_broken(error, state.proxy, connected=state.connected) from error
        finally:
            self._under_way -= 1

    async def _sent(
        self, request: WireRequest, state: "_RequestState"
    ) -> tuple[UploadPayload, aiohttp.ClientResponse]:
        assert self._kept_alive is not None, "ModelHttp is an async context manager"
        assert self._fresh is not None
        if self._under_way <= KEPT_ALIVE_MAX:
            try:
                return await _posted(self._kept_alive, request, state=state)
            except (aiohttp.ServerDisconnectedError, OSError):
                if not state.was_stale():
                    raise
            # The peer had closed this kept connection, so it hasn't seen the request.
            state.watchdog.restart()
        return await _posted(self._fresh, request, state=state)


class _RequestState(Struct):
    """The state of one request's connection."""

    watchdog: Watchdog
    proxy: Proxy | None = None
    stale_s: float = STALE_S
    upload: UploadPayload | None = None  # of the latest try

    @property
    def connected(self) -> bool:
        """Whether the connection was established, through TLS and any proxy."""
        return self.upload is not None and self.upload.connected_s is not None

    def was_stale(self) -> bool:
        """Whether a failure now means that the reused connection was already dead."""
        upload = self.upload
        if upload is None or upload.connected_s is None or not upload.is_reusing:
            return False
        return time.monotonic() - upload.connected_s < self.stale_s


async def _posted(
    session: aiohttp.ClientSession, request: WireRequest, *, state: _RequestState
) -> tuple[UploadPayload, aiohttp.ClientResponse]:
    state.upload = upload = UploadPayload(request.body, state.watchdog)
    headers = {"accept-encoding": "identity", "user-agent": AGENT} | request.headers
    try:
        response = await session.post(
            request.url,
            data=upload,
            allow_redirects=False,
            **_proxy_options(request.url, state.proxy, headers=headers),
        )
    except BaseException:
        upload.end()
        upload.abort()
        raise
    return upload, response


def _proxy_options(url: str, proxy: Proxy | None, *, headers: dict[str, str]) -> dict[str, Any]:
    """The headers, and the proxy's own: in the request that it reads, or in the CONNECT before it."""
    if proxy is None:
        return {"headers": headers}
    login = {"proxy-authorization": proxy.authorization} if proxy.authorization else {}
    if not url.startswith("https:"):
        return {"headers": headers | login, "proxy": proxy.url}
    # By default, the client tells the proxy to close a connection that isn't kept, even before using it.
    told = {"user-agent": AGENT, "connection": "keep-alive"} | login
    return {"headers": headers, "proxy": proxy.url, "proxy_headers": told}


class _Responses(ResponseHandler):
    """Reads the responses of one connection, and each packet as one piece, however many chunks it has.

    The client would hand over chunk by chunk, and resume after each, paused or not.
    """

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        payload = self._payload
        if payload is not None and payload.total_bytes:
            chunks = payload._buffer  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            if len(chunks) > 1:
                whole = b"".join(chunks)
                chunks.clear()
                chunks.append(whole)

    @override
    def resume_reading(self, resume_parser: bool = True) -> None:
        if self._reading_paused:
            super().resume_reading(resume_parser)


class _Connector(aiohttp.TCPConnector):
    """Tells each upload when it has a connection; the client's traces would call back for much more."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)  # pyright: ignore[reportUnknownMemberType]
        self._factory = partial(_Responses, loop=self._loop)

    @override
    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        if isinstance(req.body, UploadPayload):
            req.body.connect()
        return connection

    @override
    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        if isinstance(req.body, UploadPayload):
            req.body.is_reusing = False
        return await super()._create_connection(req, traces, timeout)


def _connector(resolver: AbstractResolver, **options: Any) -> aiohttp.TCPConnector:
    # The client's DNS cache uses tasks that outlive a cancelled call; the resolver has its own cache.
    return _Connector(limit=0, resolver=resolver, use_dns_cache=False, **options)


def _session(connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("user-agent",),
        max_line_size=HEADER_BYTES_MAX,
        max_field_size=HEADER_BYTES_MAX,
    )


def _reply(response: aiohttp.ClientResponse) -> ModelResponse:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return ModelResponse(response.status, headers, Body(response))
