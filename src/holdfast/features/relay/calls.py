"""A relayed call in progress, independent of its client's connection, so that a retry can join it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus

from starlette.requests import Request

from holdfast.features.relay.requests import RelayedRequest
from holdfast.features.relay.response_buffer import ResponseBuffer
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.model import Answer, NoAnswer
from holdfast.server.problems import Problem, problem_of
from holdfast.server.transport.once import COUNT_HEADER, Abandoned, is_repeat, request_name
from holdfast.values import FailureKind

CLIENT_LEFT = "the client disconnected"
ERRORS = range(400, 600)
# The client's error if the provider sent none.
_STATUSES: dict[FailureKind, int] = {
    "rate_limited": HTTPStatus.TOO_MANY_REQUESTS,
    "no_first_event": HTTPStatus.GATEWAY_TIMEOUT,
    "stalled": HTTPStatus.GATEWAY_TIMEOUT,
    "upload_stalled": HTTPStatus.GATEWAY_TIMEOUT,
    "local_bug": HTTPStatus.INTERNAL_SERVER_ERROR,
}

_STOPPED = Problem(409, "This call was stopped", code="stopped", headers={"X-Should-Retry": "false"})


class RelayedCall:
    """One call with its answer; `names` are those under which a repeat of the request finds it."""

    def __init__(
        self,
        asked: RelayedRequest,
        buffer: ResponseBuffer,
        *,
        make: Callable[[], Awaitable[Answer | NoAnswer]],
        names: Sequence[str] = (),
    ) -> None:
        self.asked = asked
        self.buffer = buffer
        self.names = names
        self._make = make
        self._task: asyncio.Task[None] | None = None
        self._is_cancelled = False

    def begin(self) -> None:
        """Make the call, unless that has begun."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="relay a call")

    def cancel(self) -> None:
        """End the call, unless its answer is whole: the upstream connection closes at once."""
        if self._task is not None and not self.buffer.is_whole and not self._is_cancelled:
            self._is_cancelled = True  # once: how it ended is written down meanwhile
            self._task.cancel(CLIENT_LEFT)

    async def ended(self) -> None:
        """Wait until the call is over and on record."""
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            ended = await self._make()
        except asyncio.CancelledError:
            self.buffer.fail(_STOPPED)
            raise
        except Exception as error:  # noqa: BLE001  # it's logged there, and reported to the client
            self.buffer.fail(problem_of(error))
            return
        if isinstance(ended, NoAnswer):
            self._fail(ended)
        else:
            self.buffer.finish()

    def _fail(self, ended: NoAnswer) -> None:
        """Tell the client what the provider said, or else what happened."""
        newest = self.asked.newest
        if newest is not None and newest.has_provider_error and (newest.said or self.buffer.head is None):
            newest.show_failure()
            self.buffer.finish()
        else:
            self.buffer.fail(problem_of_call(ended))


def problem_of_call(ended: NoAnswer) -> Problem:
    """Return the error of a call without a provider's error.

    It tells packages with automatic retries not to retry: all attempts have been made.
    """
    said = ended.failure.status
    status = said if said in ERRORS else _STATUSES.get(ended.failure.kind, HTTPStatus.BAD_GATEWAY)
    headers = {"X-Should-Retry": "false"}
    if ended.wait_ms is not None:
        headers = {"Retry-After": str(-(-ended.wait_ms // 1000))}
    return Problem(status, ended.failure.text, code=ended.failure.kind, headers=headers)


class DetachedCalls:
    """Calls whose client has left: each lives a little longer, and one repeat of its request may join it."""

    def __init__(self, clock: Clock, *, join_s: float) -> None:
        self._join_s = join_s
        self._calls = Abandoned[RelayedCall](clock, kept_s=join_s, drop=RelayedCall.cancel)
        self._timers: dict[RelayedCall, asyncio.TimerHandle] = {}

    def keep(self, call: RelayedCall) -> bool:
        """Keep a call that can be joined from its beginning; False if it can't."""
        if not call.names or not call.buffer.can_replay:
            return False
        for name in call.names:
            self._calls.put(name, call)
        self._timers[call] = asyncio.get_running_loop().call_later(self._join_s, self._end, call)
        return True

    def take(self, names: Sequence[str]) -> RelayedCall | None:
        """Return and claim the call that a request with these names can join."""
        found = [call for name in names if (call := self._calls.take(name)) is not None]
        for call in found:
            timer = self._timers.pop(call, None)
            if timer is not None:
                timer.cancel()
                for name in call.names:
                    self._calls.take(name)
                if call.buffer.can_replay:
                    call.buffer.replay()
                    return call
                call.cancel()
        return None

    async def close(self) -> None:
        """End the calls that no retry has joined."""
        left = list(self._timers)
        for call in left:
            self._timers[call].cancel()
            self._end(call)
        for call in left:
            await call.ended()

    def _end(self, call: RelayedCall) -> None:
        self._timers.pop(call, None)
        call.cancel()


def names_to_join(request: Request, body: bytes) -> list[str]:
    """The names under which this request finds a call: a repeat by its bytes, any other by its key alone."""
    return [*_by_key(request, body), *([request_name(request, body)] if is_repeat(request) else [])]


def names_to_keep(request: Request, body: bytes) -> list[str]:
    """The names under which a repeat of this request would find its call; empty if none would."""
    repeats = COUNT_HEADER in request.headers  # the packages that repeat requests always count
    return [*_by_key(request, body), *([request_name(request, body)] if repeats else [])]


def _by_key(request: Request, body: bytes) -> list[str]:
    """The same key for another body is another request."""
    key = request.headers.get("idempotency-key", "")
    return [request_name(request, b"\0".join([key.encode("utf-8", "surrogateescape"), body]))] if key else []
