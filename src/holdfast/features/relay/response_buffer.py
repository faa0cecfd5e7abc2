"""The response to the client of a relayed call: nothing until there is content, then bytes as they arrive."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import TypeAlias

import msgspec

from holdfast.features.relay.headers import headers_back
from holdfast.features.relay.lifecycle import is_lifecycle
from holdfast.features.relay.redacting import FrameFilter
from holdfast.features.relay.surfaces import SentFrames, Surface
from holdfast.models.sse import SseParser
from holdfast.models.wire import StreamParser
from holdfast.redaction import Redactor
from holdfast.server.problems import Problem

WAITING_BYTES_MAX = 1024 * 1024  # what a slow client hasn't read yet; past this the provider isn't read
KEPT_BYTES_MAX = 4 * 1024 * 1024  # a longer answer can't be joined
STREAM_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}
_FRAME_END = b"\n\n"
_FRAME_ENDS = (_FRAME_END, b"\r\n\r\n")

WhenSaved: TypeAlias = Callable[[Callable[[], None]], None]


class ResponseHead(msgspec.Struct, frozen=True):
    """The status and headers of a response."""

    status: int
    headers: Mapping[str, str]


class ResponseBuffer:
    """The response of one relayed call, filled by its attempts and read by its client's connection.

    Until content arrives, an attempt can be replaced and the client sees nothing of it. After `commit` the
    client has a response, with keep-alives, so a later failure is an event of its stream.
    """

    def __init__(self, surface: Surface, secrets: Redactor) -> None:
        self.surface = surface
        self.head: ResponseHead | None = None
        self.has_content = False  # the client has a part of the answer, so it can't be replaced
        self.has_lifecycle = False  # the client has the opening events of some attempt
        self.is_over = False
        self.is_full = False  # the client is too far behind
        self.is_whole = False  # the client has the whole answer
        self._secrets = FrameFilter(secrets)
        self._sent = SentFrames()
        self._is_numbered = surface.wire == "responses"
        self._waiting: list[bytes] = []
        self._when_saved: WhenSaved | None = None
        self._unsaved: list[bytes] = []  # what the client gets once its log has it
        self.unsaved_bytes = 0
        self._put_count = 0
        self._kept: list[bytes] | None = None  # all of it, for a client that joins later
        self._kept_bytes = 0
        self._waiting_bytes = 0
        self._is_between_frames = True
        self._is_released = False
        self._has_reader = True
        self._new_future = asyncio.get_running_loop().create_future
        self._reader: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None

    async def room(self) -> None:
        """Wait until the client has read what waits for it."""
        while self._waiting_bytes and not self.is_over:
            self._room = self._new_future()
            await self._room

    def hold_until(self, when_saved: WhenSaved) -> None:
        """Send nothing of the answer before `when_saved` calls back."""
        self._when_saved = when_saved

    def keep_all(self) -> None:
        """Keep what is sent, so that a later client can have it from the beginning."""
        self._kept = []

    @property
    def can_replay(self) -> bool:
        """Whether everything from the beginning is still here."""
        return self._kept is not None

    def replay(self) -> None:
        """Send everything again, to another client."""
        assert self._kept is not None, "it was kept"
        self._has_reader = True
        self._waiting, self._waiting_bytes = list(self._kept), self._kept_bytes
        self.is_full = self._waiting_bytes > WAITING_BYTES_MAX

    def release_reader(self) -> None:
        """Let the reader go, because its client has left; the call isn't held back for it."""
        self._is_released, self._has_reader = True, False
        self._waiting, self._waiting_bytes, self.is_full = [], 0, False
        self._release()
        self._made_room()

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Start the response, unless it has started."""
        if self.head is None:
            self.head = ResponseHead(status, headers)
            self._release()

    def expect_answer(self) -> None:
        """Prepare for the answer of an attempt, unless the client has another one's."""
        if not self.has_content:
            self._secrets.restart()

    def pass_on(self, piece: bytes) -> None:
        """Add bytes of a provider's body."""
        piece = self._secrets.feed(piece)
        if self._when_saved is None:
            self._show(piece)
        else:
            self._put(piece)

    def keep_alive(self) -> None:
        """Send the client a keep-alive in its own protocol."""
        if self.head is not None and self._is_between_frames and not self.is_over:
            self._show(self.surface.keep_alive)

    def complete(self) -> None:
        """Note that the client has the whole answer; the response ends when the call is on record."""
        self.is_whole = True

    def finish(self) -> None:
        """End the response, once everything is on disk or its log was deleted."""
        self._put(self._secrets.flush())
        self._show_unsaved(self._put_count)
        self.is_over = True
        self._release()
        self._made_room()

    def fail(self, problem: Problem) -> None:
        """End the response with an error: a status if nothing has been sent, otherwise an event.

        Data that isn't on disk yet is no longer sent.
        """
        if self.head is None:
            headers = {"content-type": "application/json", **_lower(problem.headers)}
            self.begin(problem.status, headers)
            self._show(self.surface.error_body(problem))
        else:
            self._put(self._secrets.flush_frames())
            self._unsaved.clear()
            apart = b"" if self._is_between_frames else _FRAME_END
            self._show(apart + self.surface.error_event(problem, sent=self._sent))
        self.finish()

    async def more(self, *, as_a_whole: bool = False) -> list[bytes]:
        """The next pieces, or all of them once they are there; empty at the end, or if only a head came."""
        while not self.is_over and (as_a_whole or not self._waiting):
            self._reader = reader = self._new_future()
            self._is_released = False
            await reader
            if not as_a_whole or self._is_released:
                break
        pieces, self._waiting, self._waiting_bytes, self.is_full = self._waiting, [], 0, False
        if self._room is not None:
            self._made_room()
        return pieces

    def _put(self, piece: bytes) -> None:
        """Show a piece once it is saved."""
        if not piece or self.is_over:
            return
        if self._when_saved is None:
            self._show(piece)
            return
        self._unsaved.append(piece)
        self.unsaved_bytes += len(piece)
        self._put_count += 1
        self._when_saved(partial(self._show_unsaved, self._put_count))

    def _show_unsaved(self, upto: int) -> None:
        """Show what was put, up to this piece."""
        count = len(self._unsaved) - (self._put_count - upto)
        pieces, self._unsaved = self._unsaved[: max(count, 0)], self._unsaved[max(count, 0) :]
        for piece in pieces:
            self.unsaved_bytes -= len(piece)
            self._show(piece)

    def _show(self, piece: bytes) -> None:
        """Every token comes here, so this is one step."""
        if self.is_over or not piece:
            return
        if self._kept is not None:
            self._keep(self._kept, piece)
        if self._has_reader:
            self._waiting.append(piece)
            self._waiting_bytes += len(piece)
            self.is_full = self._waiting_bytes > WAITING_BYTES_MAX
        self._is_between_frames = piece.endswith(_FRAME_ENDS)
        if self._is_numbered:
            self._sent.take(piece)
        reader = self._reader
        if reader is not None:
            self._wake(reader)

    def _keep(self, kept: list[bytes], piece: bytes) -> None:
        kept.append(piece)
        self._kept_bytes += len(piece)
        if self._kept_bytes > KEPT_BYTES_MAX:
            self._kept = None

    def _wake(self, reader: asyncio.Future[None]) -> None:
        self._reader = None
        if not reader.done():
            reader.set_result(None)

    def _release(self) -> None:
        """Let the reader look at what has changed."""
        if self._reader is not None:
            self._wake(self._reader)

    def _made_room(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)


def split_lifecycle(held: bytes, parser: StreamParser) -> tuple[bytes, bytes]:
    """The opening events of a stream, and the rest, which begins with the first event that says more."""
    sse, at = SseParser(), 0
    while True:
        ends = [end for mark in (b"\n\n", b"\r\n\r\n") if (end := held.find(mark, at) + len(mark)) > at + 1]
        if not ends or min(ends) <= at:
            return held[:at], held[at:]
        frames = sse.feed(held[at : min(ends)])
        if not all(is_lifecycle(event) for frame in frames for event in parser.parse(frame)):
            return held[:at], held[at:]
        at = min(ends)


def own_stream_head() -> ResponseHead:
    """The head of a stream that begins before its provider has answered."""
    return ResponseHead(HTTPStatus.OK, STREAM_HEADERS)


def head_back(status: int, headers: Mapping[str, str], *, is_stream: bool) -> ResponseHead:
    """A provider's head as its client gets it."""
    passed = headers_back(headers)
    if is_stream:
        passed = {**passed, **{name: STREAM_HEADERS[name] for name in ("cache-control", "x-accel-buffering")}}
    return ResponseHead(status, passed)


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
