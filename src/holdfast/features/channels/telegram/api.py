"""Telegram's Bot API over HTTP, with the certain outcome of each request.

A library would hide whether a request was written. Here it's known, because it decides whether a message can
be resent.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any, TypeAlias

import aiohttp
import msgspec
from msgspec import Struct

from holdfast.features.channels.messages import (
    CONNECT_S,
    Unanswered,
    Unwritten,
    answer_to,
    shaped,
    tracing,
)

BASE_URL = "https://api.telegram.org"
ANSWER_S = 60.0
UPLOAD_S = 180.0
BODY_BYTES_MAX = 16 * 1024 * 1024
TOO_MANY_REQUESTS = 429
SERVER_ERRORS = 500


class TelegramResult(Struct, frozen=True):
    """Telegram did it; this is what it returned."""

    value: Any


class TelegramFailure(Struct, frozen=True):
    """Telegram answered that it didn't do it."""

    code: int
    text: str
    retry_after_s: float | None = None


class Upload(Struct, frozen=True):
    """A file that a request brings, in one of its fields."""

    field: str
    name: str
    media_type: str
    data: bytes


class _Parameters(msgspec.Struct):
    retry_after: float | None = None


TelegramReply: TypeAlias = TelegramResult | TelegramFailure | Unwritten | Unanswered


class TelegramApi:
    """One bot; `open_telegram` makes it and closes its connections."""

    def __init__(self, session: aiohttp.ClientSession, *, token: str, base_url: str = "") -> None:
        self._session = session
        self._token = token
        self._base = (base_url or BASE_URL).rstrip("/")

    async def call(
        self, method: str, parameters: Mapping[str, Any] | None = None, *, answer_s: float = ANSWER_S
    ) -> TelegramReply:
        """Make one request. It is never made twice."""
        return await self._post(method, {"json": dict(parameters or {})}, answer_s=answer_s)

    async def upload(self, method: str, parameters: Mapping[str, Any], file: Upload) -> TelegramReply:
        """Make one request that brings a file."""
        form = aiohttp.FormData(quote_fields=False, default_to_multipart=True)
        for name, value in parameters.items():
            form.add_field(name, str(value))
        form.add_field(file.field, BytesIO(file.data), filename=file.name, content_type=file.media_type)
        return await self._post(method, {"data": form}, answer_s=UPLOAD_S)

    async def _post(self, method: str, content: Mapping[str, Any], *, answer_s: float) -> TelegramReply:
        url = f"{self._base}/bot{self._token}/{method}"
        answer = await answer_to(
            self._session, "POST", url, **content, bytes_max=BODY_BYTES_MAX, answer_s=answer_s
        )
        if not isinstance(answer, tuple):
            return answer
        response, body = answer
        return _reply(response.status, body)

    async def download(self, path: str, *, bytes_max: int, answer_s: float = ANSWER_S) -> bytes | None:
        """A file that someone sent; None if it is too big, or can't be fetched now."""
        try:
            async with (
                asyncio.timeout(CONNECT_S + answer_s),
                self._session.get(
                    f"{self._base}/file/bot{self._token}/{path}", allow_redirects=False
                ) as response,
            ):
                if response.status != 200:  # noqa: PLR2004  # what HTTP calls success
                    return None
                data = await response.content.read(bytes_max + 1)
                while len(data) <= bytes_max and (more := await response.content.read(bytes_max + 1)):
                    data += more
                return data if len(data) <= bytes_max else None
        except (TimeoutError, aiohttp.ClientError, OSError):
            return None


@asynccontextmanager
async def open_telegram(*, token: str, base_url: str = "") -> AsyncGenerator[TelegramApi]:
    """The API for one bot.

    Each request opens a new connection: on a kept-alive one, a server that just closed it looks the same as
    one that accepted the message and then failed.
    """
    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_S)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, trace_configs=[tracing()], auto_decompress=True
    ) as session:
        yield TelegramApi(session, token=token, base_url=base_url)


def _reply(status: int, body: bytes) -> TelegramReply:
    """Classify a response. Only one in Telegram's format proves that nothing was done."""
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("ok"), bool):  # pyright: ignore[reportUnknownMemberType]
        if status == TOO_MANY_REQUESTS:
            return TelegramFailure(status, "Too Many Requests", 5.0)
        return Unanswered(f"HTTP {status}, not from Telegram")
    answer: dict[str, Any] = found  # pyright: ignore[reportUnknownVariableType]
    if answer["ok"]:
        return TelegramResult(answer.get("result"))
    code = shaped(answer.get("error_code"), int) or status
    text = str(answer.get("description") or f"HTTP {status}")[:500]
    if code >= SERVER_ERRORS:
        return Unanswered(text)
    more = shaped(answer.get("parameters"), _Parameters) or _Parameters()
    return TelegramFailure(code, text, more.retry_after)
