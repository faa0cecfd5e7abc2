"""The fake Telegram: the Bot API on loopback, with scripted faults and a record of everything that was sent.

    async with FakeTelegram() as telegram:
        telegram.scripts.add("sendMessage", [Accept(), ResetConnection()])   # arrives, but the answer is lost
        telegram.world.say(42, "hello")                            # a person writes to the bot
        ...                                                        # point your bot at telegram.url

Bots written with aiogram reach it with `TelegramAPIServer.from_base(telegram.url)`.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from aiohttp import BodyPartReader, web

from fakes.exchanges import Exchange, Order, Scripts, broken, played
from fakes.telegram.delivering import deliver_updates
from fakes.telegram.faults import WORDS, failure
from fakes.telegram.methods import METHODS, TelegramRefusal
from fakes.telegram.world import Call, World

TOKEN = "4242:fake-token"  # noqa: S105  # nothing real is behind it
BODY_BYTES_MAX = 60 * 1024 * 1024
CONFLICT = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
HOOKED = "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete it first"
POLL_S_MAX = 50
UPDATES_AT_ONCE = 100
_JSON_FIELDS = frozenset({"reply_markup", "reply_parameters", "commands", "allowed_updates", "entities"})


class FakeTelegram:
    """A Bot API server for one bot; an async context manager."""

    def __init__(self, *, token: str = TOKEN, host: str = "127.0.0.1", port: int = 0) -> None:
        self.token = token
        self.world = World()
        self.scripts = Scripts(WORDS)
        self._host = host
        self._port = port
        self._poll = 0  # the newest getUpdates; an older one that still waits ends with a conflict
        self._runner: web.AppRunner | None = None
        self._delivering: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The base URL for bots."""
        return f"http://{self._host}:{self._port}"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=BODY_BYTES_MAX)
        app.router.add_route("*", "/bot{token}/{method}", self._answer)
        app.router.add_get("/file/bot{token}/{path:.+}", self._file)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self._delivering = asyncio.create_task(deliver_updates(self.world), name="deliver updates")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._poll += 1
        self.world.changed.notify()
        if self._delivering is not None:
            self._delivering.cancel()
            await asyncio.wait({self._delivering})
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        method, token = request.match_info["method"], request.match_info["token"]
        if token != self.token:
            return _response(failure(401, "Unauthorized"))
        try:
            parameters = await _parameters(request)
        except ValueError:
            return _response(failure(400, "Bad Request: can't parse request"))
        exchange = Exchange(accept=lambda: self._carry_out(method, parameters, exchange))
        await played(self.scripts.next(method, str(parameters.get("chat_id", ""))), exchange)
        if exchange.answer is not None and not exchange.answer["ok"]:
            self.world.record(Call(method, parameters, str(exchange.answer["description"])))
        if (response := broken(exchange, request)) is not None:
            return response
        assert exchange.answer is not None
        return _response(exchange.answer)

    async def _carry_out(
        self, method: str, parameters: Mapping[str, Any], exchange: Exchange
    ) -> dict[str, object]:
        try:
            if method.lower() == "getupdates":
                return {"ok": True, "result": await self._updates(parameters, exchange.order)}
            known = METHODS.get(method.lower())
            if known is None:
                return failure(404, "Not Found")
            result = await known(self.world, parameters)
        except TelegramRefusal as error:
            return failure(error.code, error.text)
        message_id = int(result["message_id"]) if isinstance(result, dict) and "message_id" in result else 0  # pyright: ignore[reportUnknownArgumentType]
        self.world.record(Call(method, parameters, "done", message_id))
        return {"ok": True, "result": result}

    async def _updates(self, parameters: Mapping[str, Any], order: Order) -> list[dict[str, Any]]:
        """Long polling: an offset acknowledges everything before it; a newer request ends this one."""
        if self.world.webhook is not None:
            raise TelegramRefusal(409, HOOKED)
        self._poll += 1
        mine, world = self._poll, self.world
        world.changed.notify()
        offset = int(parameters.get("offset") or 0)
        if offset > 0:
            world.updates = [one for one in world.updates if one["update_id"] >= offset]
        limit = min(int(parameters.get("limit") or UPDATES_AT_ONCE), UPDATES_AT_ONCE)
        wait_s = min(int(parameters.get("timeout") or 0), POLL_S_MAX)
        try:
            async with asyncio.timeout(wait_s):
                await world.changed.until(lambda: bool(world.updates) or self._poll != mine)
        except TimeoutError:
            return []
        if self._poll != mine:
            raise TelegramRefusal(409, CONFLICT)
        return _ordered([dict(one) for one in world.updates[:limit]], order)

    async def _file(self, request: web.Request) -> web.StreamResponse:
        file_id, _, path = request.match_info["path"].partition("/")
        known = self.world.files.get(file_id)
        if request.match_info["token"] != self.token or known is None or known[0] != path:
            return _response(failure(404, "Not Found"))
        return web.Response(body=known[1])


def _ordered(updates: list[dict[str, Any]], order: Order) -> list[dict[str, Any]]:
    match order:
        case "as sent":
            return updates
        case "reversed":
            return updates[::-1]
        case "doubled":
            return [one for one in updates for _ in range(2)]


def _response(body: Mapping[str, object]) -> web.Response:
    status = 200 if body["ok"] else int(str(body["error_code"]))
    return web.json_response(body, status=status)


async def _parameters(request: web.Request) -> dict[str, Any]:
    """What the request asks for, however it is encoded; raises ValueError."""
    kind = request.content_type
    if kind == "application/json":
        found: Any = json.loads(await request.read() or b"{}")
        if not isinstance(found, dict):
            raise ValueError("no object")
        return dict(request.query) | found
    given: dict[str, Any] = dict(request.query)
    if kind == "multipart/form-data":
        async for part in await request.multipart():
            assert isinstance(part, BodyPartReader)
            name = part.name or ""
            given[name] = (part.filename, bytes(await part.read())) if part.filename else await part.text()
    elif request.can_read_body:
        given |= {key: str(value) for key, value in (await request.post()).items()}
    return {key: _decoded(key, value) for key, value in _attached(given).items()}


def _attached(given: dict[str, Any]) -> dict[str, Any]:
    """A file that is named as `attach://NAME` is the part with this name."""
    named = {
        key: given[value.removeprefix("attach://")]
        for key, value in given.items()
        if isinstance(value, str)
        and value.startswith("attach://")
        and value.removeprefix("attach://") in given
    }
    return given | named


def _decoded(key: str, value: Any) -> Any:
    return json.loads(value) if key in _JSON_FIELDS and isinstance(value, str) else value


def texts_of(calls: Sequence[Call]) -> list[str]:
    """What these requests said."""
    return [str(call.parameters.get("text", "")) for call in calls]
