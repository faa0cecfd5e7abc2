"""Discord's API over HTTP, with the certain outcome of each request.

A library would hide whether a request was written, and wait for rate limits internally. Here both are known:
the first decides whether a message can be resent, and the outbox waits for the second.

Discord's rate limits: a gate for each route and channel, and one for the whole bot.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Annotated, Any, TypeAlias, cast

import aiohttp
import msgspec
from msgspec import Struct
from yarl import URL

from holdfast import __version__
from holdfast.features.channels.files_out import UPLOAD_S, FileContent
from holdfast.features.channels.messages import (
    CONNECT_S,
    UNREADABLE,
    Unanswered,
    Unwritten,
    answer_to,
    shaped,
    tracing,
)
from holdfast.interfaces.clock import Clock

GATES_MAX = 2_000
MARGIN_S = 0.05  # Discord's clock and ours don't agree to the millisecond


class RateGates:
    """Says how long a request has to wait, so that none is made that Discord would refuse."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_s: dict[tuple[str, str], float] = {}

    def wait_s(self, route: str, place: str) -> float:
        """How long until this route is open for this channel; 0 if it is."""
        now_s = self._clock.steady_s()
        until = max(self._until_s.get(key, 0.0) for key in ((route, place), ("", "")))
        return max(0.0, until - now_s)

    def hold(self, route: str, place: str, seconds: float) -> None:
        """Close a gate for some time; without a route, it is the one of the whole bot."""
        until_s = self._clock.steady_s() + seconds + MARGIN_S
        self._until_s[route, place] = max(until_s, self._until_s.get((route, place), 0.0))
        if len(self._until_s) > GATES_MAX:
            now_s = self._clock.steady_s()
            self._until_s = {key: until for key, until in self._until_s.items() if until > now_s}

    def note(self, route: str, place: str, headers: Mapping[str, str]) -> None:
        """Read what an answer says about the limit of its route."""
        if headers.get("X-RateLimit-Remaining") != "0":
            return
        try:
            self.hold(route, place, float(headers.get("X-RateLimit-Reset-After", "")))
        except ValueError:
            return  # without a time there is nothing to wait for; a refusal would name one


BASE_URL = "https://discord.com"
VERSION = 10
FILE_HOSTS = frozenset({"cdn.discordapp.com", "media.discordapp.net"})
GATEWAY_HOST = "discord.gg"
USER_AGENT = f"DiscordBot (holdfast, {__version__})"  # in the form that Discord asks for
ANSWER_S = 60.0
BODY_BYTES_MAX = 8 * 1024 * 1024
NO_CONTENT = 204
OK_BELOW, TOO_LARGE, TOO_MANY_REQUESTS, SERVER_ERRORS = 300, 413, 429, 500
TOO_LARGE_CODE = 40005


class DiscordResult(Struct, frozen=True):
    """Discord did it; this is what it returned."""

    value: Any


class DiscordFailure(Struct, frozen=True):
    """Discord answered that it didn't do it; `code` is its own, 0 if it gave none."""

    status: int
    code: int
    text: str
    retry_after_s: float | None = None


DiscordReply: TypeAlias = DiscordResult | DiscordFailure | Unwritten | Unanswered


class ApiRequest(Struct, frozen=True):
    """One request: `place` is the channel whose limit counts, if the route has one for each."""

    method: str
    path: str
    route: str
    place: str = ""


def messages_of(channel: str, *, method: str = "POST") -> ApiRequest:
    """The messages of a channel: to write one, or to list them."""
    return ApiRequest(method, f"/channels/{channel}/messages", f"{method} messages", channel)


def message_at(channel: str, message: str, *, method: str = "PATCH") -> ApiRequest:
    """One message: to change it, or to delete it."""
    return ApiRequest(method, f"/channels/{channel}/messages/{message}", f"{method} message", channel)


class _Bot(msgspec.Struct):
    id: Annotated[str, msgspec.Meta(min_length=1)]
    username: str = ""


