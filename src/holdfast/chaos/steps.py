"""The steps of a script that say something: text, thinking, tool calls, refusals, endings."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec
from msgspec import Struct, field

from holdfast.chaos.answer import AnswerEnding, AnswerPart, PartKind, ProviderError, Reason, ReportedUsage
from holdfast.chaos.gates import Gate
from holdfast.chaos.reply import ScriptedReply


def _pieces(text: str, size: int) -> Iterator[str]:
    if size <= 0:
        yield text
        return
    for start in range(0, len(text), size):
        yield text[start : start + size]


async def _grow(reply: ScriptedReply, pieces: Iterator[str], pace_s: float) -> None:
    for index, piece in enumerate(pieces):
        if index and pace_s:
            await asyncio.sleep(pace_s)
        await reply.send_frames(reply.wire.delta(piece))


async def _continue_part(reply: ScriptedReply, kind: PartKind, *, phase: str = "") -> AnswerPart:
    part = reply.wire.answer.open_part
    if part is None or part.kind != kind or part.phase != phase:
        part = AnswerPart(kind, phase=phase)
        await reply.open(part)
    return part


class Say(Struct, frozen=True):
    """Visible text, in one delta or in pieces of so many characters; `phase` is the Responses wire's."""

    text: str
    chunk_chars: int = 0
    pace_s: float = 0.0
    phase: str = ""

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Add to the open text item, or open one."""
        await _continue_part(reply, "text", phase=self.phase)
        await _grow(reply, _pieces(self.text, self.chunk_chars), self.pace_s)


class SayWords(Struct, frozen=True):
    """Visible text, word by word."""

    text: str
    pace_s: float = 0.0

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Send each word with the space after it as one delta."""
        await _continue_part(reply, "text")
        words = self.text.split(" ")
        spaced = [word + " " for word in words[:-1]] + words[-1:]
        await _grow(reply, iter(spaced), self.pace_s)


class Think(Struct, frozen=True):
    """Reasoning; `signature` is Anthropic's, `encrypted` is sent where a wire has a field for it."""

    text: str
    signature: str = ""
    encrypted: str = ""
    chunk_chars: int = 0
    pace_s: float = 0.0

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Open a reasoning item, fill it, and leave its closing to what follows."""
        if reply.request.wire == "anthropic" and self.encrypted:
            # A redacted block carries its data in its opening event and has no deltas.
            await reply.open(AnswerPart("thinking", encrypted=self.encrypted))
            await reply.send_frames(reply.wire.close())
        if not self.text and reply.request.wire == "anthropic":
            return
        encrypted = "" if reply.request.wire == "anthropic" else self.encrypted
        part = AnswerPart("thinking", signature=self.signature, encrypted=encrypted)
        await reply.open(part)
        if self.text:
            await _grow(reply, _pieces(self.text, self.chunk_chars), self.pace_s)


class CallTool(Struct, frozen=True):
    """A whole tool call, its arguments in several deltas."""

    name: str
    args: Mapping[str, object] = field(default_factory=dict[str, object])
    id: str = ""
    chunk_chars: int = 8
    pace_s: float = 0.0

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Open, fill and close a tool-call item."""
        await reply.open(AnswerPart("call", name=self.name, call_id=self.id))
        arguments = msgspec.json.encode(self.args).decode()
        await _grow(reply, _pieces(arguments, self.chunk_chars), self.pace_s)
        await reply.send_frames(reply.wire.close())


class CutCall(Struct, frozen=True):
    """A tool call whose arguments stop short and are not closed; follow it with a way to end."""

    name: str
    args: Mapping[str, object] = field(default_factory=dict[str, object])
    id: str = ""
    keep_chars: int = 5

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Send the first characters of the arguments and nothing more."""
        await reply.open(AnswerPart("call", name=self.name, call_id=self.id))
        arguments = msgspec.json.encode(self.args).decode()
        await reply.send_frames(reply.wire.delta(arguments[: self.keep_chars]))


class Refuse(Struct, frozen=True):
    """A refusal as content: the refusal part of the OpenAI wires, stop reason `refusal` of Anthropic's."""

    text: str = "I can't help with that."

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Say it in the wire's place for refusals."""
        await _continue_part(reply, "refusal")
        await reply.send_frames(reply.wire.delta(self.text))


class OpenItem(Struct, frozen=True):
    """Opens an item without content, like a model that thinks silently."""

    kind: PartKind = "thinking"
    name: str = "tool"

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Send the opening of the item."""
        await reply.open(AnswerPart(self.kind, name=self.name if self.kind == "call" else ""))


class CloseItem(Struct, frozen=True):
    """Closes the open item."""

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Send the closing of the item, if one is open."""
        await reply.send_frames(reply.wire.close())


class Begin(Struct, frozen=True):
    """Headers and the wire's opening events, nothing else."""

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Send them unless they have been sent."""
        await reply.begin()


class Lifecycle(Struct, frozen=True):
    """Repeated events that only say that the server is working."""

    times: int = 1
    pace_s: float = 0.0

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Send them."""
        for _ in range(self.times):
            await reply.send_frames(reply.wire.lifecycle())
            await asyncio.sleep(self.pace_s)


class Finish(Struct, frozen=True):
    """The protocol's own ending; without a reason, the one that fits what was said."""

    reason: Reason | None = None
    usage: ReportedUsage | None = None
    times: int = 1
    usage_chunk: Literal["as asked", "always", "never"] = "as asked"
    done: Literal["sent", "missing"] = "sent"

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Send the terminal events as often as asked."""
        answer = reply.wire.answer
        reason = self.reason or answer.natural_reason
        ending = AnswerEnding(reason, self.usage or answer.usage, self.usage_chunk, self.done)
        for _ in range(self.times):
            await reply.finish(ending)


class ErrorEvent(Struct, frozen=True):
    """An error in mid-stream, in the wire's own shape; without a stream it is a status 500."""

    message: str = ""
    type: str = ""
    code: str = ""

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Send it; nothing else follows by itself."""
        fault = ProviderError(self.message, self.type, self.code)
        if reply.is_streaming:
            await reply.send_frames(reply.wire.error(fault))
        else:
            await reply.send_status(500, {}, msgspec.json.encode(reply.wire.error_body(500, fault)))
        reply.has_answered = True


class Wait(Struct, frozen=True):
    """Waits at a gate that the test opens."""

    gate: Gate

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Tell the gate, then wait."""
        del reply
        await self.gate.passed()


class Pause(Struct, frozen=True):
    """Waits for a time."""

    pause_s: float

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Sleep."""
        del reply
        await asyncio.sleep(self.pause_s)
