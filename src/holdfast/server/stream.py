"""Server-sent events: a reader is a cursor on a log, live or replayed.

An idle reader costs its connection, one small task that notices when the client leaves, and one timer.
"""

import asyncio
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Protocol

from starlette.types import Receive, Scope, Send

from holdfast.server.options import Limits
from holdfast.server.problems import Problem

CLOSED = b": stream closed\n\n"
HEARTBEAT = b": keepalive\n\n"
WRITE_BYTES_MAX = 256 * 1024
FRAMES_IN_A_ROW_MAX = 32

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class Feed(Protocol):
    """Where a stream's frames come from."""

    async def more(self) -> Sequence[bytes] | None:
        """The next frames, waiting for them; None after the last. May be cancelled and called again."""
        ...

    def aside(self, silent_s: float) -> Sequence[bytes]:
        """Frames without an id that are due after so long a silence; they are not part of the log."""
        ...

    def look_again_s(self, silent_s: float) -> float | None:
        """When to ask for asides again; None is not before the stream is poked."""
        ...


class Streams:
    """All open event streams, so that they can be counted and ended together."""

    def __init__(self) -> None:
        self._open: set[EventStream] = set()
        self._ending = asyncio.Event()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, stream: "EventStream", *, most: int) -> None:
        """One more reader; raises a Problem if there is no room, or no tomorrow."""
        if self._ending.is_set():
            raise Problem(503, "The server is going down; come back", code="shutting_down")
        if len(self._open) >= most:
            raise Problem(
                429,
                f"{most} event streams are open, the most that are served at once",
                code="too_many_streams",
                headers={"Retry-After": "5"},
            )
        self._open.add(stream)

    def remove(self, stream: "EventStream") -> None:
        """The reader is gone."""
        self._open.discard(stream)

    def poke(self, feeds: Container[Feed]) -> None:
        """Let the streams of these feeds look whether there is something to say aside."""
        for stream in self._open:
            if stream.feed in feeds:
                stream.poke()

    async def until_end(self) -> None:
        """Wait until the server is going."""
        await self._ending.wait()

    def end(self) -> None:
        """The server is going: readers come back to the next one with their cursors."""
        self._ending.set()
        for stream in self._open:
            stream.end()


class EventStream:
    """An ASGI answer: frames as they come, a heartbeat when none do; it ends when the reader is gone."""

    def __init__(
        self,
        feed: Feed,
        streams: Streams,
        *,
        limits: Limits,
        headers: Iterable[tuple[bytes, bytes]] = (),
        on_left: Callable[[], None] | None = None,
    ) -> None:
        self.feed = feed
        self._streams = streams
        self._limits = limits
        self._headers = [*_HEADERS, *headers]
        self._on_left = on_left
        self._waiting: asyncio.Timeout | None = None
        self._poked = False
        self._over = False
        self._sent_s = 0.0

    def poke(self) -> None:
        """There may be something to say aside."""
        self._poked = True
        self._wake()

    def end(self) -> None:
        """Send nothing more."""
        self._over = True
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.expired():
            self._waiting.reschedule(0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the frames end or the reader leaves."""
        del scope
        watching = asyncio.ensure_future(self._until_left(receive))
        try:
            self._streams.add(self, most=self._limits.streams_max)
            await send({"type": "http.response.start", "status": 200, "headers": self._headers})
            await self._send_all(send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._streams.remove(self)
            if self._on_left is not None:
                self._on_left()
            watching.cancel()
            await asyncio.wait({watching})

    async def _until_left(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.end()

    async def _send_all(self, send: Send) -> None:
        now_s = asyncio.get_running_loop().time
        last_s = self._sent_s = now_s()  # of what counts as news; heartbeats do not
        in_a_row = 0
        while not self._over:
            frames = await self._next(now_s() - last_s)
            if frames is None:
                return
            if frames:
                last_s = now_s()
            else:
                frames = self.feed.aside(now_s() - last_s)
                if not frames and now_s() - self._sent_s >= self._limits.heartbeat_s:
                    frames = (HEARTBEAT,)
            for piece in _pieces(frames):
                self._sent_s = now_s()
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            in_a_row += len(frames)
            if not frames or in_a_row >= FRAMES_IN_A_ROW_MAX:
                # Neither a log in memory nor an idle socket makes us wait, and others want to run too.
                in_a_row = 0
                await asyncio.sleep(0)

    async def _next(self, silent_s: float) -> Sequence[bytes] | None:
        """The next frames; none of them if it is time to say something else."""
        now_s = asyncio.get_running_loop().time
        patience_s = max(0.0, self._sent_s + self._limits.heartbeat_s - now_s())
        look_again_s = self.feed.look_again_s(silent_s)
        if look_again_s is not None:
            patience_s = min(patience_s, look_again_s)
        if self._poked:
            self._poked = False
            return ()
        try:
            async with asyncio.timeout(patience_s) as self._waiting:
                return await self.feed.more()
        except TimeoutError:
            self._poked = False
            return ()
        finally:
            self._waiting = None


def _pieces(frames: Sequence[bytes]) -> Iterator[bytes]:
    """Frames joined into as few writes as is reasonable: a reader that lags gets many in one."""
    joined: list[bytes] = []
    size = 0
    for frame in frames:
        joined.append(frame)
        size += len(frame)
        if size >= WRITE_BYTES_MAX:
            yield b"".join(joined)
            joined, size = [], 0
    if joined:
        yield b"".join(joined)
