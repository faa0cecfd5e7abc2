"""A scripted model's answer, before a wire encodes it."""

from typing import Literal

from msgspec import Struct, field

PartKind = Literal["text", "thinking", "call", "refusal"]
Reason = Literal["stop", "tools", "length", "filtered", "refused"]
WireName = Literal["responses", "chat_completions", "anthropic"]


class ReportedUsage(Struct, frozen=True):
    """Token counts as the server reports them; `input_tokens` includes the cached ones."""

    input_tokens: int = 11
    output_tokens: int = 7
    cached_tokens: int = 0
    cache_written_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens


class AnswerPart(Struct):
    """One item of an answer; its text (or its JSON arguments) grows by deltas until it is closed."""

    kind: PartKind
    name: str = ""
    call_id: str = ""
    signature: str = ""
    encrypted: str = ""
    phase: str = ""
    is_closed: bool = False
    pieces: list[str] = field(default_factory=list[str])  # joined once: an answer may have a million deltas

    @property
    def text(self) -> str:
        """All of it so far."""
        return "".join(self.pieces)


class ProviderError(Struct, frozen=True):
    """An error as a provider words it; empty fields get what the wire uses for the status."""

    message: str = ""
    type: str = ""
    code: str = ""


class AnswerEnding(Struct, frozen=True):
    """How an answer finishes by its protocol."""

    reason: Reason
    usage: ReportedUsage
    usage_chunk: Literal["as asked", "always", "never"] = "as asked"
    done: Literal["sent", "missing"] = "sent"


class ScriptedAnswer(Struct):
    """The answer to one request so far."""

    number: int
    model: str
    created_s: int
    usage: ReportedUsage
    include_usage: bool = False
    parts: list[AnswerPart] = field(default_factory=list[AnswerPart])

    @property
    def open_part(self) -> AnswerPart | None:
        """The part that is still open, if any."""
        return self.parts[-1] if self.parts and not self.parts[-1].is_closed else None

    @property
    def natural_reason(self) -> Reason:
        """The finish reason that fits what has been said."""
        kinds = {part.kind for part in self.parts}
        if "refusal" in kinds:
            return "refused"
        return "tools" if "call" in kinds else "stop"

    def text_of(self, kind: PartKind) -> str:
        """All text of one kind, joined."""
        return "".join(part.text for part in self.parts if part.kind == kind)
