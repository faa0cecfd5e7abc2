"""The gateway of the fake Discord: hello, identify, heartbeats, dispatches with a sequence, and resuming."""

import asyncio
import json
import zlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from aiohttp import WSMsgType, web

from fakes.discord import shapes
from fakes.discord.faults import DiscordAnswer, answered
from fakes.discord.sessions import ALL_INTENTS, GUILDS, GatewaySession
from fakes.discord.shapes import DIRECT, GUILD_ID, MESSAGE_CONTENT, TEXT, THREAD
from fakes.discord.world import DiscordWorld
from fakes.exchanges import Exchange, Scripts

DISPATCH, HEARTBEAT, IDENTIFY, RESUME, RECONNECT, INVALID, HELLO, ACK = 0, 1, 2, 6, 7, 9, 10, 11
_NAMES = {HEARTBEAT: "heartbeat", IDENTIFY: "identify", RESUME: "resume"}
_NOT_AUTHENTICATED, _WRONG_TOKEN, _ALREADY, _WRONG_SEQUENCE = 4003, 4004, 4005, 4007
_INVALID_INTENTS, _DISALLOWED_INTENTS = 4013, 4014
MESSAGE_BYTES_MAX = 4096
CLOSE_CODES = 4000


class Gateway:
    """Accepts sockets; `heartbeat_s` is how often it wants to hear of them."""

    def __init__(
        self, world: DiscordWorld, scripts: Scripts, token: str, *, heartbeat_s: float = 41.25
    ) -> None:
        self.url = ""
        self.heartbeat_s = heartbeat_s
        self.heard: list[dict[str, Any]] = []  # what clients sent, without tokens
        self._world = world
        self._scripts = scripts
        self._token = token

    async def connect(self, request: web.Request) -> web.StreamResponse:
        """One socket, until it is closed."""
        socket = web.WebSocketResponse(max_msg_size=MESSAGE_BYTES_MAX)
        await socket.prepare(request)
        connection = _Connection(self, socket, request)
        await connection.run()
        return socket

    def note(self, payload: Mapping[str, Any]) -> None:
        """Remember what a client said."""
        data: Any = payload.get("d")
        if isinstance(data, dict):
            said = cast("dict[str, Any]", data)
            data = {key: value for key, value in said.items() if key != "token"}
        self.heard.append({"op": payload.get("op"), "d": data})
        del self.heard[:-10_000]
        self._world.changed.notify()

    @property
    def world(self) -> DiscordWorld:
        """What is known."""
        return self._world

    @property
    def scripts(self) -> Scripts:
        """What goes wrong."""
        return self._scripts

    def is_right(self, token: object) -> bool:
        """Whether this is the bot's token."""
        return str(token).removeprefix("Bot ") == self._token


