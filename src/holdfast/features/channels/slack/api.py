"""Slack's Web API over HTTP: one request, and what is certain about it afterwards."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any, Literal, TypeAlias, cast

import aiohttp
from msgspec import Struct
from yarl import URL

from holdfast.features.channels.files_out import UPLOAD_S
from holdfast.features.channels.messages import (
    CONNECT_S,
    Unanswered,
    Unwritten,
    answer_to,
    bounded_body,
    shaped,
    tracing,
)

BASE_URL = "https://slack.com/api/"
FILES_HOST = "files.slack.com"
ANSWER_S = 30.0
BODY_BYTES_MAX = 16 * 1024 * 1024  # of an answer, and of what a socket tells at once
TOO_MANY_REQUESTS = 429
SERVER_ERRORS = 500
LIMITED_S = 30.0  # if Slack doesn't say how long
APP_TOKEN, BOT_TOKENS = "xapp-", ("xoxb-", "xoxp-")
# Slack's error codes after which the outcome is unknown.
UNCLEAR = frozenset(
    {"internal_error", "fatal_error", "service_unavailable", "request_timeout", "accesslimited"}
)
Form: TypeAlias = Literal["json", "form"]


class SlackDone(Struct, frozen=True):
    """A successful response, with the token's scopes if Slack sent them."""

    value: Mapping[str, Any]
    scopes: frozenset[str] = frozenset()


class SlackFailure(Struct, frozen=True):
    """Slack answered that it didn't do it, in one word."""

    error: str
    retry_after_s: float | None = None


SlackReply: TypeAlias = SlackDone | SlackFailure | Unwritten | Unanswered


class SlackApi:
    """One app; `open_slack` makes it and closes its connections."""

    def __init__(self, session: aiohttp.ClientSession, *, token: str, app_token: str, base_url: str) -> None:
        self.trouble = token_trouble(token, app_token)
        self._session = session
        self._token = token
        self._app_token = app_token
        self._base = URL((base_url or BASE_URL).rstrip("/") + "/")
        self._has_own_base = bool(base_url)

    async def call(
        self, method: str, arguments: Mapping[str, Any] | None = None, *, answer_s: float = ANSWER_S
    ) -> SlackReply:
        """Make one request as the bot. It is never made twice."""
        return await self._call(method, arguments or {}, token=self._token, answer_s=answer_s)

    async def open_connection(self) -> SlackReply:
        """Ask for the address of a socket."""
        return await self._call("apps.connections.open", {}, token=self._app_token, answer_s=ANSWER_S)

    async def socket(self, address: str, *, heartbeat_s: float) -> aiohttp.ClientWebSocketResponse:
        """Open the socket; raises what aiohttp raises."""
        return await self._session.ws_connect(
            address, heartbeat=heartbeat_s, max_msg_size=BODY_BYTES_MAX, autoping=True
        )

    async def _call(
        self, method: str, arguments: Mapping[str, Any], *, token: str, answer_s: float
    ) -> SlackReply:
        # Slack reads the arguments of most methods that only look from forms alone.
        form: Form = "json" if method.startswith("chat.") else "form"
        body: dict[str, Any] = (
            {"json": dict(arguments)} if form == "json" else {"data": _form_fields(arguments)}
        )
        answer = await answer_to(
            self._session,
            "POST",
            self._base.join(URL(method)),
            headers={"Authorization": f"Bearer {token}"},
            **body,
            bytes_max=BODY_BYTES_MAX,
            answer_s=answer_s,
        )
        if not isinstance(answer, tuple):
            return answer
        response, data = answer
        return _reply(response.status, response.headers, data)

    async def upload(self, address: str, data: bytes) -> SlackReply:
        """Upload a file to the URL from Slack. It isn't visible yet."""
        if not self.is_ours(address):
            return SlackFailure("the upload URL isn't Slack's")
        answer = await answer_to(
            self._session,
            "POST",
            address,
            data=BytesIO(data),
            headers={"Content-Type": "application/octet-stream"},
            bytes_max=BODY_BYTES_MAX,
            answer_s=UPLOAD_S,
        )
        if not isinstance(answer, tuple):
            return answer
        match answer[0].status:
            case 200:
                return SlackDone({})
            case status if status == TOO_MANY_REQUESTS or status >= SERVER_ERRORS:
                return Unanswered(f"HTTP {status}")
            case status:
                return SlackFailure(f"HTTP {status}")

    def is_ours(self, address: str) -> bool:
        """Whether a file's address is one that may be given the token: the platform's own host alone."""
        try:
            url = URL(address)
        except ValueError:
            return False
        if self._has_own_base:
            return url.origin() == self._base.origin() if url.is_absolute() else False
        return url.scheme == "https" and url.host == FILES_HOST and url.port == 443  # noqa: PLR2004

    async def download(self, address: str, *, bytes_max: int) -> bytes | None:
        """A file that someone sent; None if it is too big, elsewhere, or can't be fetched now."""
        if not self.is_ours(address):
            return None
        try:
            async with (
                asyncio.timeout(CONNECT_S + ANSWER_S),
                self._session.get(
                    address, headers={"Authorization": f"Bearer {self._token}"}, allow_redirects=False
                ) as response,
            ):
                if response.status != 200:  # noqa: PLR2004  # what HTTP calls success
                    return None
                return await bounded_body(response, bytes_max=bytes_max)
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError):
            return None


