"""The wire to a server that is called by its url: the SDK's streamable HTTP over a transport that bounds it.

The SDK ends the whole connection when one request fails below HTTP. So such a failure becomes an answer here,
with a code that says whether the server can have seen the request.

The wire to a server of the older HTTP transport: it speaks on one event stream, and hears by POST.
"""

import asyncio
import logging
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import httpx2
import msgspec
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from msgspec import Struct

from holdfast.config.mcp_servers import McpServerConfig
from holdfast.features.mcp_client.flow import (
    CUT_OFF,
    MESSAGE_BYTES_MAX,
    NOT_SENT,
    NOT_STREAMABLE,
    REFUSED,
    Allowance,
    Incoming,
    Outgoing,
    Scales,
    TooComplex,
)
from holdfast.features.mcp_client.oauth import SIGN_IN, PersonAuth, TokenAuth, wants_sign_in
from holdfast.features.mcp_client.open_call import CURRENT_CALL, CallTimer
from holdfast.features.mcp_client.sign_in_addresses import SignInAddressRefused

_log = logging.getLogger(__name__)

REQUESTS_PER_S = 20.0
REQUESTS_BURST = 100.0
_BETWEEN_EVENTS = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_BETWEEN_BYTES = 4
_CONNECT_S = 10.0
_NOTIFY_S = 10.0
_GOODBYE_S = 2.0
_LONGER_S = 30.0
_NOT_FOUND = 404
_FIRST_ERROR = 400
_NO_SUCH_PLACE = frozenset({404, 405})
_SIGN_IN_S = 20.0
_SIGN_IN_BYTES_MAX = 1024 * 1024

Redact: TypeAlias = Callable[[bytes], bytes]


class _Envelope(msgspec.Struct):
    """The part of a message that distinguishes a request from a notification."""

    id: int | str | None = None


class _ErrorText(msgspec.Struct):
    message: str


class _Failure(msgspec.Struct):
    """A message that is an error."""

    error: _ErrorText


class BodyBroken(httpx2.StreamError):
    """A body ended early, or is too large or too slow; the SDK turns it into an error."""


class SignInFailed(Exception):
    """A sign-in cannot go on; the text says why."""


class _Body(httpx2.AsyncByteStream):
    """A response's body, message by message, each within limits, until a deadline.

    A message is an event of a stream, or else the whole body.
    """

    def __init__(self, response: httpx2.Response, limits: "_Limits", *, redact: Redact) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream), "the client is asynchronous"
        self._stream = response.stream
        self._between = _BETWEEN_EVENTS if _kind_of(response) == "text/event-stream" else None
        self._limits = limits
        self._redact = redact
        self._scales = Scales()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held = bytearray()
        async for chunk in self._chunks():
            held += chunk
            end = 0
            if self._between is not None:
                # Only where the chunk, or what it completes, is: the rest has been searched.
                for found in self._between.finditer(held, max(0, len(held) - len(chunk) - _BETWEEN_BYTES)):
                    await self._weighed(held[end : found.end()])
                    end = found.end()
            if len(held) - end > self._limits.bytes_max:
                raise BodyBroken(f"the response is larger than {self._limits.bytes_max:,} bytes")
            if end:
                yield self._redact(bytes(held[:end]))
                del held[:end]
        await self._weighed(held)
        yield self._redact(bytes(held))

    async def _weighed(self, message: bytearray) -> None:
        try:
            await self._scales.weigh(bytes(message))
        except TooComplex as error:
            raise BodyBroken(str(error)) from error

    async def _chunks(self) -> AsyncIterator[bytes]:
        chunks = aiter(self._stream)
        while True:
            try:
                async with self._limits.timer.until(self._limits.deadline_s):
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise BodyBroken("the response took too long") from None
            except httpx2.TransportError as error:
                raise BodyBroken(f"the connection broke: {error}") from error
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Limits(Struct, frozen=True):
    """The limits of one exchange: its deadline on the call's clock, and its bytes."""

    timer: CallTimer
    deadline_s: float | None
    bytes_max: int = MESSAGE_BYTES_MAX

    @classmethod
    def lasting(cls, seconds: float | None, *, bytes_max: int = MESSAGE_BYTES_MAX) -> "_Limits":
        """Limits that begin now."""
        opened = CURRENT_CALL.get()
        timer = opened.timer if opened else CallTimer()
        return cls(timer, None if seconds is None else timer.now_s() + seconds, bytes_max)


