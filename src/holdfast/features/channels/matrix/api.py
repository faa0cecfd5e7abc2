"""Matrix's client-server API over HTTP, with the certain outcome of each request."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import aiohttp
import msgspec
from msgspec import Struct
from yarl import URL

from holdfast.features.channels.messages import (
    CONNECT_S,
    UNREADABLE,
    Unanswered,
    Unwritten,
    answer_to,
    bounded_body,
    tracing,
)

ANSWER_S, UPLOAD_S = 60.0, 180.0
BODY_BYTES_MAX = 32 * 1024 * 1024
SERVER_ERRORS = 500
CLIENT = "/_matrix/client/v3"


class MatrixResult(Struct, frozen=True):
    """The server did it; this is what it returned."""

    value: Mapping[str, Any]


class MatrixFailure(Struct, frozen=True):
    """The server answered that it didn't do it."""

    status: int
    code: str
    text: str
    retry_after_s: float | None = None

    @property
    def why(self) -> str:
        """Describe it."""
        return f"{self.code}: {self.text}"


MatrixReply: TypeAlias = MatrixResult | MatrixFailure | Unwritten | Unanswered


class MatrixApi:
    """One account; `open_matrix` makes it and closes its connections."""

    def __init__(self, http: aiohttp.ClientSession, *, homeserver: str, token: str) -> None:
        self._http = http
        self._base = URL(homeserver)
        self._headers = {"Authorization": f"Bearer {token}"}

    async def call(
        self,
        method: str,
        *path: str,
        body: object = None,
        answer_s: float = ANSWER_S,
        query: Mapping[str, str] | None = None,
    ) -> MatrixReply:
        """Make one request. Each part of the path is quoted. It's never made twice."""
        data = None if body is None else msgspec.json.encode(body)
        return await self._request(
            method, self._url(CLIENT, path, query or {}), data, kind="application/json", answer_s=answer_s
        )

    async def upload(self, data: bytes, *, name: str, media_type: str) -> MatrixReply:
        """Store a file. Nobody sees it before a message names it."""
        url = self._url("/_matrix/media/v3", ("upload",), {"filename": name})
        return await self._request("POST", url, data, kind=media_type, answer_s=UPLOAD_S)

    async def download(self, address: str, *, bytes_max: int) -> bytes | None:
        """A file by its mxc address; None if it's too big, or can't be fetched now."""
        server, _, media_id = address.removeprefix("mxc://").partition("/")
        url = self._url("/_matrix/client/v1/media", ("download", server, media_id), {})
        try:
            async with (
                asyncio.timeout(CONNECT_S + ANSWER_S),
                self._http.get(url, headers=self._headers, allow_redirects=False) as response,
            ):
                return await bounded_body(response, bytes_max=bytes_max) if response.ok else None
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError):
            return None

    def _url(self, prefix: str, path: tuple[str, ...], query: Mapping[str, str]) -> URL:
        url = self._base.with_path(self._base.path.rstrip("/") + prefix)
        for part in path:
            url = url / part if "/" not in part else url.joinpath(part.replace("/", "%2F"), encoded=True)
        return url.with_query(query)

    async def _request(
        self, method: str, url: URL, data: bytes | None, *, kind: str, answer_s: float
    ) -> MatrixReply:
        headers = self._headers | ({"Content-Type": kind} if data is not None else {})
        answer = await answer_to(
            self._http, method, url, data=data, headers=headers, bytes_max=BODY_BYTES_MAX, answer_s=answer_s
        )
        if not isinstance(answer, tuple):
            return answer
        response, body = answer
        return await asyncio.to_thread(_reply, response.status, body)


class _Failure(msgspec.Struct):
    errcode: str
    error: str = ""
    retry_after_ms: int = 0


def _reply(status: int, body: bytes) -> MatrixReply:
    """Classify a response. Only one in Matrix's format proves that nothing was done."""
    try:
        if status == 200:  # noqa: PLR2004  # success
            return MatrixResult(msgspec.json.decode(body, type=dict[str, Any]))
        failure = msgspec.json.decode(body, type=_Failure)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Unanswered(f"HTTP {status}, not from Matrix" if status != 200 else UNREADABLE)  # noqa: PLR2004
    if status >= SERVER_ERRORS:
        return Unanswered(f"HTTP {status}: {failure.error[:200]}")
    wait_s = failure.retry_after_ms / 1000 if failure.retry_after_ms else None
    return MatrixFailure(status, failure.errcode[:100], failure.error[:300], wait_s)


@asynccontextmanager
async def open_matrix(*, homeserver: str, token: str) -> AsyncGenerator[MatrixApi]:
    """The API for one account. Each request opens a new connection, so that it's known what was written."""
    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_S)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, trace_configs=[tracing()]) as http:
        yield MatrixApi(http, homeserver=homeserver, token=token)
