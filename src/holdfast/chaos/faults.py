"""The steps of a script that break something below the protocol: silence, cuts, bad bytes, bad reading."""

import asyncio

from msgspec import Struct

from holdfast.chaos.answer import AnswerPart
from holdfast.chaos.frames import encode_frame, http_chunk
from holdfast.chaos.gates import Gate
from holdfast.chaos.reply import ScriptedReply

FLOOD_BYTES = 5_000_000
LAST_ASCII = 0x7F


class Hang(Struct, frozen=True):
    """Silence until the client goes away; as the first step, not even headers are sent."""

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Wait forever; the end of the connection ends it."""
        del reply
        await asyncio.get_running_loop().create_future()


class Headers(Struct, frozen=True):
    """The response's headers, without a byte of its body."""

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Send them unless they have been sent."""
        await reply.send_head()


class KeepAlive(Struct, frozen=True):
    """Keep-alives (comments, or `ping` events where the wire has them); for ever unless a number is given."""

    times: int = 0
    pace_s: float = 0.05

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Send them; an answer in one body is kept alive by white space, as gateways do."""
        sent = 0
        while self.times == 0 or sent < self.times:
            if reply.is_streaming:
                frames = reply.wire.ping()
                await reply.send_payload(b"".join(encode_frame(frame, reply.sse) for frame in frames))
            else:
                await reply.send_payload(b"\n")
            sent += 1
            await asyncio.sleep(self.pace_s)


class Drip(Struct, frozen=True):
    """From here on, bytes leave in pieces of this size with a pause after each; size 0 ends it."""

    size: int = 1
    pace_s: float = 0.0

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Set how bytes are sent."""
        reply.drip_bytes, reply.drip_pace_s = self.size, self.pace_s


class SayInTwoWrites(Struct, frozen=True):
    """Text whose bytes are cut inside its first character beyond ASCII; the rest waits at a gate."""

    text: str = "naïve"
    gate: Gate | None = None
    pace_s: float = 0.02

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Send the two halves of one frame as two TCP writes."""
        assert not self.text.isascii(), "only a character beyond ASCII has an inside"
        open_part = reply.wire.answer.open_part
        if open_part is None or open_part.kind != "text":
            await reply.open(AnswerPart("text"))
        frames = reply.wire.delta(self.text)
        if not reply.is_streaming:
            return
        data = b"".join(http_chunk(encode_frame(frame, reply.sse)) for frame in frames)
        cut = next(index for index, byte in enumerate(data) if byte > LAST_ASCII) + 1
        await reply.send_bytes(data[:cut])
        if self.gate is not None:
            await self.gate.passed()
        else:
            await asyncio.sleep(self.pace_s)
        await reply.send_bytes(data[cut:])


class Flood(Struct, frozen=True):
    """One text delta of this many bytes in a single frame."""

    size_bytes: int = FLOOD_BYTES

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Send it."""
        open_part = reply.wire.answer.open_part
        if open_part is None or open_part.kind != "text":
            await reply.open(AnswerPart("text"))
        await reply.send_frames(reply.wire.delta("x" * self.size_bytes))


class Raw(Struct, frozen=True):
    """Any text as bytes of the response's body, unchanged."""

    text: str

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Send it after the headers, without opening events."""
        await reply.send_payload(self.text.encode())


class Comment(Struct, frozen=True):
    """A comment line of the event stream."""

    text: str = "chaos"

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Send it."""
        if reply.is_streaming:
            await reply.send_payload(f": {self.text}\n\n".encode())


class Malformed(Struct, frozen=True):
    """A frame that is not the protocol."""

    data: str = '{"this is": not JSON'
    event: str = ""

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Send it as a data line; an answer in one body becomes this text."""
        if not reply.is_streaming:
            await reply.send_payload(self.data.encode())
            reply.has_answered = True
            return
        await reply.begin()
        names = {"anthropic": "content_block_delta", "responses": "response.output_text.delta"}
        event = self.event or names.get(reply.request.wire or "", "")
        line = f"event: {event}\n" if event else ""
        await reply.send_payload(f"{line}data: {self.data}\n\n".encode())


class EndOfBody(Struct, frozen=True):
    """A clean end of the HTTP response without the protocol's terminal marker."""

    async def perform(self, reply: ScriptedReply, /) -> None:
        """End the body; the connection stays usable."""
        await reply.send_half()
        await reply.send_head()
        await reply.end_body()


class HangUp(Struct, frozen=True):
    """Closes the connection in mid-body with FIN; as the first step, without a byte of an answer."""

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Close."""
        await reply.send_half()
        reply.peer.hang_up()


class Drop(Struct, frozen=True):
    """Drops the connection with RST; as the first step, without a byte of an answer."""

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Reset."""
        await reply.send_half()
        reply.peer.reset()


class CloseOnReuse(Struct, frozen=True):
    """Keeps the connection alive after this answer, and closes it when the next request arrives on it."""

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Arm it; the next request consumes no script and is not recorded."""
        reply.peer.close_on_reuse()


class ReadOnly(Struct, frozen=True):
    """Reads about this much of the upload and no more, then continues; only as the first step."""

    upload_bytes: int = 0

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Read that much."""
        await reply.peer.read_upload(self.upload_bytes)


class ReadSlowly(Struct, frozen=True):
    """Reads the upload at this rate; only as the first step."""

    bytes_per_s: float = 10.0
    piece_bytes: int = 1

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Read piece by piece until the whole body is there."""
        while not reply.peer.upload_is_complete:
            await reply.peer.read_upload(self.piece_bytes)
            await asyncio.sleep(self.piece_bytes / self.bytes_per_s)


class ReadRest(Struct, frozen=True):
    """Reads and forgets the rest of the upload, so that an early answer is not lost to a reset."""

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Read to its end."""
        await reply.peer.read_upload(None)


UploadStep = ReadOnly | ReadSlowly | ReadRest
