"""Event streams that continue from their cursor after a lost connection or a server restart."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.client.errors import BadAnswer, Refused
from holdfast.client.exchange import BROKEN, LATER, ClientRequest, RetryingHttp, error_text
from holdfast.client.updates import Away, Back, Heard, HermesFrame, LiveLine, Seen
from holdfast.codec import UnreadableEvent, decode
from holdfast.events import Event

EVENTS = "text/event-stream"
EPOCH_HEADER = "X-Holdfast-Epoch"
FRAME_BYTES_MAX = 64 * 1024 * 1024


class _Aside(msgspec.Struct):
    type: str = ""
    run_id: str = ""
    text: str = ""


class StreamFrame(msgspec.Struct, frozen=True, gc=False):
    """One frame of a stream; id 0 is none."""

    id: int
    data: bytes


class FrameParser:
    """Cuts a stream of ours into frames; a comment is a frame of no data and is passed over."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, piece: bytes) -> list[StreamFrame]:
        """The frames that the piece completes."""
        looked = max(0, len(self._rest) - 1)
        self._rest += piece
        if len(self._rest) > FRAME_BYTES_MAX:
            raise BadAnswer(f"a frame of more than {FRAME_BYTES_MAX} bytes")
        end = self._rest.rfind(b"\n\n", looked)
        if end < 0:
            return []
        blocks = bytes(self._rest[:end]).split(b"\n\n")
        del self._rest[: end + 2]
        return [frame for block in blocks if (frame := _frame_of(block)) is not None]


def _frame_of(block: bytes) -> StreamFrame | None:
    seq = 0
    data: list[bytes] = []
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"id" and value.isdigit():
            seq = int(value[:18])
        elif name == b"data":
            data.append(value)
    return StreamFrame(seq, b"\n".join(data)) if data else None


class _Opened(Struct, frozen=True):
    """The connection is there; `epoch` is that of the log, if the server says it."""

    epoch: str


class _Cursor(Struct):
    """Where to continue: after a seq that was given or read, in the log of an epoch if that is known."""

    after: int
    epoch: str
    newest: int = 0

    def __str__(self) -> str:
        seq = self.newest or self.after
        return f"{seq}@{self.epoch}" if seq and self.epoch else str(seq or "")

    def found(self, epoch: str) -> None:
        """The log is of this epoch; if it was made anew, nothing of it was read yet."""
        if self.epoch and epoch and epoch != self.epoch:
            self.newest = self.after = 0
        self.epoch = epoch or self.epoch

    def is_new(self, frame: StreamFrame) -> bool:
        """Whether it was not read yet; a cursor that the log does not know is answered from the start."""
        if frame.id and frame.id <= self.newest:
            return False
        self.newest = frame.id or self.newest
        return bool(frame.data)


async def frames(
    exchange: RetryingHttp, path: str, *, view: str = "", after: int = 0, epoch: str = ""
) -> AsyncGenerator[StreamFrame | Away | Back]:
    """The frames after the cursor, each id once, over as many connections as it takes.

    `epoch` is that of the log that the cursor is of, if it is known. A log that was made anew under the same
    id comes from its start. Ends when the server says that nothing follows; raises Refused, and Unreachable
    after the patience. A connection that brought nothing and did not last was none.
    """
    now_s = asyncio.get_running_loop().time
    cursor, tries, lost_s = _Cursor(after, epoch), 0, 0.0
    while True:
        why, opened_s = "the stream ended", float("inf")
        try:
            async with aclosing(_connection(exchange, _asked(path, view, str(cursor)))) as found:
                async for frame in found:
                    if frame is None:
                        return
                    if isinstance(frame, _Opened):
                        opened_s = now_s()
                        cursor.found(frame.epoch)
                        if tries:
                            yield Back()
                        continue
                    tries = 0
                    if cursor.is_new(frame):
                        yield frame
        except BROKEN as error:
            why = error_text(error)
        if not tries or now_s() - opened_s > exchange.patience.most_s:
            tries, lost_s = 0, now_s()
        elif now_s() - lost_s > exchange.patience.follow_s:
            raise exchange.unreachable(why)
        tries += 1
        yield Away(why, tries)
        await asyncio.sleep(exchange.pause_s(tries - 1))


async def _connection(
    exchange: RetryingHttp, asked: ClientRequest
) -> AsyncGenerator[StreamFrame | _Opened | None]:
    """Its opening, then its frames, an empty one for any sign of life; raises one of BROKEN.

    None says that nothing follows.
    """
    try:
        async with exchange.opened(asked, silence_s=exchange.patience.silence_s) as answer:
            if answer.status == HTTPStatus.NO_CONTENT:
                yield None
                return
            if answer.content_type != EVENTS:
                raise BadAnswer(f"{asked.path} wasn't answered by a Holdfast server: {answer.content_type}")
            yield _Opened(answer.headers.get(EPOCH_HEADER, ""))
            parser = FrameParser()
            async for piece in answer.content.iter_any():
                yield StreamFrame(0, b"")
                for frame in parser.feed(piece):
                    yield frame
    except Refused as error:
        if error.status not in LATER:
            raise
        raise ConnectionError(error.message) from error


def _asked(path: str, view: str, cursor: str) -> ClientRequest:
    return ClientRequest(
        "GET",
        path,
        query={"view": view} if view else {},
        accept=EVENTS,
        headers={"Last-Event-ID": cursor} if cursor else {},
    )


async def events(
    exchange: RetryingHttp, path: str, *, view: str = "", after: int = 0, epoch: str = ""
) -> AsyncGenerator[Heard]:
    """Events as journaled, and beside them what is on no log."""
    async with aclosing(frames(exchange, path, view=view, after=after, epoch=epoch)) as found:
        async for frame in found:
            if isinstance(frame, Away | Back):
                yield frame
            elif frame.id:
                yield Seen(frame.id, _event(frame), frame.data)
            else:
                aside = _decoded(frame.data, _Aside)
                if aside.type == "live":
                    yield LiveLine(aside.run_id, aside.text)


async def hermes_frames(exchange: RetryingHttp, path: str, *, after: int = 0) -> AsyncGenerator[HermesFrame]:
    """The frames of a run in hermes' words, ephemeral ones included."""
    async with aclosing(frames(exchange, path, view="hermes", after=after)) as found:
        async for frame in found:
            if isinstance(frame, Away | Back):
                continue
            data = _decoded(frame.data, dict[str, Any])
            yield HermesFrame(frame.id, str(data.get("event", "")), data)


def _event(frame: StreamFrame) -> Event:
    try:
        return decode(frame.data, where=f"frame {frame.id}")
    except UnreadableEvent as error:
        raise BadAnswer(f"the server sent an event that this version doesn't know: {error}") from error


def _decoded(data: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadAnswer(f"the server sent a frame that isn't a JSON object: {error}") from error
