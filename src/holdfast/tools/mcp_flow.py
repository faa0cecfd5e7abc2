"""What comes from a server, metered: a flood of messages costs the server its messages, and us little."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError, JSONRPCNotification, JSONRPCResponse

MESSAGE_BYTES_MAX = 8 * 1024 * 1024
PER_S = 200.0
BURST = 1000.0
_REST_EVERY = 100
_REST_S = 0.01
_TOOLS_CHANGED = "notifications/tools/list_changed"


class Incoming(Protocol):
    """Where messages come from; raises EndOfStream or ClosedResourceError when there are no more."""

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
    """So many at once, and so many per second."""

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

    def book(self) -> float:
        """Take one in any case, and say how many seconds it is too early."""
        self._refill()
        self._left -= 1
        return max(0.0, -self._left / self._per_s)

    def _refill(self) -> None:
        now_s = self._now_s()
        self._left = min(self._burst, self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s


class Metered:
    """The stream that the SDK's session reads.

    Answers always pass. The rest, which nobody asked for, passes within an allowance; beyond it is dropped,
    and reading slows down, since the SDK makes a task of each message. That the tools changed is never lost:
    it is told to `tools_changed` however often it comes, and goes no further.
    """

    def __init__(
        self, source: Incoming, *, tools_changed: Callable[[], None], over: Callable[[], None]
    ) -> None:
        self._source = source
        self._tools_changed = tools_changed
        self._over = over
        self._allowance = Allowance(PER_S, burst=BURST, now_s=asyncio.get_running_loop().time)
        self.dropped = 0

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
