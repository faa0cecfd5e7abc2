"""Rate limits for messages from a server: a flood loses messages and costs us little."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from types import TracebackType
from typing import Protocol, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError, JSONRPCNotification, JSONRPCResponse

MESSAGE_BYTES_MAX = 8 * 1024 * 1024
# Our own codes, for responses that we send in the server's place.
NOT_SENT = 48_001  # the server has not seen the request
CUT_OFF = 48_002  # the server may have seen the request
REFUSED = 48_003  # the server answered with an HTTP status alone
DROPPED = 48_004  # the server answered, and the answer was too much
NOT_STREAMABLE = 48_005  # there is nothing that takes messages in the current way
VALUES_MAX = 50_000
VALUES_PER_S = 100_000.0
PER_S = 200.0
BURST = 1000.0
_REST_EVERY = 100
_REST_S = 0.01
_TOOLS_CHANGED = "notifications/tools/list_changed"


class Incoming(Protocol):
    """A source of messages; raises EndOfStream or ClosedResourceError at the end."""

    async def receive(self) -> SessionMessage | Exception:
        """The next one."""
        ...

    async def aclose(self) -> None:
        """No more is wanted."""
        ...


class Outgoing(Protocol):
    """Where messages go, as the SDK's session wants it."""

    async def send(self, item: SessionMessage, /) -> None:
        """Send it; raises ClosedResourceError or BrokenResourceError."""
        ...

    async def aclose(self) -> None:
        """No more comes."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None: ...


class Allowance:
    """A token bucket: a burst, and a rate per second."""

    def __init__(self, per_s: float, *, burst: float, now_s: Callable[[], float]) -> None:
        self._per_s = per_s
        self._burst = burst
        self._now_s = now_s
        self._left = burst
        self._at_s = now_s()

    def take(self) -> bool:
        """Take one if there is one left."""
        self._refill()
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def book(self, number: float = 1.0) -> float:
        """Take this many in any case; returns how many seconds too early that is."""
        self._refill()
        self._left -= number
        return max(0.0, -self._left / self._per_s)

    def _refill(self) -> None:
        now_s = self._now_s()
        self._left = min(self._burst, self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s


class TooComplex(Exception):
    """A message that would block the loop for long."""


class Scales:
    """Limits messages before they are parsed, by their number of values.

    Text is cheap to parse, many small values are not: a few megabytes of brackets take seconds, in which the
    loop and every thread are blocked.
    """

    def __init__(self) -> None:
        now_s = asyncio.get_running_loop().time
        self._allowance = Allowance(VALUES_PER_S, burst=2 * VALUES_PER_S, now_s=now_s)

    async def weigh(self, message: bytes) -> None:
        """Wait if the server's messages have too many values; raises TooComplex if this one alone has."""
        weight = values_in(message)
        if weight > VALUES_MAX:
            raise TooComplex(f"it sent a message of more than {VALUES_MAX:,} values")
        early_s = self._allowance.book(weight)
        if early_s:
            await asyncio.sleep(early_s)


def values_in(message: bytes) -> int:
    """Roughly how many values the JSON has, not counting strings' contents."""
    bare = message.replace(b"\\\\", b"").replace(b'\\"', b"")
    strings = bare.count(b'"') // 2
    if strings > VALUES_MAX:
        return strings
    outside = b"".join(bare.split(b'"')[::2])
    return max(strings, sum(map(outside.count, (b",", b"[", b"{"))))


class Metered:
    """The stream that the SDK's session reads.

    Responses always pass. Unsolicited messages pass within an allowance; more are dropped, and reading slows
    down, since the SDK creates a task for each message. Tool list changes are never lost: each is reported to
    `tools_changed` and not passed on.
    """

    def __init__(
        self, source: Incoming, *, tools_changed: Callable[[], None], over: Callable[[], None]
    ) -> None:
        self._source = source
        self._tools_changed = tools_changed
        self._over = over
        self._allowance = Allowance(PER_S, burst=BURST, now_s=asyncio.get_running_loop().time)
        self.dropped = 0

    @property
    def last_context(self) -> Context | None:
        """The context that the newest message belongs to: over HTTP, that of the call it came with."""
        return getattr(self._source, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """The next message that passes."""
        while True:
            try:
                item = await self._source.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                self._over()
                raise
            if self._passes(item):
                return item
            if self.dropped % _REST_EVERY == 0:
                await asyncio.sleep(_REST_S)

    async def aclose(self) -> None:
        """No more is wanted."""
        await self._source.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()

    def _passes(self, item: SessionMessage | Exception) -> bool:
        if isinstance(item, SessionMessage):
            message = item.message
            if isinstance(message, JSONRPCResponse | JSONRPCError):
                return True
            if isinstance(message, JSONRPCNotification) and message.method == _TOOLS_CHANGED:
                self._tools_changed()
                self.dropped += 1
                return False
        if self._allowance.take():
            return True
        self.dropped += 1
        return False
