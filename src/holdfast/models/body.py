"""The body of a response, whose pieces are processed in the loop step in which they arrive.

Waking a task for every piece would cost more than processing it.

The upload of a request body: how much of it the peer has taken, and how to discard the rest.
"""

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import Callable
from typing import TypeAlias, cast

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from typing_extensions import override

from holdfast.decisions.deadlines import Sign, State
from holdfast.models.unsent_bytes import unsent_bytes
from holdfast.models.watchdog import Watchdog

Take: TypeAlias = Callable[[bytes], bool]


class Body:
    """The body of a response; `read` returns the next bytes, or none at the end."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.read = response.content.readany

    async def each(self, take: Take) -> bool:
        """Call `take` with each piece until it returns True; returns False at the end of the body.

        It may be awaited again after True. What `take` raises is raised here. Once the task is cancelled,
        `take` isn't called any more.
        """
        connection = self._response.connection
        transport = None if connection is None else connection.transport
        # A closed transport may not even know its protocol (asyncio's, under TLS).
        behind = None if transport is None or transport.is_closing() else transport.get_protocol()
        if transport is None or not isinstance(behind, asyncio.Protocol):
            return await self._each_in_turn(take)
        tap = _Tap(transport, behind, content=self._response.content, take=take)
        transport.set_protocol(tap)
        try:
            tap.hand_over()
            return await tap.enough
        finally:
            tap.leave()

    async def _each_in_turn(self, take: Take) -> bool:
        """For data that has already arrived: the connection is back in the pool, or lost."""
        while piece := await self.read():
            if take(piece):
                return True
        return False


class _Tap(asyncio.Protocol):
    """Sits in front of the HTTP client's protocol, and reads what it has parsed from each packet."""

    def __init__(
        self,
        transport: asyncio.Transport,
        behind: asyncio.Protocol,
        *,
        content: aiohttp.StreamReader,
        take: Take,
    ) -> None:
        self.enough: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._transport = transport
        self._behind = behind
        self._pass_on = behind.data_received
        self._content = content
        self._read = content.read_nowait
        self._is_over = content.at_eof
        self._take = take

    @override
    def data_received(self, data: bytes) -> None:
        self._pass_on(data)
        self.hand_over()

    def hand_over(self) -> None:
        """Pass on what the client has parsed, unless nobody waits for it any more.

        Cancelling a task cancels the future that it waits for at once, although the task runs later.
        """
        content = self._content
        try:
            while not self.enough.done():
                came_bytes = content.total_bytes
                piece = self._read()
                if piece and self._take(piece):
                    self._settle(found=True)
                # Reading may make the client parse more of what it had held back.
                if content.total_bytes == came_bytes:
                    break
            if self._is_over():
                self._settle(found=False)
        except Exception as error:  # noqa: BLE001  # it belongs to the task that waits
            self.leave()
            if not self.enough.done():
                self.enough.set_exception(error)

    def _settle(self, *, found: bool) -> None:
        # At the end of a body, its connection is back in the pool, and its next user sets its own protocol.
        self.leave()
        if not self.enough.done():
            self.enough.set_result(found)

    def leave(self) -> None:
        """Restore the client's protocol."""
        if not self._transport.is_closing() and self._transport.get_protocol() is self:
            self._transport.set_protocol(self._behind)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._behind.connection_lost(exc)
        self.hand_over()
        if not self.enough.done():
            self.enough.set_exception(aiohttp.ServerDisconnectedError())

    @override
    def eof_received(self) -> bool | None:
        return self._behind.eof_received()

    @override
    def pause_writing(self) -> None:
        self._behind.pause_writing()

    @override
    def resume_writing(self) -> None:
        self._behind.resume_writing()


PIECE_BYTES = 64 * 1024
CHECK_FIRST_S = 0.002
CHECK_LAST_S = 0.25
CHECKS_MIN = 4  # per patience
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 seconds: close with a reset, and discard unsent data


class UploadPayload(aiohttp.payload.Payload):
    """A body that knows its connection and how much of it the peer has taken."""

    _value: bytes

    def __init__(self, body: bytes, watchdog: Watchdog) -> None:
        super().__init__(body, content_type="application/json")
        self._size = len(body)
        self._watchdog = watchdog
        self._next_check: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._socket: socket.socket | None = None
        self._written_bytes = 0
        self.connected_s: float | None = None
        self.is_reusing = True  # that connection has served another request
        self.written = False  # handed to the system, which may still hold all of it

    @override
    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self._value.decode(encoding, errors)

    def connect(self) -> None:
        """Note that the connection is established; the connector calls this."""
        self.connected_s = time.monotonic()
        self._watchdog.sign(Sign.CONNECTED)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send in pieces, and check how much of them the peer takes."""
        self._transport = cast("asyncio.Transport | None", getattr(writer, "transport", None))
        if self._transport is not None:
            self._socket = self._transport.get_extra_info("socket")
        body = memoryview(self._value)
        self._check_after(CHECK_FIRST_S, len(body) + 1)
        for start in range(0, len(body), PIECE_BYTES):
            await writer.write(body[start : start + PIECE_BYTES])
            self._written_bytes = start + PIECE_BYTES
        self.written = True

    def _check(self, left_bytes: int, pause_s: float) -> None:
        """Check the progress; the kernel buffers megabytes, so a request is sent once its buffer is empty."""
        still_bytes = max(0, len(self._value) - self._written_bytes) + self._unsent_bytes()
        if self.written and not still_bytes:
            self._watchdog.sign(Sign.SENT)
            return
        if still_bytes < left_bytes:
            self._watchdog.sign(Sign.ACCEPTED)
        deadline = self._watchdog.deadline
        often_s = CHECK_LAST_S if deadline is None else min(CHECK_LAST_S, deadline.patience_s / CHECKS_MIN)
        self._check_after(min(pause_s * 2, often_s), still_bytes)

    def _check_after(self, pause_s: float, left_bytes: int) -> None:
        self._next_check = self._watchdog.call_later(pause_s, self._check, left_bytes, pause_s)

    def end(self) -> None:
        """Check one last time: the answer may have come before the next check."""
        if self._next_check is not None:
            self._next_check.cancel()
            self._next_check = None
        is_uploading = self._watchdog.state is State.UPLOADING
        if is_uploading and self.written and not self._unsent_bytes():
            self._watchdog.sign(Sign.SENT)

    def abort(self) -> None:
        """Close the connection now, without waiting for unsent data."""
        if self._socket is not None and self._unsent_bytes():
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        if self._transport is not None:
            # In some Python versions, a TLS transport that was closed twice has nothing left to abort.
            with contextlib.suppress(AttributeError):
                self._transport.abort()

    def _unsent_bytes(self) -> int:
        """The written bytes that the peer has not acknowledged, as far as the system tells."""
        if self._transport is None or self._socket is None or self._socket.fileno() < 0:
            return 0
        # A closed TLS transport doesn't even know its socket.
        held_bytes = 0 if self._transport.is_closing() else self._transport.get_write_buffer_size()
        return held_bytes + unsent_bytes(self._socket)
