"""The three wires: which path speaks which, and what each must be able to write."""

from typing import Protocol

from holdfast.chaos.answer import AnswerEnding, AnswerPart, ProviderError, ScriptedAnswer, WireName
from holdfast.chaos.anthropic import AnthropicWire
from holdfast.chaos.chat_completions import ChatCompletionsWire
from holdfast.chaos.frames import ChaosFrame, JsonObject
from holdfast.chaos.responses import ResponsesWire


class Wire(Protocol):
    """Writes one answer in one protocol: frames while it streams, or one body at the end."""

    @property
    def answer(self) -> ScriptedAnswer:
        """The answer so far."""
        ...

    def begin(self) -> list[ChaosFrame]:
        """The opening events; asked for once."""
        ...

    def lifecycle(self) -> list[ChaosFrame]:
        """An event that says nothing but that the server is at work."""
        ...

    def ping(self) -> list[ChaosFrame]:
        """A keep-alive."""
        ...

    def open(self, part: AnswerPart) -> list[ChaosFrame]:
        """Open a part, closing the one that is open."""
        ...

    def delta(self, text: str) -> list[ChaosFrame]:
        """Add to the open part."""
        ...

    def close(self) -> list[ChaosFrame]:
        """Close the open part, if there is one."""
        ...

    def finish(self, ending: AnswerEnding) -> list[ChaosFrame]:
        """The terminal events; asked for again, they repeat."""
        ...

    def error(self, fault: ProviderError) -> list[ChaosFrame]:
        """An error in mid-stream."""
        ...

    def body(self, ending: AnswerEnding) -> JsonObject:
        """The whole answer as one JSON object."""
        ...

    def error_body(self, status: int, fault: ProviderError) -> JsonObject:
        """The body of an error status."""
        ...


def wire_of_path(path: str) -> WireName | None:
    """The wire that a POST to this path speaks."""
    bare = path.partition("?")[0].rstrip("/")
    if bare.endswith("/chat/completions"):
        return "chat_completions"
    if bare.endswith("/responses"):
        return "responses"
    if bare.endswith("/messages"):
        return "anthropic"
    return None


def wire_for(name: WireName, answer: ScriptedAnswer) -> Wire:
    """A writer of this answer for this wire."""
    wires: dict[WireName, type[ResponsesWire | ChatCompletionsWire | AnthropicWire]] = {
        "responses": ResponsesWire,
        "chat_completions": ChatCompletionsWire,
        "anthropic": AnthropicWire,
    }
    return wires[name](answer)
