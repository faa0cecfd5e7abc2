"""The response to a relayed request: runs the call while its client is there, and sends what it brings."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus

from starlette.types import Receive, Scope, Send

from holdfast.interfaces.model import Answer, NoAnswer
from holdfast.server.problems import Problem, problem_of
from holdfast.server.relay.output import RelayOutput
from holdfast.server.relay.requests import RelayedRequest
from holdfast.server.streams.stream import Reservation, Streams
from holdfast.values import FailureKind

_log = logging.getLogger(__name__)
CLIENT_LEFT = "the client left"
ERRORS = range(400, 600)
# What the client is told if the provider itself said nothing.
_STATUSES: dict[FailureKind, int] = {
    "rate_limited": HTTPStatus.TOO_MANY_REQUESTS,
    "no_first_event": HTTPStatus.GATEWAY_TIMEOUT,
    "stalled": HTTPStatus.GATEWAY_TIMEOUT,
    "upload_stalled": HTTPStatus.GATEWAY_TIMEOUT,
    "local_bug": HTTPStatus.INTERNAL_SERVER_ERROR,
}
_SHUTTING_DOWN = Problem(
    503,
    "The server is shutting down. Try again in a few seconds",
    code="shutting_down",
    headers={"Retry-After": "2"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayTimes:
    """How long a response is held, and how often a silent one is kept alive."""

    hold_s: float = 10.0
    keep_alive_s: float = 15.0


class RelayResponse:
    """An ASGI response. The call ends with its client: the upstream connection closes at once."""

    feed = None  # it has no asides that could be due

    def __init__(
        self,
        asked: RelayedRequest,
        output: RelayOutput,
        *,
        call: Callable[[], Awaitable[Answer | NoAnswer]],
        times: RelayTimes,
        streams: Streams,
        streams_max: int,
    ) -> None:
        self.place: Reservation | None = None
        self.scope: Scope = {}
        self._asked = asked
        self._output = output
        self._call = call
        self._times = times
        self._streams = streams
        self._streams_max = streams_max
        self._calling: asyncio.Future[Answer | NoAnswer] | None = None
        self._now_s = asyncio.get_running_loop().time
        self._sent_s = self._now_s()
        self._timers: list[asyncio.TimerHandle] = []

    def end(self) -> None:
        """End the call, because the server shuts down or the key was revoked."""
        if not self._output.is_over:
            self._output.fail(_SHUTTING_DOWN)

    def check_now(self) -> None:
        """Nothing is due."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what the call brings, until it ends or the client leaves."""
        self.scope = scope
        self._streams.add(self, most=self._streams_max)
        watching = asyncio.ensure_future(self._until_left(receive))
        calling = self._calling = asyncio.ensure_future(self._run())
        self._set_timers()
        try:
            await self._send_all(send)
        finally:
            self._streams.remove(self)
            for timer in self._timers:
                timer.cancel()
            watching.cancel()
            if not self._output.is_whole:
                calling.cancel(CLIENT_LEFT)
            await asyncio.wait({watching, calling})

    async def _until_left(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        if self._calling is not None and not self._output.is_whole:
            self._calling.cancel(CLIENT_LEFT)
        self._output.finish()

    async def _run(self) -> Answer | NoAnswer:
        try:
            ended = await self._call()
        except Exception as error:
            self._output.fail(problem_of(error))
            raise
        if isinstance(ended, NoAnswer):
            self._fail(ended)
        else:
            self._output.finish()
        return ended

    def _fail(self, ended: NoAnswer) -> None:
        """Tell the client what the provider said, or else what happened."""
        newest = self._asked.newest
        if newest is not None and newest.has_provider_error and (newest.said or self._output.head is None):
            newest.show_failure()
            self._output.finish()
        else:
            self._output.fail(problem_of_call(ended))

    async def _send_all(self, send: Send) -> None:
        output = self._output
        began = False
        while True:
            pieces = await output.more(as_a_whole=not self._asked.client_streams)
            if not began:
                if output.head is None:
                    if output.is_over:
                        return  # the client left before there was anything to say
                    continue
                began = True
                await self._send_head(send, whole=b"".join(pieces) if output.is_over else None)
            if pieces:
                self._sent_s = self._now_s()
                body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
                await send({"type": "http.response.body", "body": body, "more_body": True})
            if output.is_over and not pieces:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return

    async def _send_head(self, send: Send, *, whole: bytes | None) -> None:
        head = self._output.head
        assert head is not None
        headers = [(name.encode(), value.encode("latin-1")) for name, value in head.headers.items()]
        if whole is not None:
            headers.append((b"content-length", b"%d" % len(whole)))
        await send({"type": "http.response.start", "status": head.status, "headers": headers})

    def _set_timers(self) -> None:
        if self._asked.client_streams:
            later = asyncio.get_running_loop().call_later
            self._timers = [
                later(self._times.hold_s, self._asked.commit),
                later(self._times.keep_alive_s, self._keep_alive),
            ]

    def _keep_alive(self) -> None:
        """Send a keep-alive if nothing was sent for a while; a stream of tokens never moves this timer."""
        silent_s = self._now_s() - self._sent_s
        left_s = self._times.keep_alive_s - silent_s
        if left_s <= 0:
            self._output.keep_alive()
            left_s = self._times.keep_alive_s
        self._timers[1] = asyncio.get_running_loop().call_later(left_s, self._keep_alive)


def problem_of_call(ended: NoAnswer) -> Problem:
    """Why a call has no answer, if its provider has said nothing about it.

    Packages that would ask again by themselves are told not to: all attempts have been made.
    """
    said = ended.failure.status
    status = said if said in ERRORS else _STATUSES.get(ended.failure.kind, HTTPStatus.BAD_GATEWAY)
    headers = {"X-Should-Retry": "false"}
    if ended.wait_ms is not None:
        headers = {"Retry-After": str(-(-ended.wait_ms // 1000))}
    return Problem(status, ended.failure.text, code=ended.failure.kind, headers=headers)
