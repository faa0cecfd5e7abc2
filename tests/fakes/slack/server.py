"""The fake Slack: Web API, Socket Mode and calls on loopback, with scripted faults and a record of all.

    async with FakeSlack() as slack:
        slack.scripts.add("chat.postMessage", [Accept(), ResetConnection()])   # arrives, the answer is lost
        slack.world.say("D42", "hello")                                        # U42 writes to the bot
        ...                                              # point your app at slack.api_url, with both tokens

With `slack.hook.url`, it calls the app there instead of telling it over sockets.
Apps written with slack-sdk reach it with `AsyncWebClient(base_url=slack.api_url)`.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from fakes.exchanges import Exchange, Scripts, broken, played
from fakes.slack.faults import WORDS, slack_failure
from fakes.slack.hook import REPEATS_S, SlackHook
from fakes.slack.methods import JSON_METHODS, METHODS, SlackRefusal
from fakes.slack.sockets import ACK_S, Envelope, SlackSockets
from fakes.slack.world import APP, TEAM, SlackCall, SlackWorld

BOT_TOKEN = "xoxb-fake-token"  # noqa: S105  # nothing real is behind it
APP_TOKEN = "xapp-fake-token"  # noqa: S105  # nothing real is behind it
SIGNING_SECRET = "fake-signing-secret"  # noqa: S105  # nothing real is behind it
BODY_BYTES_MAX = 60 * 1024 * 1024
OPEN = "apps.connections.open"


class FakeSlack:
    """A Slack workspace with one app; an async context manager.

    `repeats_s` are the pauses before a call that wasn't answered is repeated.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        ack_s: float = ACK_S,
        repeats_s: Sequence[float] = REPEATS_S,
    ) -> None:
        self.token = BOT_TOKEN
        self.app_token = APP_TOKEN
        self.signing_secret = SIGNING_SECRET
        self.world = SlackWorld()
        self.scripts = Scripts(WORDS)
        self.sockets = SlackSockets(self.scripts, self.world.changed, ack_s)
        self.hook = SlackHook(self.scripts, self.world.changed, SIGNING_SECRET, ack_s, repeats_s)
        self.world.tell = self._tell
        self._host = host
        self._port = port
        self._runner: web.AppRunner | None = None
        self._telling: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://{self._host}:{self._port}"

    @property
    def api_url(self) -> str:
        """The base URL for apps."""
        return f"{self.url}/api/"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=BODY_BYTES_MAX)
        app.router.add_route("*", "/api/{method}", self._answer)
        app.router.add_get("/link/", self.sockets.serve)
        app.router.add_get("/files-pri/{path:.+}", self._file)
        app.router.add_post("/upload/v1/{file}", self._upload)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self.world.url = self.url
        self._telling = asyncio.create_task(self.sockets.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._telling is not None
        self._telling.cancel()
        await asyncio.wait([self._telling])
        await self.hook.close()
        await self.sockets.cut()
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def waiting(self) -> int:
        """How much of what happened the app hasn't acknowledged yet."""
        return len(self.sockets.waiting) + len(self.hook.waiting)

    @property
    def lost(self) -> list[Envelope]:
        """What the app was never told, or never acknowledged."""
        return [*self.sockets.lost, *self.hook.lost]

    def _tell(self, kind: str, payload: dict[str, Any]) -> None:
        """Tell the app, by calls if it has an address for them, or else over its sockets."""
        (self.hook if self.hook.url else self.sockets).tell(kind, payload)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        try:
            arguments = await _arguments(request, method)
        except ValueError:
            return web.json_response(slack_failure("invalid_json"))
        token = request.headers.get("Authorization", "").removeprefix("Bearer ") or arguments.get("token")
        if token != (self.app_token if method == OPEN else self.token):
            return web.json_response(slack_failure("invalid_auth" if token else "not_authed"))
        exchange = Exchange(accept=lambda: self._carry_out(method, arguments))
        await played(self.scripts.next(method, str(arguments.get("channel", ""))), exchange)
        if exchange.answer is not None and not exchange.answer["ok"]:
            self.world.record(SlackCall(method, arguments, str(exchange.answer["error"])))
        if (response := broken(exchange, request)) is not None:
            return response
        headers = {"X-OAuth-Scopes": ",".join(self.world.scopes), **exchange.headers}
        return web.json_response(exchange.answer, status=exchange.status, headers=headers)

    async def _carry_out(self, method: str, arguments: Mapping[str, Any]) -> dict[str, object]:
        try:
            if method == OPEN:
                address = f"ws://{self._host}:{self._port}/link/?ticket={self.world.tick()}&app_id={APP}"
                result: dict[str, Any] = {"url": address}
            elif method in METHODS:
                result = await METHODS[method](self.world, arguments)
            else:
                return slack_failure("unknown_method")
        except SlackRefusal as error:
            return slack_failure(str(error))
        self.world.record(SlackCall(method, arguments, "done", str(result.get("ts", ""))))
        return {"ok": True, **result}

    async def _file(self, request: web.Request) -> web.StreamResponse:
        """A file, for those with the token; others are sent to the page where people sign in, as by Slack."""
        name = request.match_info["path"].removeprefix("download/").split("/")[0]
        file_id = name.removeprefix(f"{TEAM}-")
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            raise web.HTTPFound(f"{self.url}/?redir=files")
        if file_id not in self.world.contents:
            raise web.HTTPNotFound
        return web.Response(body=self.world.contents[file_id])

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        """Get a file's bytes; scripts name it `upload`."""
        file_id, data = request.match_info["file"], await request.read()
        if file_id not in self.world.files:
            raise web.HTTPNotFound
        exchange = Exchange(accept=lambda: self._keep(file_id, data))
        await played(self.scripts.next("upload", ""), exchange)
        if (response := broken(exchange, request)) is not None:
            return response
        assert exchange.answer is not None
        text = f"OK - {len(data)}" if exchange.answer["ok"] else str(exchange.answer["error"])
        return web.Response(text=text, status=exchange.status, headers=exchange.headers)

    async def _keep(self, file_id: str, data: bytes) -> dict[str, object]:
        self.world.contents[file_id] = data
        self.world.files[file_id]["size"] = len(data)
        return {"ok": True}


async def _arguments(request: web.Request, method: str) -> dict[str, Any]:
    """What the request asks for, however it is encoded; raises ValueError."""
    given: dict[str, Any] = dict(request.query)
    if request.content_type == "application/json":
        found: Any = json.loads(await request.read() or b"{}")
        if not isinstance(found, dict):
            raise ValueError("no object")
        return given | (dict(found) if method in JSON_METHODS else {})  # pyright: ignore[reportUnknownArgumentType]
    if request.can_read_body:
        given |= {key: str(value) for key, value in (await request.post()).items()}
    return given