def listed_in(answer: Mapping[str, Any]) -> Sequence[Mapping[str, Any]] | None:
    """The messages of a page; None if it can't be read."""
    return shaped(answer.get("messages"), list[dict[str, Any]])


def next_cursor(answer: Mapping[str, Any]) -> str:
    """Where the next page begins; empty after the last."""
    more = shaped(answer.get("response_metadata") or {}, dict[str, Any]) or {}
    return str(more.get("next_cursor") or "")


def token_trouble(token: str, app_token: str) -> str:
    """Check the prefixes of the tokens; empty if they're right."""
    is_app, is_bot = token.startswith(APP_TOKEN), app_token.startswith(BOT_TOKENS)
    if is_app and is_bot:
        return "The two tokens are swapped"
    if is_app:
        return "`token` contains the app-level token, which belongs in `app_token`"
    return "`app_token` contains a bot token, which belongs in `token`" if is_bot else ""


@asynccontextmanager
async def open_slack(*, token: str, app_token: str, base_url: str = "") -> AsyncGenerator[SlackApi]:
    """The API for one app.

    Each request opens a new connection: on a kept-alive one, a server that just closed it looks the same as
    one that accepted the message and then failed.
    """
    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_S)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, trace_configs=[tracing()], cookie_jar=aiohttp.DummyCookieJar()
    ) as session:
        yield SlackApi(session, token=token, app_token=app_token, base_url=base_url)


def _form_fields(arguments: Mapping[str, Any]) -> dict[str, str]:
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in arguments.items()
    }


def _reply(status: int, headers: Mapping[str, str], body: bytes) -> SlackReply:
    """Classify a response. Only one in Slack's format proves that nothing was done."""
    retry_after = headers.get("Retry-After", "")
    if status == TOO_MANY_REQUESTS:
        return SlackFailure("ratelimited", float(retry_after) if retry_after.isdecimal() else LIMITED_S)
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    answer = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    if not isinstance(answer.get("ok"), bool):
        return Unanswered(f"HTTP {status}, not from Slack")
    if answer["ok"]:
        listed = headers.get("X-OAuth-Scopes", "").split(",")
        return SlackDone(answer, frozenset(one.strip() for one in listed if one.strip()))
    error = str(answer.get("error") or f"HTTP {status}")[:200]
    if error in UNCLEAR or status >= SERVER_ERRORS:
        return Unanswered(error)
    return SlackFailure(error, LIMITED_S if error == "ratelimited" else None)
