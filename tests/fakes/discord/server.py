"""The fake Discord: API and gateway on loopback, with scripted faults and a record of what was sent.

    async with FakeDiscord() as discord:
        discord.scripts.add("createMessage", [Accept(), ResetConnection()])  # arrives, but the answer is lost
        discord.world.say(discord.world.direct(42), "hello")                 # a person writes to the bot
        ...                                                                  # point your bot at discord.url

Bots written with discord.py reach it with `Route.BASE = discord.api_url` and
`DiscordWebSocket.DEFAULT_GATEWAY = URL(discord.gateway_url)`.
"""

import json
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self, cast

from aiohttp import BodyPartReader, web

from fakes.discord.faults import DiscordAnswer, DiscordLimit, answered, discord_scripts, refused
from fakes.discord.gateway import Gateway
from fakes.discord.refusals import DiscordRefusal
from fakes.discord.rest import ROUTES, Asked, Route
from fakes.discord.world import DiscordCall, DiscordWorld
from fakes.exchanges import Exchange, broken, played

TOKEN = "fake.discord.token"  # noqa: S105  # nothing real is behind it
BODY_BYTES_MAX = 60 * 1024 * 1024
OK_BELOW = 300


class _Bucket:
    """A rate limit: so many requests in so many seconds."""

    def __init__(self, limit: int, per_s: float) -> None:
        self.limit = limit
        self.per_s = per_s
        self._used = 0
        self._until_s = 0.0

    def take(self) -> tuple[int, float]:
        """How many are left, or -1, and when there are new ones."""
        now_s = time.monotonic()
        if now_s >= self._until_s:
            self._used, self._until_s = 0, now_s + self.per_s
        self._used += 1
        return max(-1, self.limit - self._used), self._until_s - now_s


class FakeDiscord:
    """Discord for one bot; an async context manager. A route takes `limit` requests in `per_s`."""

    def __init__(
        self,
        *,
        token: str = TOKEN,
        host: str = "127.0.0.1",
        port: int = 0,
        limit: int = 1_000,
        per_s: float = 1.0,
    ) -> None:
        self.token = token
        self.scripts = discord_scripts()
        self.world = DiscordWorld(self.scripts)
        self.gateway = Gateway(self.world, self.scripts, token)
        self._host = host
        self._port = port
        self._limits = (limit, per_s)
        self._buckets: dict[tuple[str, str], _Bucket] = {}
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """The address of all of it."""
        return f"http://{self._host}:{self._port}"

    @property
    def api_url(self) -> str:
        """The base URL of the API."""
        return f"{self.url}/api/v10"

    @property
    def gateway_url(self) -> str:
        """The address of the gateway."""
        return f"ws://{self._host}:{self._port}/gateway"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=BODY_BYTES_MAX)
        for route in ROUTES:
            app.router.add_route(route.method, f"/api/v10{route.path}", self._handler(route))
        for path in ("/gateway", "/gateway/"):
            app.router.add_get(path, self.gateway.connect)
        app.router.add_get("/{path:attachments/.+}", self._file)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self.world.base_url = self.url
        self.gateway.url = self.gateway_url
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.world.sessions.drop()
        if self._runner is not None:
            await self._runner.cleanup()

    def _handler(self, route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._answer(route, request)

        return handle

    async def _answer(self, route: Route, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bot {self.token}" and "token" not in request.match_info:
            return _response(refused(401, 0, "401: Unauthorized"))
        try:
            asked = await _asked(request)
        except ValueError:
            return _response(refused(400, 50109, "The request body contains invalid JSON."))
        channel = asked.path.get("channel", "")
        exchange = Exchange(accept=lambda: self._carry_out(route, asked))
        limits, left = self._limited(route, channel)
        limited = [DiscordLimit(float(limits["X-RateLimit-Reset-After"]))]
        await played(limited if left < 0 else self.scripts.next(route.name, channel), exchange)
        answer = cast("DiscordAnswer | None", exchange.answer)
        if answer is not None and answer["status"] >= OK_BELOW:
            self._record(route, asked, str(answer["body"]["message"]))
        if (response := broken(exchange, request)) is not None:
            return response
        assert answer is not None
        return _response(answer, limits)

    def _limited(self, route: Route, channel: str) -> tuple[dict[str, str], int]:
        """The headers that tell of the route's limit, and how many requests are left."""
        bucket = self._buckets.setdefault((route.name, channel), _Bucket(*self._limits))
        left, reset_s = bucket.take()
        headers = {
            "X-RateLimit-Limit": str(bucket.limit),
            "X-RateLimit-Remaining": str(max(0, left)),
            "X-RateLimit-Reset": f"{time.time() + reset_s:.3f}",
            "X-RateLimit-Reset-After": f"{reset_s:.3f}",
            "X-RateLimit-Bucket": f"{route.name:-<32}",
        }
        return headers, left

    async def _carry_out(self, route: Route, asked: Asked) -> DiscordAnswer:
        try:
            answer = await route.handle(self.world, asked)
        except DiscordRefusal as error:
            return refused(error.status, error.code, error.text, error.errors)
        body: Any = answer["body"]
        message_id = str(cast("dict[str, Any]", body).get("id", "")) if isinstance(body, dict) else ""
        self._record(route, asked, "done", message_id or asked.path.get("message", ""))
        return answer

    def _record(self, route: Route, asked: Asked, outcome: str, message_id: str = "") -> None:
        parameters = {**asked.query, **(asked.fields or {"body": asked.body})}
        channel = asked.path.get("channel", "")
        self.world.record(DiscordCall(route.name, channel, parameters, outcome, message_id, time.monotonic()))

    async def _file(self, request: web.Request) -> web.StreamResponse:
        known = self.world.files.get(request.match_info["path"])
        gone = web.Response(status=404, text="This content is no longer available.")

        async def accept() -> DiscordAnswer:
            return answered()

        exchange = Exchange(accept=accept)
        for step in self.scripts.next("download", ""):
            await step.perform(exchange)
        if exchange.reset and request.transport is not None:
            request.transport.abort()
        answer = cast("DiscordAnswer | None", exchange.answer)
        if known is None or (answer is not None and answer["status"] >= OK_BELOW):
            return gone
        return web.Response(body=known[1], content_type=known[0])


def _response(answer: DiscordAnswer, limits: dict[str, str] | None = None) -> web.Response:
    headers = {**(limits or {}), **answer["headers"]}
    if answer["body"] is None:
        return web.Response(status=answer["status"], headers=headers)
    # Discord names no charset, and libraries compare the whole value.
    headers["Content-Type"] = "application/json"
    return web.Response(body=json.dumps(answer["body"]).encode(), status=answer["status"], headers=headers)


async def _asked(request: web.Request) -> Asked:
    """What the request asks for; raises ValueError."""
    path, query = dict(request.match_info), dict(request.query)
    if request.content_type == "multipart/form-data":
        body: Any = {}
        files: list[tuple[str, str, bytes]] = []
        async for part in await request.multipart():
            assert isinstance(part, BodyPartReader)
            data = bytes(await part.read())
            if part.name == "payload_json":
                body = json.loads(data)
            else:
                media_type = part.headers.get("Content-Type", "application/octet-stream")
                files.append((part.filename or "file", media_type, data))
        return Asked(path, query, body, files)
    text = await request.read()
    return Asked(path, query, json.loads(text) if text else None)
