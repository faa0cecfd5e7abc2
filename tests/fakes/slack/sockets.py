"""Socket Mode: envelopes over WebSockets, told again until they are acknowledged, and lost as by Slack."""

import asyncio
import json
import math
from typing import Any

from aiohttp import WSMsgType, web
from msgspec import Struct, field

from fakes.exchanges import Exchange, Scripts
from holdfast.chaos.gates import Notifier

ACK_S = 3.0
RETRIES_MAX = 3
OPEN_MAX = 10
LATE_S = 1.0  # how long one that is told in another order waits for the next
WAITING_MAX = 10_000


class Envelope(Struct):
    """Something that Slack tells the app, until it is acknowledged."""

    envelope_id: str
    kind: str
    payload: dict[str, Any]
    told: int = 0
    due_s: float = 0.0
    ignores_acknowledgement: bool = False
    socket: web.WebSocketResponse | None = None
    reason: str = ""  # why it is told again, if it is told by calls

    def frame(self) -> str:
        """What goes over the socket."""
        shown: dict[str, Any] = {
            "envelope_id": self.envelope_id,
            "type": self.kind,
            "payload": self.payload,
            "accepts_response_payload": self.kind != "events_api",
        }
        if self.kind == "events_api":
            shown |= {"retry_attempt": self.told, "retry_reason": "timeout" if self.told else ""}
        return json.dumps(shown)


class SlackSockets(Struct):
    """All sockets of the app. While none is open, what happens is lost to it."""

    scripts: Scripts
    changed: Notifier
    ack_s: float = ACK_S
    open: dict[web.WebSocketResponse, asyncio.Transport | None] = field(
        default_factory=dict[web.WebSocketResponse, asyncio.Transport | None]
    )
    waiting: dict[str, Envelope] = field(default_factory=dict[str, Envelope])
    lost: list[Envelope] = field(default_factory=list[Envelope])
    acknowledged: list[Envelope] = field(default_factory=list[Envelope])
    _number: int = 0
    _turn: int = 0
    _held: Envelope | None = None  # told after the one that follows
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, kind: str, payload: dict[str, Any]) -> None:
        """Tell the app; nothing waits for a socket."""
        self._number += 1
        envelope = Envelope(f"envelope-{self._number}", kind, payload)
        if not self.open:
            self._lose(envelope)
            return
        del self.acknowledged[: max(0, len(self.acknowledged) - WAITING_MAX)]
        self.waiting[envelope.envelope_id] = envelope
        self._woken.set()

    async def run(self) -> None:
        """Send what is due, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._woken.clear()
            for envelope in list(self.waiting.values()):
                if envelope.due_s <= loop.time():
                    await self._send(envelope)
            times = [one.due_s for one in self.waiting.values() if one.due_s != math.inf]
            try:
                async with asyncio.timeout_at(min(times, default=None)):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def _send(self, envelope: Envelope) -> None:
        if not self.open and envelope.told:
            envelope.due_s = math.inf  # until there is a socket again
            return
        if not self.open or envelope.told > RETRIES_MAX:
            del self.waiting[envelope.envelope_id]
            self._lose(envelope)
            return
        exchange = Exchange(accept=_nothing)
        for step in () if envelope is self._held else self.scripts.next("event", envelope.kind):
            await step.perform(exchange)
        if exchange.is_lost:
            del self.waiting[envelope.envelope_id]
            self._lose(envelope)
            return
        if exchange.order == "reversed" and self._held is None:
            self._held, envelope.due_s = envelope, asyncio.get_running_loop().time() + LATE_S
            return
        if self._held is not None and envelope is not self._held:
            self._held.due_s = 0.0
            self._woken.set()
        else:
            self._held = None
        self._turn += 1
        socket = list(self.open)[self._turn % len(self.open)]
        envelope.socket, envelope.ignores_acknowledgement = socket, exchange.ignores_acknowledgement
        frame = envelope.frame()
        envelope.due_s = asyncio.get_running_loop().time() + self.ack_s
        envelope.told += 1
        if exchange.reset:
            await self.cut(socket)
            return
        try:
            for _ in range(2 if exchange.order == "doubled" else 1):
                await socket.send_str(frame)
        except ConnectionError:
            self._closed(socket)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """One socket, until it closes."""
        socket = web.WebSocketResponse(heartbeat=None)
        await socket.prepare(request)
        if len(self.open) >= OPEN_MAX:
            await socket.send_str(json.dumps({"type": "disconnect", "reason": "too_many_websockets"}))
            await socket.close()
            return socket
        await socket.send_str(_hello(len(self.open) + 1))
        self.open[socket] = request.transport
        self._try_again(None)
        self.changed.notify()
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    self._acknowledge(json.loads(message.data))
        finally:
            self._closed(socket)
        return socket

    async def refresh(self) -> None:
        """Ask every socket to be replaced, as Slack does every few hours, and close it a moment later."""
        sockets = list(self.open)
        for socket in sockets:
            await socket.send_str(json.dumps({"type": "disconnect", "reason": "refresh_requested"}))
        await self.changed.until(lambda: any(one not in sockets for one in self.open) or not self.open)
        for socket in sockets:
            await socket.close()

    async def cut(self, *sockets: web.WebSocketResponse) -> None:
        """Drop these sockets, or all, without a word."""
        for socket in sockets or tuple(self.open):
            transport = self.open.get(socket)
            if transport is not None:
                transport.abort()
            self._closed(socket)

    def _acknowledge(self, frame: dict[str, Any]) -> None:
        envelope = self.waiting.get(str(frame.get("envelope_id")))
        if envelope is None or envelope.ignores_acknowledgement:
            return
        del self.waiting[envelope.envelope_id]
        self.acknowledged.append(envelope)
        self.changed.notify()

    def _closed(self, socket: web.WebSocketResponse) -> None:
        """What this socket left unacknowledged goes to another one, now or later."""
        self.open.pop(socket, None)
        self._try_again(socket)
        self.changed.notify()

    def _try_again(self, socket: web.WebSocketResponse | None) -> None:
        """Send at once what waits for this socket, or for any."""
        for envelope in self.waiting.values():
            if envelope.due_s == math.inf or (socket is not None and envelope.socket is socket):
                envelope.due_s = 0.0
        self._woken.set()

    def _lose(self, envelope: Envelope) -> None:
        self.lost.append(envelope)
        self.changed.notify()


async def _nothing() -> dict[str, object]:
    return {}


def _hello(count: int) -> str:
    info = {"host": "fake", "started": "now", "build_number": 1, "approximate_connection_time": 3600}
    hello = {"type": "hello", "num_connections": count, "debug_info": info}
    return json.dumps(hello | {"connection_info": {"app_id": "A0FAKE"}})