class _Connection:
    """One socket of a client."""

    def __init__(self, gateway: Gateway, socket: web.WebSocketResponse, request: web.Request) -> None:
        self._gateway = gateway
        self._socket = socket
        self._request = request
        self._packer = zlib.compressobj() if request.query.get("compress") == "zlib-stream" else None
        self._session: GatewaySession | None = None
        self._sent = 0
        sessions = gateway.world.sessions
        self._drops, self._reconnects = sessions.drops, sessions.reconnects

    async def run(self) -> None:
        """Say hello, then read and dispatch until the socket is closed."""
        sessions = self._gateway.world.sessions
        sessions.sockets += 1
        pump = asyncio.create_task(self._pump())
        try:
            await self._send(
                {"op": HELLO, "d": {"heartbeat_interval": int(self._gateway.heartbeat_s * 1000)}}
            )
            async for message in self._socket:
                if message.type is not WSMsgType.TEXT:
                    break
                await self._heard(json.loads(message.data))
        except (ConnectionError, ValueError):
            await self._close(4002)
        finally:
            sessions.sockets -= 1
            pump.cancel()
            with suppress(asyncio.CancelledError):
                await pump
            self._gateway.world.changed.notify()

    async def _heard(self, payload: Mapping[str, Any]) -> None:
        op = payload.get("op")
        self._gateway.note(payload)
        exchange = Exchange(accept=lambda: self._carry_out(payload))
        for step in self._gateway.scripts.next(_NAMES.get(int(op or 0), str(op)), ""):
            await step.perform(exchange)
        if exchange.reset:
            self._abort()
        elif exchange.status >= CLOSE_CODES:
            await self._close(exchange.status)
        elif not exchange.is_lost and exchange.answer is None:
            await exchange.accept()

    async def _carry_out(self, payload: Mapping[str, Any]) -> DiscordAnswer:
        match payload.get("op"):
            case 1:
                await self._send({"op": ACK})
            case 2 if self._session is not None:
                await self._close(_ALREADY)
            case 2:
                await self._identify(payload.get("d") or {})
            case 6:
                await self._resume(payload.get("d") or {})
            case 3 | 4 | 8:
                pass
            case _:
                await self._close(4001)
        return answered()

    async def _identify(self, data: Mapping[str, Any]) -> None:
        world, intents = self._gateway.world, int(data.get("intents") or 0)
        if not self._gateway.is_right(data.get("token")):
            await self._close(_WRONG_TOKEN)
        elif "intents" not in data or intents & ~ALL_INTENTS:
            await self._close(_INVALID_INTENTS)
        elif intents & MESSAGE_CONTENT and not world.message_content:
            await self._close(_DISALLOWED_INTENTS)
        else:
            session = world.sessions.open(intents)
            session.add("READY", self._ready(session))
            if intents & GUILDS:
                shown = [(one.kind, one.shown()) for one in world.channels.values() if one.kind != DIRECT]
                channels = [one for kind, one in shown if kind == TEXT]
                threads = [one for kind, one in shown if kind == THREAD]
                session.add("GUILD_CREATE", shapes.guild(channels, threads))
            self._session = session
            world.changed.notify()

    def _ready(self, session: GatewaySession) -> dict[str, Any]:
        flags = shapes.application(message_content=self._gateway.world.message_content)["flags"]
        return {
            "v": 10,
            "user": self._gateway.world.bot | {"verified": True, "mfa_enabled": True, "email": None},
            "guilds": [{"id": GUILD_ID, "unavailable": True}],
            "session_id": session.session_id,
            "session_type": "normal",
            "resume_gateway_url": self._gateway.url,
            "private_channels": [],
            "relationships": [],
            "shard": [0, 1],
            "application": {"id": shapes.BOT_ID, "flags": flags},
        }

    async def _resume(self, data: Mapping[str, Any]) -> None:
        world, seq = self._gateway.world, int(data.get("seq") or 0)
        session = world.sessions.known.get(str(data.get("session_id")))
        if not self._gateway.is_right(data.get("token")):
            await self._close(_WRONG_TOKEN)
        elif session is None or seq + 1 < session.first:
            await self._send({"op": INVALID, "d": False})
        elif seq > session.seq:
            await self._close(_WRONG_SEQUENCE)
        else:
            self._sent = seq
            session.cut = ""
            session.add("RESUMED", {"_trace": ["[]"]})
            self._session = session
            world.changed.notify()

    async def _pump(self) -> None:
        """Dispatch what the session has, in order."""
        world = self._gateway.world
        while not self._socket.closed:
            await world.changed.until(self._has_work)
            if self._drops != world.sessions.drops:
                self._abort()
                return
            if self._reconnects != world.sessions.reconnects:
                self._reconnects = world.sessions.reconnects
                await self._send({"op": RECONNECT, "d": None})
            if self._session is None:
                continue
            if self._session.cut:
                how, self._session.cut = self._session.cut, ""
                await self._close(int(how)) if how.isdigit() else self._abort()
                return
            while self._session.raw:
                await self._socket.send_str(self._session.raw.pop(0))
            for event in self._session.after(self._sent):
                self._sent = event["s"]
                await self._send(event)

    def _has_work(self) -> bool:
        sessions, session = self._gateway.world.sessions, self._session
        if self._drops != sessions.drops or self._reconnects != sessions.reconnects:
            return True
        return session is not None and (bool(session.cut or session.raw) or self._sent < session.seq)

    async def _send(self, payload: Mapping[str, Any]) -> None:
        text = json.dumps({"t": None, "s": None, "d": None, **payload})
        with suppress(ConnectionError, RuntimeError):  # a peer that is gone is noticed by reading
            if self._packer is None:
                await self._socket.send_str(text)
            else:
                packed = self._packer.compress(text.encode()) + self._packer.flush(zlib.Z_SYNC_FLUSH)
                await self._socket.send_bytes(packed)

    async def _close(self, code: int) -> None:
        await self._socket.close(code=code)

    def _abort(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()
