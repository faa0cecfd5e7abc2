"""The events of the Responses wire, with only the fields that we read."""

from typing import Literal

import msgspec

from holdfast.model_events import TokensUsed
from holdfast.models.wire import tokens_used, usage_table


class ResponsesPart(msgspec.Struct):
    """A part of a message or of reasoning."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None


class ResponsesItem(msgspec.Struct):
    """An item of the answer."""

    type: str = ""
    id: str | None = None
    status: str | None = None
    content: list[ResponsesPart] | None = None
    summary: list[ResponsesPart] | None = None
    encrypted_content: str | None = None
    phase: msgspec.Raw = msgspec.Raw()
    call_id: str | None = None
    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw()


def responses_tokens_used(usage: object) -> TokensUsed:
    """The token counts of a response."""
    found = usage_table(usage)
    sent = usage_table(found.get("input_tokens_details"))
    made = usage_table(found.get("output_tokens_details"))
    return tokens_used(
        sent=found.get("input_tokens"),
        made=found.get("output_tokens"),
        cached=sent.get("cached_tokens"),
        written=sent.get("cache_write_tokens"),
        reasoning=made.get("reasoning_tokens"),
    )


class Incomplete(msgspec.Struct, gc=False):
    """Why a response stopped short."""

    reason: str | None = None


class ResponsesResult(msgspec.Struct):
    """The response object; only its final state matters."""

    status: str | None = None
    output: list[ResponsesItem] | None = None
    usage: object = None
    incomplete_details: Incomplete | None = None
    error: msgspec.Raw = msgspec.Raw()


class ResponsesEvent(msgspec.Struct, gc=False):
    """Any event of the stream."""

    type: str = ""
    delta: str | None = None
    output_index: int | None = None
    item_id: str | None = None
    content_index: int | None = None
    summary_index: int | None = None
    arguments: str | None = None
    item: ResponsesItem | None = None
    response: ResponsesResult | None = None


class ResponsesTextDelta(msgspec.Struct, gc=False):
    """An event with text, its position and nothing else; decoding any other event fails."""

    type: Literal["response.output_text.delta"]
    delta: str
    output_index: int
    item_id: str | None = None
    content_index: int | None = None
    summary_index: int | None = None
    arguments: str | None = None
    item: None = None
    response: None = None


class NamedEvent(msgspec.Struct, gc=False):
    """An event of which only the name is known."""

    type: str = ""


EVENT = msgspec.json.Decoder(ResponsesEvent)
TEXT = msgspec.json.Decoder(ResponsesTextDelta)
NAMED = msgspec.json.Decoder(NamedEvent)
RESPONSE = msgspec.json.Decoder(ResponsesResult)
