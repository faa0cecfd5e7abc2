"""Sends signed requests to other servers: questions, and requests of clients that only they can serve."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from holdfast.features.postgres.peers.signatures import HEADER, PeerSignatures, Question, target_of
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.nodes import Node
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.problems import Problem

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

ANSWER_S = 2.0  # how long a question about a session may take
CONNECT_S = 2.0
IDLE_S = 2.0  # servers close idle connections after 5 s, and an interrupted POST isn't retried
SILENT_S = 60.0  # how long a request that was passed on may take before its answer begins, or go silent
AGAIN_S = 3.0  # a server that gave no answer isn't asked again for so long
ANSWER_BYTES_MAX = 4 * 1024 * 1024
_FORWARDED = ("accept", "content-type", "idempotency-key", "if-none-match", "if-range", "range")
_NOT_RETURNED = frozenset(
    (
        *("connection", "date", "keep-alive", "server", "set-cookie", "transfer-encoding", "upgrade", "vary"),
        # The server that passes the response on adds these itself.
        *("x-content-type-options", "referrer-policy", "cross-origin-opener-policy", "permissions-policy"),
    )
)
_log = logging.getLogger(__name__)


class PeerAnswer(Struct, frozen=True):
    """A short answer of another server."""

    status: int
    body: bytes


class PeerRequests:
    """Requests to other servers. `close` it at the end."""

    def __init__(self, signatures: PeerSignatures, clock: Clock) -> None:
        self._signatures = signatures
        self._clock = clock
        self._http: ClientSession | None = None
        self._silent_until_s: dict[str, float] = {}

    async def close(self) -> None:
        """End all connections."""
        if self._http is not None:
            await self._http.close()

    async def ask(self, node: Node, target: str, *, key_name: str) -> PeerAnswer | None:
        """Send a GET to another server; None if it doesn't respond in time."""
        if self._silent_until_s.get(node.name, 0.0) > self._clock.monotonic_s():
            return None
        question = Question(node.name, "GET", target)
        try:
            async with asyncio.timeout(ANSWER_S):
                response = await self._send(node, question, key_name=key_name)
                async with response:
                    body = await response.content.read(ANSWER_BYTES_MAX)
                    return PeerAnswer(response.status, body)
        except _failures() as error:
            self._silent_until_s[node.name] = self._clock.monotonic_s() + AGAIN_S
            _log.info("server %s didn't respond: %s", node.name, error or type(error).__name__)
            return None

    async def forward(
        self, request: Request, node: Node, body: bytes, *, has: str, answer_s: float = SILENT_S
    ) -> "ForwardedResponse":
        """See `Peers.forward`."""
        question = Question(node.name, request.method, target_of(request.scope), body)
        headers = {name: value for name in _FORWARDED if (value := request.headers.get(name))}
        try:
            async with asyncio.timeout(answer_s):
                response = await self._send(node, question, key_name=request.scope[KEY_NAME], headers=headers)
        except _failures() as error:
            _log.warning("server %s didn't respond: %s", node.name, error or type(error).__name__)
            raise no_answer(node, has) from error
        return ForwardedResponse(response)

    async def _send(
        self, node: Node, question: Question, *, key_name: str, headers: Mapping[str, str] | None = None
    ) -> "ClientResponse":
        from aiohttp import ClientSession, ClientTimeout, TCPConnector
        from yarl import URL

        if self._http is None:
            timeout = ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENT_S)
            connector = TCPConnector(keepalive_timeout=IDLE_S)
            self._http = ClientSession(connector=connector, timeout=timeout, auto_decompress=False)
        if urlsplit(node.url).scheme not in {"http", "https"}:
            raise ValueError("its server.node_url isn't set")
        signature = self._signatures.sign(question, key_name=key_name)
        return await self._http.request(
            question.method,
            URL(node.url.rstrip("/") + question.target, encoded=True),
            data=question.body or None,
            headers={**(headers or {}), HEADER.decode(): signature},
            allow_redirects=False,
        )


def _failures() -> tuple[type[Exception], ...]:
    """The errors of a request to another server."""
    from aiohttp import ClientError

    return (ClientError, TimeoutError, OSError, ValueError)


def no_answer(node: Node, has: str) -> Problem:
    """Another server has what is asked for, and doesn't answer."""
    where = f" at {node.url}" if node.url else ""
    return Problem(
        503,
        f"Server {node.name} has {has} but isn't responding{where}. Try again, or send the request to it "
        "directly. If it's unreachable, check its server.node_url",
        code="server_silent",
        headers={"Retry-After": "2"},
    )


class ForwardedResponse(StreamingResponse):
    """The answer of another server, whose body flows through; send it, or drop it."""

    def __init__(self, answer: "ClientResponse") -> None:
        kept = {name: value for name, value in answer.headers.items() if name.lower() not in _NOT_RETURNED}
        super().__init__(self._body(), answer.status, kept)
        self._answer = answer

    async def _body(self) -> AsyncGenerator[bytes]:
        async for piece in self._answer.content.iter_any():
            yield piece

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.drop()

    def drop(self) -> None:
        """Read no more of it."""
        self._answer.close()
