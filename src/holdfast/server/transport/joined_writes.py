"""A connection's transport, with all that one step of the event loop writes in one system call."""

import asyncio
from typing import Any

# More than this is sent at once, so a response can't pile up unseen by the flow control.
JOINED_BYTES_MAX = 64 * 1024


class JoinedWrites:
    """A transport that joins small writes.

    A response is at least two writes: its head and its body. A stream of events is one for each event. Each
    write is a system call, and on the same machine it wakes the client, which takes the processor from the
    server. Whatever is written until the event loop's next step is sent as one.
    """

    __slots__ = ("_held", "_held_bytes", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []
        self._held_bytes = 0

    def __getattr__(self, name: str) -> Any:
        """Everything else is the transport's own."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send the bytes with the others of this step."""
        if not self._held:
            self._loop.call_soon(self.flush)
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes > JOINED_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Send what is held now, unless the connection was lost meanwhile."""
        held, self._held, self._held_bytes = self._held, [], 0
        if held and not self._transport.is_closing():
            self._transport.write(held[0] if len(held) == 1 else b"".join(held))

    def get_write_buffer_size(self) -> int:
        """How many bytes wait to be sent."""
        return self._held_bytes + self._transport.get_write_buffer_size()

    def close(self) -> None:
        """Send what is held, then close."""
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._held, self._held_bytes = [], 0
        self._transport.abort()
