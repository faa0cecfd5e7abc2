"""Where a script runs: one answer to one request, over one connection."""

import asyncio
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import Struct

from holdfast.chaos.answer import AnswerEnding, AnswerPart, ProviderError
from holdfast.chaos.frames import LAST_CHUNK, ChaosFrame, SseStyle, encode_frame, http_chunk
from holdfast.chaos.record import SeenRequest
from holdfast.chaos.wires import Wire

if TYPE_CHECKING:
    from holdfast.chaos.connection import ChaosConnection


class Step(Protocol):
    """One line of a script."""

    async def perform(self, reply: "ScriptedReply", /) -> None:
        """Do it; what fails here is a bug in the script."""
        ...


Script = Sequence[Step]


class ScriptedReply(Struct):
    """Performs one script; steps speak to the client through it alone."""

    request: SeenRequest
    wire: Wire
    peer: "ChaosConnection"
    sse: SseStyle
    drip_bytes: int = 0
    drip_pace_s: float = 0.0
    has_begun: bool = False
    has_head: bool = False
    has_answered: bool = False
    is_chunked: bool = False

    @property
    def is_streaming(self) -> bool:
        """Whether the client asked for a stream."""
        return self.request.wants_stream

    async def perform(self, script: Script) -> None:
        """Perform the steps, and end the answer properly if they did not."""
        for step in script:
            await step.perform(self)
            if self.peer.is_closed:
                return
        if not self.has_answered:
            await self.finish(AnswerEnding(self.wire.answer.natural_reason, self.wire.answer.usage))
        await self.end_body()

    async def begin(self) -> None:
        """Send the headers and the opening events, once."""
        if self.has_begun:
            return
        self.has_begun = True
        frames = self.wire.begin()
        if self.is_streaming:
            await self.send_head()
            await self._send_frames(frames)

    async def send_head(self) -> None:
        """Send status 200 and the headers, once."""
        if self.has_head:
            return
        self.is_chunked = True
        kind = "text/event-stream; charset=utf-8" if self.is_streaming else "application/json"
        headers = {"content-type": kind, "cache-control": "no-cache", "transfer-encoding": "chunked"}
        await self._send_head(200, headers)

    async def send_frames(self, frames: Iterable[ChaosFrame]) -> None:
        """Send frames after the opening events; an answer in one body only gathers what they say."""
        await self.begin()
        if self.is_streaming:
            await self._send_frames(frames)

    async def send_payload(self, payload: bytes) -> None:
        """Send bytes of the response's body as they are."""
        await self.send_head()
        await self.send_bytes(http_chunk(payload))

    async def send_bytes(self, data: bytes) -> None:
        """Send raw bytes, in drips if the script asks for them."""
        if not self.drip_bytes:
            await self.peer.send(data)
            return
        for start in range(0, len(data), self.drip_bytes):
            await self.peer.send(data[start : start + self.drip_bytes])
            await asyncio.sleep(self.drip_pace_s)

    async def open(self, part: AnswerPart) -> None:
        """Open a part of the answer."""
        await self.begin()
        await self.send_frames(self.wire.open(part))

    async def finish(self, ending: AnswerEnding) -> None:
        """End the answer by its protocol; the response's body stays open for what may follow."""
        await self.begin()
        frames = self.wire.finish(ending)
        if self.is_streaming:
            await self._send_frames(frames)
        elif not self.has_answered:
            await self._send_body(200, {}, msgspec.json.encode(self.wire.body(ending)))
        self.has_answered = True

    async def send_status(self, status: int, headers: dict[str, str], body: bytes | None) -> None:
        """Answer with a status; without a body it gets the wire's own error envelope."""
        if body is None:
            body = msgspec.json.encode(self.wire.error_body(status, ProviderError()))
        await self._send_body(status, headers, body)
        self.has_answered = True

    async def send_half(self) -> None:
        """Before a cut: an answer in one body has sent half of it by then, if it says anything."""
        if self.is_streaming or self.has_answered or not self.wire.answer.parts:
            return
        ending = AnswerEnding(self.wire.answer.natural_reason, self.wire.answer.usage)
        body = msgspec.json.encode(self.wire.body(ending))
        await self.send_payload(body[: len(body) // 2])

    async def end_body(self) -> None:
        """Tell HTTP that the response is over, whatever the protocol inside has said."""
        self.has_answered = True
        if self.is_chunked:
            self.is_chunked = False
            await self.send_bytes(LAST_CHUNK)

    async def _send_frames(self, frames: Iterable[ChaosFrame]) -> None:
        for frame in frames:
            await self.send_bytes(http_chunk(encode_frame(frame, self.sse)))

    async def _send_body(self, status: int, headers: dict[str, str], body: bytes) -> None:
        if self.is_chunked:
            await self.send_bytes(http_chunk(body))
            return
        defaults = {"content-type": "application/json", "content-length": str(len(body))}
        await self._send_head(status, {**defaults, **{name.lower(): text for name, text in headers.items()}})
        await self.send_bytes(body)

    async def _send_head(self, status: int, headers: dict[str, str]) -> None:
        self.has_head = True
        name = "request-id" if self.request.wire == "anthropic" else "x-request-id"
        keeps_alive = self.peer.keeps_alive
        if not keeps_alive:
            # The header announces the close, so close even if the rest of the upload is read after all.
            self.peer.close_after_answer()
        fixed = {
            name: f"req_chaos_{self.request.number}",
            "connection": "keep-alive" if keeps_alive else "close",
        }
        everything = {**fixed, **headers}
        lines = [f"HTTP/1.1 {status} {_phrase(status)}", *(f"{k}: {v}" for k, v in everything.items())]
        await self.send_bytes("\r\n".join([*lines, "", ""]).encode("latin-1"))


def _phrase(status: int) -> str:
    known = {known.value: known.phrase for known in HTTPStatus}
    return known.get(status, "Unusual")
