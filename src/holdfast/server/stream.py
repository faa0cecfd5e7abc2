"""Server-sent events by seq: a reader is a cursor on the log, live or replayed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from holdfast import events as e
from holdfast import session, transcript
from holdfast.interfaces import Journal
from holdfast.rows import run_of
from holdfast.server.hermes import frame_of
from holdfast.session import Session
from holdfast.transcript import Transcript

HEARTBEAT_S = 15.0
CLOSED = b": stream closed\n\n"
HEARTBEAT = b": keepalive\n\n"

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
_encode = msgspec.json.Encoder().encode


async def native_frames(
    journal: Journal, session_id: str, *, run_id: str, after: int
) -> AsyncIterator[bytes]:
    """The run's events as they are stored, a batch at a time, up to its ending."""
    async for records in journal.follow(session_id, after=after):
        frames: list[bytes] = []
        for record in records:
            if run_of(record.event) == run_id:
                frames.append(record.frame)
                if isinstance(record.event, e.RunEnded):
                    yield b"".join([*frames, CLOSED])
                    return
        if frames:
            yield b"".join(frames)


async def hermes_frames(
    journal: Journal, session_id: str, *, run_id: str, after: int
) -> AsyncIterator[bytes]:
    """The run's events as hermes clients know them; `after` only hides, since the frames come from folds."""
    state, seen = Session(), Transcript()
    async for records in journal.follow(session_id):
        frames: list[bytes] = []
        for record in records:
            event = record.event
            session.apply(state, record.seq, event)
            transcript.apply(seen, record.seq, event)
            if run_of(event) != run_id or record.seq <= after:
                continue
            frame = frame_of(event, state, seen)
            if frame is not None:
                frames.append(_sse(record.seq, run_id, event.at_ms, frame))
            if isinstance(event, e.RunEnded):
                yield b"".join([*frames, CLOSED])
                return
        if frames:
            yield b"".join(frames)


def _sse(seq: int, run_id: str, at_ms: int, frame: dict[str, Any]) -> bytes:
    name = frame.pop("event")
    body = _encode({"event": name, "run_id": run_id, "timestamp": at_ms / 1000, "seq": seq, **frame})
    return b"id: %d\ndata: %b\n\n" % (seq, body)


class Streams:
    """All open event streams, so that they can be ended together; make it where the event loop runs."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self) -> None:
        """The server is going: readers come back to the next one with their cursors."""
        if not self.ended.done():
            self.ended.set_result(None)


class EventStream:
    """An ASGI answer: frames as they come, a heartbeat when none do; it ends when the reader is gone."""

    def __init__(self, frames: AsyncIterator[bytes], streams: Streams) -> None:
        self._frames = frames
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  # ASGI's form
        """Send until the frames end or the reader leaves."""
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            over = {sending, leaving, self._streams.ended}
            await asyncio.wait(over, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.wait({sending, leaving})
        if not sending.cancelled():
            sending.result()

    async def _send(self, send: Send) -> None:
        upcoming: asyncio.Future[bytes] | None = None
        try:
            while True:
                upcoming = upcoming or asyncio.ensure_future(anext(self._frames))
                done, _ = await asyncio.wait({upcoming}, timeout=HEARTBEAT_S)
                if not done:
                    await send({"type": "http.response.body", "body": HEARTBEAT, "more_body": True})
                    continue
                try:
                    body = upcoming.result()
                except StopAsyncIteration:
                    break
                finally:
                    upcoming = None
                await send({"type": "http.response.body", "body": body, "more_body": True})
        finally:
            if upcoming is not None:
                upcoming.cancel()
                with suppress(asyncio.CancelledError, StopAsyncIteration):
                    await upcoming
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
