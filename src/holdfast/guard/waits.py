"""The waits of one guarded exchange, each with its own timer, and its upload, which reports progress."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

import httpcore2
import httpx2

from holdfast.decisions.deadlines import (
    ClockReading,
    Deadline,
    Deadlines,
    Sign,
    State,
    Watch,
    begin,
    next_deadline,
    step,
    wake,
)
from holdfast.interfaces.system_clock import steady_s
from holdfast.models.unsent_bytes import unsent_bytes

T = TypeVar("T")

PIECE_BYTES = 64 * 1024
CHECK_FIRST_S = 0.002
CHECK_LAST_S = 0.1
CONNECTED = "connection.connect_tcp.complete"  # the trace hook that hands out the new connection
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 seconds: close with a reset, and discard unsent data


class DeadlinePassed(Exception):
    """A wait was ended because its deadline had passed."""

    def __init__(self, deadline: Deadline, state: State) -> None:
        super().__init__(deadline.says)
        self.deadline = deadline
        self.state = state


class DeadlineWatch:
    """Watches one exchange through its waits; the time that the reader takes between them does not count.

    A wait belongs to the task that starts it; a later wait may belong to another task. Outside a wait
    there is neither a timer nor a cancel scope.
    """

    def __init__(self, deadlines: Deadlines, *, before_kill: Callable[[Deadline], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._watch = begin(deadlines, self._loop.time())
        self._paused_at_s = self._watch.since_s
        self._before_kill = before_kill
        self._scope: asyncio.Timeout | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._armed = self._read()
        self._passed: Deadline | None = None

    @property
    def state(self) -> State:
        """Where the exchange is."""
        return self._watch.state

    async def wait(self, waited: Awaitable[T]) -> T:
        """Wait for the peer; raises DeadlinePassed, and what the wait itself raises."""
        self._resume()
        try:
            async with asyncio.timeout(None) as self._scope:
                self._arm()
                return await waited
        except TimeoutError:
            if self._passed is None:
                raise
            raise DeadlinePassed(self._passed, self.state) from None
        finally:
            self._disarm()
            self._scope = self._passed = None
            self._paused_at_s = self._loop.time()

    def sign(self, sign: Sign) -> None:
        """Note a sign of progress."""
        moved = step(self._watch, sign, now_s=self._loop.time())
        if moved is not self._watch:
            self._watch = moved
            if self._scope is not None:
                self._arm()

    def _resume(self) -> None:
        watch, now_s = self._watch, self._loop.time()
        since_s = min(now_s, watch.since_s + (now_s - self._paused_at_s))
        self._watch = Watch(watch.deadlines, watch.state, since_s, watch.rearmed)

    def _arm(self) -> None:
        self._disarm()
        deadline = next_deadline(self._watch)
        if deadline is not None:
            self._armed = self._read()
            self._timer = self._loop.call_at(deadline.at_s, self._check)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = None
        found = wake(self._watch, armed=self._armed, woke=self._read())
        if isinstance(found, Deadline):
            assert self._scope is not None, "a timer runs only within a wait"
            self._passed = found
            self._before_kill(found)
            self._scope.reschedule(self._loop.time())
        else:
            self._watch = found
            self._arm()

    def _read(self) -> ClockReading:
        return ClockReading(self._loop.time(), steady_s())


class WatchedUpload(httpx2.AsyncByteStream):
    """The body of a request, sent in pieces, reporting each piece that the kernel took to the watch.

    Any transport shows by reading the body that it is connected. httpx2's own also reports through its trace
    hook which socket it opened, and then a request counts as sent when the kernel has sent it. On a reused
    connection the socket is not known, and it is enough that the kernel has taken everything.
    """

    def __init__(self, body: httpx2.AsyncByteStream, deadlines: Deadlines) -> None:
        self.watch = DeadlineWatch(deadlines, before_kill=self._throw_away)
        self._body = body
        self._socket: socket.socket | None = None
        self._next_check: asyncio.TimerHandle | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.watch.sign(Sign.CONNECTED)
        sent_bytes = 0
        async for piece in self._body:
            for start in range(0, len(piece), PIECE_BYTES):
                yield piece[start : start + PIECE_BYTES]
                self.watch.sign(Sign.ACCEPTED)
            sent_bytes += len(piece)
        self._check(left_bytes=sent_bytes + 1, pause_s=CHECK_FIRST_S)

    def traced(self, extensions: Mapping[str, Any]) -> dict[str, Any]:
        """The extensions of the request, with our trace hook before the one that it may have."""
        theirs = extensions.get("trace")

        async def trace(name: str, info: dict[str, Any]) -> None:
            made = info.get("return_value")
            if name == CONNECTED and isinstance(made, httpcore2.AsyncNetworkStream):
                self._socket = made.get_extra_info("socket")
            if theirs is not None:
                await theirs(name, info)

        return {**extensions, "trace": trace}

    def end(self) -> None:
        """Stop checking."""
        if self._next_check is not None:
            self._next_check.cancel()

    def _check(self, *, left_bytes: int, pause_s: float) -> None:
        still_bytes = unsent_bytes(self._socket)
        if not still_bytes:
            self.watch.sign(Sign.SENT)
            return
        if still_bytes < left_bytes:
            self.watch.sign(Sign.ACCEPTED)
        left_bytes, later_s = min(left_bytes, still_bytes), min(pause_s * 2, CHECK_LAST_S)
        loop = asyncio.get_running_loop()
        self._next_check = loop.call_later(
            pause_s, lambda: self._check(left_bytes=left_bytes, pause_s=later_s)
        )

    def _throw_away(self, deadline: Deadline) -> None:
        """Discard unsent data: the kernel would keep sending it after the close."""
        if deadline.kind == "upload" and unsent_bytes(self._socket):
            assert self._socket is not None, "only a socket has something unsent"
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