class BoundedTransport(httpx2.AsyncBaseTransport):
    """One server's HTTP: requests at a bounded rate, bodies of bounded size, failures as answers.

    `lost` is called when listening shows that the server, or the session with it, is gone; whoever asks for
    something hears it as NOT_SENT.
    """

    def __init__(
        self,
        inner: httpx2.AsyncBaseTransport,
        config: McpServerConfig,
        *,
        lost: Callable[[str], None],
        auth: TokenAuth | PersonAuth | None = None,
    ) -> None:
        self._inner = inner
        self._config = config
        self._patience_s = max([config.patience_s, *config.tool_patience_s.values()])
        self.lost = lost
        self._auth = auth
        self._redact: Redact = auth.redacted if auth else bytes
        loop = asyncio.get_running_loop()
        self._allowance = Allowance(REQUESTS_PER_S, burst=REQUESTS_BURST, now_s=loop.time)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send it, and answer in the server's place if that fails."""
        # A server can make the SDK reconnect repeatedly, without a pause if it requests that.
        await asyncio.sleep(self._allowance.book())
        if self.is_of_sign_in(request):
            return await self._of_sign_in(request)
        limits = _Limits.lasting(self._wait_s(request))
        try:
            async with limits.timer.until(limits.deadline_s):
                response = await self._inner.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            place = f"{request.url.scheme}://{request.url.netloc.decode()}"
            advice = "check that the server is running, and its url in the configuration"
            missing = httpx2.ConnectError(f"no connection to {place} ({error}); {advice}")
            return self._failed(request, missing, code=NOT_SENT)
        except (httpx2.TransportError, TimeoutError) as error:
            return self._failed(request, error, code=CUT_OFF)
        return self._checked(request, response, limits=limits)

    async def _of_sign_in(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request of a sign-in, which may go to another server than ours; raises SignInFailed."""
        assert self._auth is not None, "nobody else signs in"
        place = f"{request.url.scheme}://{request.url.netloc.decode()}"
        try:
            await self._auth.addresses.insist_on(str(request.url))
            limits = _Limits.lasting(_SIGN_IN_S, bytes_max=_SIGN_IN_BYTES_MAX)
            async with limits.timer.until(limits.deadline_s):
                response = await self._inner.handle_async_request(request)
        except SignInAddressRefused as error:
            return self._not_signed_in(request, str(error))
        except (httpx2.TransportError, TimeoutError) as error:
            return self._not_signed_in(
                request, (f"no response from {place}: {str(error) or 'it took too long'}")
            )
        body = _Body(response, limits, redact=bytes)
        response.stream = body
        if _is_packed(response):
            await body.aclose()
            return self._not_signed_in(request, f"the response from {place} is compressed")
        return response

    def _not_signed_in(self, request: httpx2.Request, why: str) -> httpx2.Response:
        if isinstance(self._auth, PersonAuth):
            raise SignInFailed(why)
        # The SDK would end the connection, but the tokens can be renewed later.
        _log.warning("MCP server %s: couldn't renew the sign-in: %s", self._config.name, why)
        return httpx2.Response(502, request=request)

    @staticmethod
    def is_of_sign_in(request: httpx2.Request) -> bool:
        """Whether it is no message to the server, but part of a sign-in."""
        return SIGN_IN in request.extensions

    @staticmethod
    async def said(response: httpx2.Response) -> str:
        """Describe an error."""
        try:
            return msgspec.json.decode(await response.aread(), type=_Failure).error.message
        except (msgspec.DecodeError, httpx2.StreamError):
            return f"it returned HTTP status {response.status_code}"

    async def aclose(self) -> None:
        """Close what is open."""
        await self._inner.aclose()

    def _wait_s(self, request: httpx2.Request) -> float | None:
        match request.method:
            case "GET":
                return None  # the server says nothing there until it has something to say
            case "DELETE":
                return _GOODBYE_S
            case _:
                # A notification holds up the requests behind it.
                return _NOTIFY_S if _is_notification(request) else self._patience_s + _LONGER_S

    def _failed(self, request: httpx2.Request, error: Exception, *, code: int) -> httpx2.Response:
        text = str(error) or ("it didn't respond in time" if isinstance(error, TimeoutError) else repr(error))
        if request.method != "POST":
            if code == NOT_SENT:
                self.lost(text)
            raise error
        return _answer(request, 502, code=code, text=text)

    def _checked(
        self, request: httpx2.Request, response: httpx2.Response, *, limits: _Limits
    ) -> httpx2.Response:
        body, status = _Body(response, limits, redact=self._redact), response.status_code
        if status == _NOT_FOUND and "mcp-session-id" in request.headers:
            text = "it no longer knows this session"
            if request.method == "GET":
                self.lost(text)
            return _answer(request, 404, code=NOT_SENT, text=text, closing=body)
        # Compressed, a small body could become a large one after it was measured; it was not asked for.
        if _is_packed(response) and request.method == "POST":
            return _answer(request, 502, code=REFUSED, text="its response is compressed", closing=body)
        if text := self._wants_sign_in(response):
            return _answer(request, status, code=REFUSED, text=text, closing=body, challenge=response)
        if status in _NO_SUCH_PLACE or (status >= _FIRST_ERROR and _kind_of(response) != "application/json"):
            text = f"it returned HTTP status {status}"
            code = NOT_STREAMABLE if status in {*_NO_SUCH_PLACE, 400} else REFUSED
            return _answer(request, status, code=code, text=text, closing=body)
        response.stream = body
        return response

    def _wants_sign_in(self, response: httpx2.Response) -> str:
        if self._auth is not None:
            return wants_sign_in(self._config.name, response)
        if response.status_code in {401, 403} and _kind_of(response) != "application/json":
            return f"it returned HTTP status {response.status_code}; check its headers in the configuration"
        return ""


class _Said(httpx2.AsyncByteStream):
    """A replacement body that closes the original."""

    def __init__(self, data: bytes, instead_of: _Body | None) -> None:
        self._data = data
        self._instead_of = instead_of

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._data

    async def aclose(self) -> None:
        if self._instead_of is not None:
            await self._instead_of.aclose()


def _answer(
    request: httpx2.Request,
    status: int,
    *,
    code: int,
    text: str,
    closing: _Body | None = None,
    challenge: httpx2.Response | None = None,
) -> httpx2.Response:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": text[:500]}}
    headers = {"content-type": "application/json"}
    if challenge is not None and "www-authenticate" in challenge.headers:
        headers["www-authenticate"] = challenge.headers["www-authenticate"]
    return httpx2.Response(
        status, headers=headers, stream=_Said(msgspec.json.encode(body), closing), request=request
    )


def _kind_of(response: httpx2.Response) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def _is_packed(response: httpx2.Response) -> bool:
    return response.headers.get("content-encoding", "identity").lower() != "identity"


def _is_notification(request: httpx2.Request) -> bool:
    try:
        return msgspec.json.decode(request.content, type=_Envelope).id is None
    except (msgspec.DecodeError, httpx2.RequestNotRead):
        return False


def sockets(url: str) -> httpx2.AsyncHTTPTransport:
    """The limited transport; imports and reads certificates, so call it off the loop."""
    # The certificates aren't needed without TLS, and reading them takes a while.
    tls = url.startswith("https:")
    context = httpx2.create_ssl_context(trust_env=False) if tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    limits = httpx2.Limits(max_connections=64, max_keepalive_connections=8)
    return httpx2.AsyncHTTPTransport(verify=context, trust_env=False, limits=limits)


def client_on(
    transport: BoundedTransport, config: McpServerConfig, *, auth: TokenAuth | PersonAuth | None
) -> httpx2.AsyncClient:
    """A client for this server alone."""
    return httpx2.AsyncClient(
        transport=transport,
        headers={**config.headers, "accept-encoding": "identity"},
        auth=auth,
        # The transport limits the duration of a request; this only limits the time until it starts.
        timeout=httpx2.Timeout(None, connect=_CONNECT_S, pool=_CONNECT_S),
        trust_env=False,
    )


@asynccontextmanager
async def http_wire(
    config: McpServerConfig, *, lost: Callable[[str], None], auth: TokenAuth | PersonAuth | None = None
) -> AsyncGenerator[tuple[Incoming, Outgoing]]:
    """Talk to the server at its url; redirects are followed within its origin alone, by the SDK's rule."""
    inner = await asyncio.to_thread(sockets, config.url)
    transport = BoundedTransport(inner, config, lost=lost, auth=auth)
    async with (
        client_on(transport, config, auth=auth) as client,
        streamable_http_client(config.url, http_client=client, max_sse_event_size=MESSAGE_BYTES_MAX) as (
            incoming,
            outgoing,
        ),
    ):
        yield incoming, outgoing


class _LegacyTransport(BoundedTransport):
    """The bounded transport; the SDK drops a message that could not be sent, so that ends the connection."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send it, and give the connection up if that fails."""
        response = await super().handle_async_request(request)
        if response.is_error and not self.is_of_sign_in(request):
            self.lost(await self.said(response))
        return response


@asynccontextmanager
async def sse_wire(
    config: McpServerConfig, *, lost: Callable[[str], None], auth: TokenAuth | PersonAuth | None = None
) -> AsyncGenerator[tuple[Incoming, Outgoing]]:
    """Talk to the server whose event stream is at its url; its other addresses must be of the same origin."""
    inner = await asyncio.to_thread(sockets, config.url)
    transport = _LegacyTransport(inner, config, lost=lost, auth=auth)

    def client(*_: Any, **__: Any) -> httpx2.AsyncClient:
        return client_on(transport, config, auth=auth)

    async with sse_client(config.url, httpx_client_factory=client) as (incoming, outgoing):
        yield incoming, outgoing
