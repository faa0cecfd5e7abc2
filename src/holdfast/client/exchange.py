"""Requests over HTTP, sent again while that is safe and the patience lasts."""

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import aiohttp
import msgspec
from msgspec import Struct, field

from holdfast import __version__
from holdfast.api.errors import ErrorDetail
from holdfast.client.address import Address, ClientPatience, Where
from holdfast.client.errors import BadAnswer, Refused, Unreachable, refusal

ANSWER_BYTES_MAX = 512 * 1024 * 1024
PIECE_BYTES = 256 * 1024
# A server that shuts down, or whose store is busy, sends these; a later try succeeds.
LATER = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT})
_SAFE_METHODS = frozenset({"GET", "PUT", "DELETE"})

# What aiohttp raises if a connection fails; a missed deadline is a TimeoutError.
BROKEN: tuple[type[Exception], ...] = (aiohttp.ClientError, OSError, TimeoutError)


class ClientRequest(Struct, frozen=True):
    """A request; `once` is its idempotency key, which makes it safe to send twice."""

    method: str
    path: str
    body: Any = None
    once: str = ""
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    accept: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def may_repeat(self) -> bool:
        """Whether it can be sent again if the outcome of the first try is unknown."""
        return bool(self.once) or self.method in _SAFE_METHODS


class NowhereToBeFound(ConnectionError):
    """The server's address isn't known at the moment."""


class RetryingHttp:
    """Sends requests over a pool of connections; after a failure the address is looked up again."""

    def __init__(self, where: Where, patience: ClientPatience) -> None:
        self._where = where
        self.patience = patience
        self._address: Address | None = None
        self._tried = "the server"
        self._tls: ssl.SSLContext | bool = True
        self._pools: dict[str, aiohttp.ClientSession] = {}  # by socket path; one pool serves all of TCP

    async def close(self) -> None:
        """Close all connections."""
        while self._pools:
            await self._pools.popitem()[1].close()

    async def call(self, asked: ClientRequest) -> bytes:
        """The body of the response; raises Refused or Unreachable."""
        now_s = asyncio.get_running_loop().time
        until_s = now_s() + self.patience.call_s
        tries = 0
        while True:
            try:
                async with self.opened(asked) as answer:
                    return await _body(answer)
            except Refused as error:
                left_s = until_s - now_s()
                if error.status not in LATER or not asked.may_repeat or left_s <= error.retry_after_s:
                    raise
                pause_s = max(error.retry_after_s, self.pause_s(tries))
            except BROKEN as error:
                left_s = until_s - now_s()
                never_sent = isinstance(error, aiohttp.ClientConnectorError | NowhereToBeFound)
                if left_s <= 0 or not (asked.may_repeat or never_sent):
                    raise self.unreachable(error_text(error)) from error
                pause_s = self.pause_s(tries)
            tries += 1
            await asyncio.sleep(min(pause_s, left_s))

    @asynccontextmanager
    async def opened(
        self, asked: ClientRequest, *, silence_s: float = 0.0
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """The open response; raises Refused for an error, and one of BROKEN."""
        async with self.opened_any(asked, silence_s=silence_s) as answer:
            if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
                raise self.refused(answer, await _body(answer))
            yield answer

    @staticmethod
    def refused(answer: aiohttp.ClientResponse, body: bytes) -> Refused:
        """The error that a response says."""
        return refusal(answer.status, body, retry_after=answer.headers.get("Retry-After", ""))

    @asynccontextmanager
    async def opened_any(
        self, asked: ClientRequest, *, silence_s: float = 0.0
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """The open response, whatever its status is; raises one of BROKEN."""
        address = await self._reach()
        headers = {"Accept": asked.accept, "User-Agent": f"holdfast/{__version__}", **asked.headers}
        if address.key:
            headers["Authorization"] = f"Bearer {address.key.strip()}"  # a key file ends with a line break
        if asked.once:
            headers["Idempotency-Key"] = asked.once
        body = None
        if isinstance(asked.body, bytes):
            body = asked.body
            headers["Content-Type"] = "application/octet-stream"
        elif asked.body is not None:
            body = _encoded(asked.body)
            headers["Content-Type"] = "application/json"
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=5.0, sock_read=silence_s or self.patience.answer_s
        )
        try:
            async with self._pool(address.socket).request(
                asked.method,
                address.url + asked.path,
                params=asked.query or None,
                data=body,
                headers=headers,
                timeout=timeout,
                ssl=self._tls,
                allow_redirects=False,
            ) as answer:
                yield answer
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            raise Unreachable(address.url, "the address must begin with http:// or https://") from error
        except BROKEN:
            self._address = None  # the server may have moved, so the next try looks up its address
            raise

    def pause_s(self, tries: int) -> float:
        """How long to wait before the next try."""
        return min(self.patience.most_s, self.patience.first_s * 2 ** min(tries, 16))

    def unreachable(self, why: str) -> Unreachable:
        """The error for a server that doesn't answer."""
        return Unreachable(self._tried, why)

    async def _reach(self) -> Address:
        if self._address is None:
            try:
                self._address = await self._where()
            except OSError as error:
                raise NowhereToBeFound(str(error)) from error
            self._tried = self._address.url
            if self._address.certificate:
                self._tls = await asyncio.to_thread(_only, self._address.certificate)
        return self._address

    def _pool(self, socket: str) -> aiohttp.ClientSession:
        if socket not in self._pools:
            connector = aiohttp.UnixConnector(socket) if socket else aiohttp.TCPConnector(limit=0)
            self._pools[socket] = aiohttp.ClientSession(connector=connector, auto_decompress=True)
        return self._pools[socket]


def _only(certificate: str) -> ssl.SSLContext:
    """Accept this certificate alone, for any name. Blocks."""
    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # it needn't be a root
    return context


def _encoded(body: Any) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError as error:
        text = "The text has half a character (a lone surrogate), so it can't be sent"
        raise Refused(HTTPStatus.BAD_REQUEST, ErrorDetail(message=text, code="invalid_json")) from error


def error_text(error: Exception) -> str:
    """An exception of a connection in a few words."""
    if isinstance(error, TimeoutError):
        return "it didn't answer in time"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return error.os_error.strerror or "no such host"
    if isinstance(error, aiohttp.ClientSSLError):
        return error.os_error.strerror or "no secure connection"
    if isinstance(error, aiohttp.ClientConnectorError):
        return os.strerror(error.os_error.errno) if error.os_error.errno else "no connection"
    return str(error) or type(error).__name__


async def _body(answer: aiohttp.ClientResponse) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in answer.content.iter_chunked(PIECE_BYTES):
        size += len(piece)
        if size > ANSWER_BYTES_MAX:
            raise BadAnswer(f"an answer of more than {ANSWER_BYTES_MAX} bytes")
        pieces.append(piece)
    return b"".join(pieces)