class DiscordApi:
    """One bot; `open_discord` makes it and closes its connections."""

    def __init__(
        self, session: aiohttp.ClientSession, *, token: str, base_url: str = "", clock: Clock
    ) -> None:
        self.session = session
        self.token = token
        self.bot_id = ""  # once Discord has said it
        self.bot_name = ""
        self.gates = RateGates(clock)
        self._own = URL(base_url.rstrip("/")) if base_url else None
        self._base = f"{(base_url or BASE_URL).rstrip('/')}/api/v{VERSION}"

    async def call(
        self,
        request: ApiRequest,
        body: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        answer_s: float = ANSWER_S,
    ) -> DiscordReply:
        """Make one request. It is never made twice, and not at all while a rate limit holds it."""
        return await self._make(request, {"json": body, "params": query}, answer_s=answer_s)

    async def upload(self, request: ApiRequest, body: Mapping[str, Any], file: FileContent) -> DiscordReply:
        """Make one request that brings a file."""
        # Discord reads names as they are, and shows the escapes of others to people.
        form = aiohttp.FormData(quote_fields=False, default_to_multipart=True)
        form.add_field("payload_json", json.dumps(body), content_type="application/json")
        form.add_field("files[0]", BytesIO(file.data), filename=file.name, content_type=file.media_type)
        return await self._make(request, {"data": form}, answer_s=UPLOAD_S)

    async def _make(
        self, request: ApiRequest, content: Mapping[str, Any], *, answer_s: float
    ) -> DiscordReply:
        if (wait_s := self.gates.wait_s(request.route, request.place)) > 0:
            return DiscordFailure(TOO_MANY_REQUESTS, 0, "held back by a rate limit", wait_s)
        answer = await answer_to(
            self.session,
            request.method,
            self._base + request.path,
            **content,
            headers={"Authorization": f"Bot {self.token}", "User-Agent": USER_AGENT},
            bytes_max=BODY_BYTES_MAX,
            answer_s=answer_s,
        )
        if not isinstance(answer, tuple):
            return answer
        response, data = answer
        self.gates.note(request.route, request.place, response.headers)
        reply = _reply(response, data)
        if isinstance(reply, DiscordFailure) and reply.retry_after_s is not None:
            self._hold(request, response, reply.retry_after_s)
        return reply

    async def who_am_i(self) -> DiscordReply:
        """Learn the id of the bot, unless it is known."""
        if self.bot_id:
            return DiscordResult(None)
        reply = await self.call(ApiRequest("GET", "/users/@me", "GET me"))
        if not isinstance(reply, DiscordResult):
            return reply
        bot = shaped(reply.value, _Bot)
        if bot is None:
            return Unanswered(UNREADABLE)
        self.bot_id, self.bot_name = bot.id, bot.username
        return reply

    def _hold(self, request: ApiRequest, response: aiohttp.ClientResponse, wait_s: float) -> None:
        # Without a scope it is the network in front of Discord that is tired of us, so all of it rests.
        scope = response.headers.get("X-RateLimit-Scope", "global")
        is_global = scope == "global" or response.headers.get("X-RateLimit-Global") == "true"
        route, place = ("", "") if is_global else (request.route, request.place)
        self.gates.hold(route, place, wait_s)

    async def download(self, address: str, *, bytes_max: int, answer_s: float = ANSWER_S) -> bytes | None:
        """A file that someone sent; None if it is too big, is not Discord's, or can't be fetched now."""
        if not self.is_file_address(address):
            return None
        try:
            async with (
                asyncio.timeout(CONNECT_S + answer_s),
                self.session.get(address, allow_redirects=False) as response,
            ):
                if response.status != 200:  # noqa: PLR2004  # what HTTP calls success
                    return None
                data = await response.content.read(bytes_max + 1)
                while len(data) <= bytes_max and (more := await response.content.read(bytes_max + 1)):
                    data += more
                return data if len(data) <= bytes_max else None
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError):
            return None

    def is_file_address(self, address: str) -> bool:
        """Whether files may be fetched from there: only from Discord's own hosts."""
        try:
            url = URL(address)
            origin = url.origin() if url.absolute else None
        except ValueError:  # also of what has a host and no scheme
            return False
        if self._own is not None:
            return origin == self._own.origin()
        return url.scheme == "https" and url.host in FILE_HOSTS and url.explicit_port is None

    def is_gateway_address(self, address: str) -> bool:
        """Return whether this is one of Discord's gateways, which can receive the token."""
        try:
            url = URL(address)
            place = (url.host, url.port)
        except ValueError:
            return False
        if self._own is not None:
            return place == (self._own.host, self._own.port)
        host = url.host or ""
        return url.scheme == "wss" and (host == GATEWAY_HOST or host.endswith(f".{GATEWAY_HOST}"))


@asynccontextmanager
async def open_discord(*, token: str, base_url: str = "", clock: Clock) -> AsyncGenerator[DiscordApi]:
    """The API for one bot.

    Each request opens a new connection: on a kept-alive one, a server that just closed it looks the same as
    one that accepted the message and then failed.
    """
    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_S)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, trace_configs=[tracing()], auto_decompress=True
    ) as session:
        yield DiscordApi(session, token=token, base_url=base_url, clock=clock)


def _reply(response: aiohttp.ClientResponse, body: bytes) -> DiscordReply:
    """Classify a response. Only one in Discord's format proves that nothing was done."""
    status = response.status
    try:
        found: Any = json.loads(body) if body else None
    except (ValueError, RecursionError):
        found = None
    if status < OK_BELOW:
        is_whole = found is not None or (not body and status == NO_CONTENT)
        return DiscordResult(found) if is_whole else Unanswered(f"HTTP {status}, not from Discord")
    said = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    if status == TOO_MANY_REQUESTS:
        wait = said.get("retry_after") or response.headers.get("Retry-After") or 5
        return DiscordFailure(status, 0, "You are being rate limited", _seconds(wait))
    if status == TOO_LARGE:  # proxies in front of Discord use another format
        return DiscordFailure(status, TOO_LARGE_CODE, "Request entity too large")
    if status >= SERVER_ERRORS or "message" not in said:
        return Unanswered(f"HTTP {status}, not from Discord")
    return DiscordFailure(status, shaped(said.get("code"), int) or 0, _words(said))


def _words(said: Mapping[str, Any]) -> str:
    """Discord's words, with what is wrong with which field."""
    errors = f" {json.dumps(said['errors'])}" if said.get("errors") else ""
    return f"{said['message']}{errors}"[:500]


def _seconds(value: object) -> float:
    try:
        return max(0.0, float(str(value)))
    except ValueError:
        return 5.0
