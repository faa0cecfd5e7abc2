"""Server-sent events: a reader is a cursor on a log, live or replayed.

An idle reader costs its connection, one small task that notices when the client leaves, and one timer. Frames
don't move that timer: it fires at the old time, sees that frames came, and is set again.
"""

import asyncio
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

from starlette.types import Receive, Scope, Send

from holdfast.decisions.fair_shares import FairShare
from holdfast.server.access.caller import KEY_NAME, caller_name
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


Stream = TypeVar("Stream", bound="EventStream")


class Feed(Protocol):
    """Where a stream's frames come from."""

    async def more(self) -> Sequence[bytes] | None:
        """Wait for the next frames; empty after `wake`, None after the last."""
        ...

    def wake(self) -> None:
        """Let a waiting `more` return without frames."""
        ...

    def ephemeral_frames(self, silent_s: float) -> Sequence[bytes]:
        """Frames without an id that are due after this much silence; they aren't part of the log."""
        ...

    def next_check_s(self, silent_s: float) -> float | None:
        """When to ask for ephemeral frames again; None: only after `check_now`."""
        ...


class Reservation:
    """A key's place, reserved for a stream that isn't open yet."""

    is_handed_over = False

    def __init__(self, key: str) -> None:
        self.key = key

    def assign_to(self, stream: Stream) -> Stream:
        """Hand the place over to the stream."""
        stream.place, self.is_handed_over = self, True
        return stream


class OpenStream(Protocol):
    """A response that lasts: it can be counted, and ended early."""

    scope: Scope
    place: Reservation | None

    @property
    def feed(self) -> Feed | None:
        """Where its asides come from, if it has any."""
        ...

    def check_now(self) -> None:
        """Check for ephemeral frames."""
        ...

    def end(self) -> None:
        """Send nothing more."""
        ...


class Streams:
    """All open event streams: counts them by API key and ends them together."""

    def __init__(self) -> None:
        self._open: dict[OpenStream, Reservation] = {}
        self._shares = FairShare()  # of open and reserved ones
        self._ending = asyncio.Event()

    def __len__(self) -> int:
        return len(self._open)

    @contextmanager
    def reserve(self, most: int) -> Generator["Reservation"]:
        """Reserve a place for a stream while the block creates it; raises a Problem if there is none."""
        place = self._reserved(caller_name(), most)
        try:
            yield place
        finally:
            if not place.is_handed_over:
                self._shares.release(place.key)

    def _check_going(self) -> None:
        if self._ending.is_set():
            text = "The server is shutting down. Try again in a few seconds"
            raise Problem(503, text, code="shutting_down", headers={"Retry-After": "2"})

    def _reserved(self, key: str, most: int) -> Reservation:
        self._check_going()
        if not self._shares.has_room(key, most):
            raise Problem(
                429,
                f"The limit of {most} open event streams is reached. Close one, or try again later",
                code="too_many_streams",
                headers={"Retry-After": "5"},
            )
        self._shares.acquire(key)
        return Reservation(key)

    def add(self, stream: OpenStream, *, most: int) -> None:
        """Add an open stream; raises a Problem if there are too many, or if the server is shutting down."""
        place = stream.place or self._reserved(stream.scope.get(KEY_NAME, ""), most)
        if self._ending.is_set():
            self._shares.release(place.key)
            self._check_going()
        self._open[stream] = place

    def remove(self, stream: OpenStream) -> None:
        """Remove a stream whose reader is gone."""
        place = self._open.pop(stream, None)
        if place is not None:
            self._shares.release(place.key)

    def check_now(self, feeds: Container[Feed]) -> None:
        """Make the streams of these feeds check for ephemeral frames."""
        for stream in self._open:
            if stream.feed is not None and stream.feed in feeds:
                stream.check_now()

    def end_where(self, is_over: Callable[[Scope], bool]) -> None:
        """End the streams of these requests: their callers no longer have access."""
        for stream in self._open:
            if is_over(stream.scope):
                stream.end()

    async def until_end(self) -> None:
        """Wait until the server shuts down."""
        await self._ending.wait()

    @property
    def is_ending(self) -> bool:
        """Whether the server is shutting down."""
        return self._ending.is_set()

    def end(self) -> None:
        """End all streams for the shutdown; readers reconnect with their cursors."""
        self._ending.set()
        for stream in self._open:
            stream.end()


