"""A fake bridge: it passes on what people write, and shows them what the agent sends.

It calls the server at `hook` until a message is taken, each with a new signature, and refuses calls whose
signature is wrong or old. It doesn't know repeats, like a bridge whose author didn't care.
"""

import asyncio
import base64
import hmac
import json
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp import web
from msgspec import Struct

from fakes.crash import Crashed
from fakes.exchanges import Accept, Double, Exchange, PlatformStep, ResetConnection, Scripts, broken, played
from holdfast.chaos.gates import Notifier
from holdfast.interfaces.journal import JournalError

SECRET = "whsec_" + base64.b64encode(b"a secret of a bridge, 32 bytes..").decode()
AGAIN_S = 0.1
OLD_S = 300
BODY_BYTES_MAX = 64 * 1024 * 1024


class BridgeLimit(Struct, frozen=True):
    """Refuse with 429 or another status."""

    seconds: int = 1
    status: int = 429

    async def perform(self, exchange: Exchange) -> None:
        """Set the answer."""
        exchange.status, exchange.answer = self.status, {"error": "refused"}
        exchange.headers = {"Retry-After": str(self.seconds)}


WORDS: Mapping[str, Callable[..., PlatformStep]] = {"accept": Accept, "reset": ResetConnection}


def signed(body: bytes, *, id_: str, secret: str = SECRET, at_s: float | None = None) -> dict[str, str]:
    """The headers of a call."""
    at = str(int(time.time() if at_s is None else at_s))
    key = base64.b64decode(secret.removeprefix("whsec_"))
    mac = hmac.digest(key, f"{id_}.{at}.".encode() + body, "sha256")
    signature = f"v1,{base64.b64encode(mac).decode()}"
    return {"webhook-id": id_, "webhook-timestamp": at, "webhook-signature": signature}


class FakeBridge:
    """The other side of a bridge channel; an async context manager."""

    def __init__(self) -> None:
        self.secret = SECRET
        self.scripts = Scripts(WORDS)
        self.changed = Notifier()
        self.chats: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.hook = ""
        # Takes a body in place of a server, as a channel in the same process does.
        self.taker: Callable[[], Callable[[bytes], Awaitable[object]] | None] | None = None
        self.pings = 0
        self._port = 0
        self._number = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._order: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Where the agent's messages go."""
        return f"http://127.0.0.1:{self._port}/outbox"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=BODY_BYTES_MAX)
        app.router.add_post("/outbox", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        assert self._runner is not None
        await self._runner.cleanup()

    def texts(self, chat: str) -> list[str]:
        """The texts that a chat was sent."""
        return [one["text"] for one in self.chats[chat]]

    def say(self, chat: str, text: str, **more: Any) -> None:
        """Someone writes. The chat of a person is theirs, unless `user` is given."""
        self._number += 1
        update = {"id": f"u{self._number}", "chat": chat, "user": chat, "text": text} | more
        for _ in range(2 if isinstance(self.scripts.next("update", chat)[0], Double) else 1):
            task = asyncio.create_task(self._deliver(chat, json.dumps({"type": "message"} | update).encode()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _deliver(self, chat: str, body: bytes) -> None:
        """Call the server until it has the message, in the order of the chat."""
        async with self._order[chat], aiohttp.ClientSession() as http:
            is_taken = await self._is_taken(http, body)
            while not is_taken:
                await asyncio.sleep(AGAIN_S)
                is_taken = await self._is_taken(http, body)

    async def _is_taken(self, http: aiohttp.ClientSession, body: bytes) -> bool:
        try:
            if self.taker is not None:
                take = self.taker()
                return take is not None and await take(body) is not None
            headers = signed(body, id_=json.loads(body)["id"])
            async with http.post(self.hook, data=body, headers=headers) as answer:
                return answer.ok
        except (aiohttp.ClientError, TimeoutError, JournalError, Crashed, BaseExceptionGroup):
            return False

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        id_ = request.headers.get("webhook-id", "")
        at = int(request.headers.get("webhook-timestamp", "0"))
        right = signed(body, id_=id_, at_s=at)["webhook-signature"]
        is_right = hmac.compare_digest(request.headers.get("webhook-signature", ""), right)
        if not is_right or abs(at - time.time()) > OLD_S:
            return web.json_response({"error": "signature"}, status=401)
        message = json.loads(body)
        exchange = Exchange(accept=lambda: self._accept(message))
        await played(self.scripts.next(message["type"], message.get("chat", "")), exchange)
        if (response := broken(exchange, request)) is not None:
            return response
        return web.json_response(exchange.answer, status=exchange.status, headers=exchange.headers)

    async def _accept(self, message: dict[str, Any]) -> Mapping[str, object]:
        if message["type"] == "ping":
            self.pings += 1
        else:
            self.chats[message["chat"]].append(message)
        self.changed.notify()
        return {"message_id": f"b{sum(map(len, self.chats.values()))}"}
