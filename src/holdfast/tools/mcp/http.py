"""The wire to a server that is called by its url: the SDK's streamable HTTP over a transport that bounds it.

The SDK ends the whole connection when one request fails below HTTP. So such a failure becomes an answer here,
with a code that says whether the server can have seen the request.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx2
import msgspec
from mcp.client.streamable_http import streamable_http_client

from holdfast.tools.mcp.config import McpServerConfig
from holdfast.tools.mcp.flow import (
    CUT_OFF,
    MESSAGE_BYTES_MAX,
    NOT_SENT,
    REFUSED,
    Allowance,
    Incoming,
    Outgoing,
    Scales,
    TooComplex,
)

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


class _Envelope(msgspec.Struct):
    """The part of a message that distinguishes a request from a notification."""

    id: int | str | None = None


class BodyBroken(httpx2.StreamError):
    """A body ended early, or is too large or too slow; the SDK turns it into an error."""


class _Body(httpx2.AsyncByteStream):
    """A response's body, message by message, each within limits, until a deadline.

    A message is an event of a stream, or else the whole body.
    """

    def __init__(
        self, response: httpx2.Response, *, between: re.Pattern[bytes] | None, deadline_s: float | None
    ) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream), "the client is asynchronous"
        self._stream = response.stream
        self._between = between
        self._deadline_s = deadline_s
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
            if len(held) - end > MESSAGE_BYTES_MAX:
                raise BodyBroken(f"the answer is larger than {MESSAGE_BYTES_MAX:,} bytes")
            if end:
                yield bytes(held[:end])
                del held[:end]
        await self._weighed(held)
        yield bytes(held)

    async def _weighed(self, message: bytearray) -> None:
        try:
            await self._scales.weigh(bytes(message))
        except TooComplex as error:
            raise BodyBroken(str(error)) from error

    async def _chunks(self) -> AsyncIterator[bytes]:
        chunks = aiter(self._stream)
        while True:
            try:
                async with asyncio.timeout_at(self._deadline_s):
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise BodyBroken("the answer took too long") from None
            except httpx2.TransportError as error:
                raise BodyBroken(f"the connection broke: {error}") from error
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class BoundedTransport(httpx2.AsyncBaseTransport):
    """One server's HTTP: requests at a bounded rate, bodies of bounded size, failures as answers.

    `lost` is called when listening shows that the server, or the session with it, is gone; whoever asks for
    something hears it as NOT_SENT.
    """

    def __init__(
        self, inner: httpx2.AsyncBaseTransport, *, patience_s: float, lost: Callable[[str], None]
    ) -> None:
        self._inner = inner
        self._patience_s = patience_s
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._allowance = Allowance(REQUESTS_PER_S, burst=REQUESTS_BURST, now_s=self._loop.time)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send it, and answer in the server's place if that fails."""
        # A server can make the SDK connect again and again, without a pause if it says so.
        await asyncio.sleep(self._allowance.book())
        wait_s = self._wait_s(request)
        deadline_s = None if wait_s is None else self._loop.time() + wait_s
        try:
            async with asyncio.timeout_at(deadline_s):
                response = await self._inner.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            place = f"{request.url.scheme}://{request.url.netloc.decode()}"
            advice = "check that the server is running, and its url in the configuration"
            missing = httpx2.ConnectError(f"no connection to {place} ({error}); {advice}")
            return self._failed(request, missing, code=NOT_SENT)
        except (httpx2.TransportError, TimeoutError) as error:
            return self._failed(request, error, code=CUT_OFF)
        return self._checked(request, response, deadline_s=deadline_s)

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
        text = str(error) or ("it did not answer in time" if isinstance(error, TimeoutError) else repr(error))
        if request.method != "POST":
            if code == NOT_SENT:
                self._lost(text)
            raise error
        return _answer(request, 502, code=code, text=text)

    def _checked(
        self, request: httpx2.Request, response: httpx2.Response, *, deadline_s: float | None
    ) -> httpx2.Response:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        between = _BETWEEN_EVENTS if kind == "text/event-stream" else None
        # Compressed, a small body could become a large one after it was measured; it was not asked for.
        packed = response.headers.get("content-encoding", "identity").lower() != "identity"
        body = _Body(response, between=between, deadline_s=deadline_s)
        if response.status_code == _NOT_FOUND and "mcp-session-id" in request.headers:
            text = "it has forgotten this session"
            if request.method == "GET":
                self._lost(text)
            return _answer(request, 404, code=NOT_SENT, text=text, closing=body)
        if packed and request.method == "POST":
            return _answer(request, 502, code=REFUSED, text="its answer is compressed", closing=body)
        if response.status_code >= _FIRST_ERROR and kind != "application/json":
            text = f"it answered with HTTP status {response.status_code}"
            return _answer(request, response.status_code, code=REFUSED, text=text, closing=body)
        response.stream = body
        return response


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
    request: httpx2.Request, status: int, *, code: int, text: str, closing: _Body | None = None
) -> httpx2.Response:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": text[:500]}}
    return httpx2.Response(
        status,
        headers={"content-type": "application/json"},
        stream=_Said(msgspec.json.encode(body), closing),
        request=request,
    )


def _is_notification(request: httpx2.Request) -> bool:
    try:
        return msgspec.json.decode(request.content, type=_Envelope).id is None
    except (msgspec.DecodeError, httpx2.RequestNotRead):
        return False


def _sockets(url: str) -> httpx2.AsyncHTTPTransport:
    """The limited transport; imports and reads certificates, so call it off the loop."""
    # Without TLS nobody needs the certificates, and reading them takes a while.
    tls = url.startswith("https:")
    context = httpx2.create_ssl_context(trust_env=False) if tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    limits = httpx2.Limits(max_connections=64, max_keepalive_connections=8)
    return httpx2.AsyncHTTPTransport(verify=context, trust_env=False, limits=limits)


@asynccontextmanager
async def http_wire(
    config: McpServerConfig, *, lost: Callable[[str], None]
) -> AsyncGenerator[tuple[Incoming, Outgoing]]:
    """Talk to the server at its url; redirects are followed within its origin alone, by the SDK's rule."""
    inner = await asyncio.to_thread(_sockets, config.url)
    patience_s = max([config.patience_s, *config.tool_patience_s.values()])
    async with (
        httpx2.AsyncClient(
            transport=BoundedTransport(inner, patience_s=patience_s, lost=lost),
            headers={**config.headers, "accept-encoding": "identity"},
            # How long a request may take is said by the transport; here only how long it may take to begin.
            timeout=httpx2.Timeout(None, connect=_CONNECT_S, pool=_CONNECT_S),
            trust_env=False,
        ) as client,
        streamable_http_client(config.url, http_client=client, max_sse_event_size=MESSAGE_BYTES_MAX) as (
            incoming,
            outgoing,
        ),
    ):
        yield incoming, outgoing
