"""The response to a relayed request: sends what its call brings while the client is there."""

import asyncio

from msgspec import Struct
from starlette.types import Receive, Scope, Send

from holdfast.features.relay.calls import DetachedCalls, RelayedCall
from holdfast.server.problems import Problem
from holdfast.server.streams.stream import Reservation, Streams

_SHUTTING_DOWN = Problem(
    503,
    "The server is shutting down. Try again in a few seconds",
    code="shutting_down",
    headers={"Retry-After": "2"},
)


class RelayTimes(Struct, frozen=True, kw_only=True):
    """How long a response is held, and how often a silent one is kept alive."""

    hold_s: float = 10.0
    keep_alive_s: float = 15.0


class RelayResponse:
    """An ASGI response. The call ends with its client, unless a repeat of the request may still join it."""

    feed = None  # it has no asides that could be due

    def __init__(
        self,
        call: RelayedCall,
        *,
        detached: DetachedCalls,
        times: RelayTimes,
        streams: Streams,
        streams_max: int,
    ) -> None:
        self.place: Reservation | None = None
        self.scope: Scope = {}
        self._relayed = call
        self._asked = call.asked
        self._buffer = call.buffer
        self._detached = detached
        self._times = times
        self._streams = streams
        self._streams_max = streams_max
        self._is_left = False
        self._was_ended = False
        loop = asyncio.get_running_loop()
        self._now_s, self._call_at = loop.time, loop.call_at
        self._sent_s = self._now_s()
        self._timer: asyncio.TimerHandle | None = None
        self._hold_until_s = self._sent_s + times.hold_s

    def end(self) -> None:
        """End the call, because the server shuts down or the key was revoked."""
        if not self._buffer.is_over:
            self._was_ended = True
            self._buffer.fail(_SHUTTING_DOWN)

    def check_now(self) -> None:
        """Nothing is due."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what the call brings, until it ends or the client leaves."""
        self.scope = scope
        self._streams.add(self, most=self._streams_max)
        watching = asyncio.ensure_future(self._until_left(receive))
        self._relayed.begin()
        if self._asked.client_streams:
            self._set_timer()
        try:
            await self._send_all(send)
        finally:
            self._streams.remove(self)
            if self._timer is not None:
                self._timer.cancel()
            watching.cancel()
            await self._leave()

    async def _until_left(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._is_left = True
        if not self._relayed.names:
            self._relayed.cancel()
        self._buffer.release_reader()

    async def _leave(self) -> None:
        """Leave the call to a repeat of the request that may join it, or else end it."""
        if self._is_left and not self._was_ended and self._detached.keep(self._relayed):
            return
        self._relayed.cancel()
        await self._relayed.ended()

    async def _send_all(self, send: Send) -> None:
        buffer = self._buffer
        began = False
        while True:
            pieces = await buffer.more(as_a_whole=not self._asked.client_streams)
            if self._is_left:
                return
            if not began:
                if buffer.head is None:
                    if buffer.is_over:
                        return  # it was ended before there was anything to say
                    continue
                began = True
                await self._send_head(send, whole=b"".join(pieces) if buffer.is_over else None)
            if pieces:
                self._sent_s = self._now_s()
                body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
                await send({"type": "http.response.body", "body": body, "more_body": True})
            if buffer.is_over and not pieces:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return

    async def _send_head(self, send: Send, *, whole: bytes | None) -> None:
        head = self._buffer.head
        assert head is not None
        headers = [(name.encode(), value.encode("latin-1")) for name, value in head.headers.items()]
        if whole is not None:
            headers.append((b"content-length", b"%d" % len(whole)))
        await send({"type": "http.response.start", "status": head.status, "headers": headers})

    def _set_timer(self) -> None:
        """Set the one timer; a stream of tokens never moves it, and it fires at the old time."""
        at_s = self._sent_s + self._times.keep_alive_s
        if self._buffer.head is None:
            at_s = min(at_s, self._hold_until_s)
        self._timer = self._call_at(at_s, self._check_times)

    def _check_times(self) -> None:
        """Begin a response that was held for long enough, and keep a silent one alive."""
        now_s = self._now_s()
        if now_s >= self._hold_until_s:
            self._asked.commit()
        if now_s >= self._sent_s + self._times.keep_alive_s:
            self._buffer.keep_alive()
            self._sent_s = now_s
        self._set_timer()