class EventStream:
    """An ASGI response: frames as they come, and heartbeats in between; it ends when the reader is gone."""

    def __init__(
        self,
        feed: Feed,
        streams: Streams,
        *,
        limits: Limits,
        headers: Iterable[tuple[bytes, bytes]] = (),
        on_left: Callable[[], None] | None = None,
        pace_s: float = 0.0,
    ) -> None:
        self.feed = feed
        self.place: Reservation | None = None
        self.scope: Scope = {}
        self._streams = streams
        self._limits = limits
        self._headers = [*_HEADERS, *headers]
        self._on_left = on_left
        self._pace_s = pace_s
        self._gathering: asyncio.Future[None] | None = None
        self._now_s = asyncio.get_running_loop().time
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = False  # ephemeral frames or a heartbeat may be due
        self._over = False
        self._sent_s = self._frame_s = self._now_s()  # when anything was sent last, and when a frame

    def check_now(self) -> None:
        """Check for ephemeral frames."""
        self._is_due = True
        self._wake()

    def end(self) -> None:
        """Send nothing more."""
        self._over = True
        self._wake()

    def _wake(self) -> None:
        self.feed.wake()
        if self._gathering is not None and not self._gathering.done():
            self._gathering.set_result(None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the frames end or the reader leaves."""
        self.scope = scope
        watching = asyncio.ensure_future(self._until_left(receive))
        try:
            self._streams.add(self, most=self._limits.subscribers_max)
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
        in_a_row = 0
        self._sent_s = self._frame_s = self._now_s()
        self._set_timer()
        try:
            while not self._over:
                frames = () if self._is_due else await self.feed.more()
                if frames is None:
                    return
                if frames:
                    self._frame_s = self._sent_s = self._now_s()
                elif self._is_due:
                    frames = self._ephemeral_frames()
                for piece in _pieces(frames):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                in_a_row += len(frames) or 1
                if in_a_row >= FRAMES_IN_A_ROW_MAX:
                    # Neither a log in memory nor an idle socket makes this task wait, so it must yield.
                    in_a_row = 0
                    await asyncio.sleep(0)
                if frames and self._pace_s and not self._over:
                    await self._gather()
        finally:
            self._rest()

    async def _gather(self) -> None:
        """Let frames gather for the next write, unless the stream ends or an ephemeral frame is due."""
        loop = asyncio.get_running_loop()
        self._gathering = loop.create_future()
        timer = loop.call_later(self._pace_s, self._wake)
        try:
            await self._gathering
        finally:
            timer.cancel()
            self._gathering = None

    def _ephemeral_frames(self) -> Sequence[bytes]:
        """The ephemeral frames that are due, or a heartbeat."""
        self._is_due = False
        now_s = self._now_s()
        frames = self.feed.ephemeral_frames(now_s - self._frame_s)
        if not frames and now_s - self._sent_s >= self._limits.heartbeat_s:
            frames = (HEARTBEAT,)
        if frames:
            self._sent_s = now_s
        self._set_timer()
        return frames

    def _set_timer(self) -> None:
        """Set the timer for the next ephemeral frame or heartbeat."""
        self._rest()
        now_s = self._now_s()
        due_s = self._sent_s + self._limits.heartbeat_s
        next_check_s = self.feed.next_check_s(now_s - self._frame_s)
        if next_check_s is not None:
            due_s = min(due_s, now_s + next_check_s)
        self._timer = asyncio.get_running_loop().call_at(due_s, self._look, self._frame_s)

    def _look(self, frame_s: float) -> None:
        self._timer = None
        if frame_s == self._frame_s:
            self.check_now()
        else:
            self._set_timer()

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _pieces(frames: Sequence[bytes]) -> Sequence[bytes]:
    """Frames joined into few writes: a slow reader gets many in one."""
    return frames if len(frames) <= 1 else list(_joined(frames))


def _joined(frames: Sequence[bytes]) -> Iterator[bytes]:
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
