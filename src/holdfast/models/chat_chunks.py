"""The chunks of the Chat Completions wire, with only the fields that we read."""

from typing import Literal, TypeAlias

import msgspec

from holdfast.folds.gathered import Gathered
from holdfast.model_events import TokensUsed
from holdfast.models.wire import token_count, tokens_used, usage_table


def chat_tokens_used(usage: object) -> TokensUsed:
    """OpenAI's usage object, with the extra fields of DeepSeek (cache hits) and Moonshot (cached)."""
    found = usage_table(usage)
    prompt = usage_table(found.get("prompt_tokens_details"))
    completion = usage_table(found.get("completion_tokens_details"))
    sent = found.get("prompt_tokens")
    # xAI and Gemini leave reasoning out of completion_tokens and count it in the total.
    beyond_prompt = token_count(found.get("total_tokens")) - token_count(sent)
    return tokens_used(
        sent=sent,
        made=max(token_count(found.get("completion_tokens")), beyond_prompt),
        cached=prompt.get("cached_tokens")
        or found.get("prompt_cache_hit_tokens")
        or found.get("cached_tokens"),
        written=prompt.get("cache_write_tokens"),
        reasoning=completion.get("reasoning_tokens") or found.get("reasoning_tokens"),
    )


class Function(msgspec.Struct, gc=False):
    """A function call; `arguments` is a string in the protocol, but some servers send an object."""

    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw()


class ChatToolCall(msgspec.Struct, gc=False):
    """A piece of a tool call."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None
    extra_content: msgspec.Raw = msgspec.Raw()


class ChatPart(msgspec.Struct, gc=False):
    """Mistral sends content as parts, thinking among them."""

    type: str = ""
    text: str | None = None
    thinking: "str | list[ChatPart] | None" = None


class ReasoningDetail(msgspec.Struct, omit_defaults=True):
    """OpenRouter's form of reasoning, which some models need back unchanged."""

    type: str = ""
    id: str | None = None
    format: str | None = None
    index: int | None = None
    text: str | None = None
    summary: str | None = None
    data: str | None = None
    signature: str | None = None


class Details(msgspec.Struct):
    """The pieces of one reasoning detail; a stream brings thousands."""

    last: ReasoningDetail
    texts: Gathered = msgspec.field(default_factory=Gathered)
    summaries: Gathered = msgspec.field(default_factory=Gathered)

    def whole(self) -> ReasoningDetail:
        """The whole detail, to be sent back."""
        text, summary = str(self.texts), str(self.summaries)
        return msgspec.structs.replace(self.last, text=text or None, summary=summary or None)


class Delta(msgspec.Struct, gc=False):
    """What a chunk adds to the answer; all of it if the answer isn't streamed."""

    content: str | list[ChatPart] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[ReasoningDetail] | None = None
    refusal: str | None = None
    tool_calls: list[ChatToolCall] | None = None
    function_call: Function | None = None


class ChunkChoice(msgspec.Struct, gc=False):
    """One alternative; we ask for a single one."""

    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    index: int | None = None
    usage: object = None


class Chunk(msgspec.Struct, gc=False):
    """A chunk of the stream, or a whole answer."""

    choices: list[ChunkChoice] | None = None
    usage: object = None
    error: object = None
    x_groq: object = None


_Blank: TypeAlias = Literal[""] | None


class _TextDelta(msgspec.Struct, gc=False):
    content: str
    reasoning_content: _Blank = None
    reasoning: _Blank = None
    reasoning_details: None = None
    refusal: _Blank = None
    tool_calls: None = None
    function_call: None = None


class _TextChoice(msgspec.Struct, gc=False):
    delta: _TextDelta
    finish_reason: _Blank = None
    index: Literal[0] | None = None
    usage: None = None


class TextChunk(msgspec.Struct, gc=False):
    """A chunk with text and no other field that we read; decoding any other chunk fails."""

    choices: tuple[_TextChoice]
    usage: None = None
    error: None = None
    x_groq: None = None


CHUNK = msgspec.json.Decoder(Chunk)
TEXT = msgspec.json.Decoder(TextChunk)
