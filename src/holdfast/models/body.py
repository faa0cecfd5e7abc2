"""The body of a response, whose pieces are processed in the loop step in which they arrive.

Waking a task for every piece would cost more than processing it.
"""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

import aiohttp
from typing_extensions import override

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
