"""Fields of OpenAI requests that agents don't support: refused by name, harmless, or ignored and reported."""

import asyncio
import codecs
import re
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from holdfast.features.openai.bodies import (
    CHAT_HARMLESS,
    CHAT_REFUSED,
    RESPONSES_HARMLESS,
    RESPONSES_REFUSED,
    ChatRequest,
    ResponsesRequest,
)
from holdfast.features.openai.models import unsupported
from holdfast.server.transport.bodies import LARGE_BYTES, json_value

LOGPROBS = "message.output_text.logprobs"
LISTED_MAX = 20
_LISTED = re.compile(r"[A-Za-z0-9_.-]{1,64}")  # what a header can hold


class Parameters(Struct, frozen=True):
    """The known fields of one route's body."""

    honoured: frozenset[str]
    harmless: frozenset[str]
    refused: Mapping[str, tuple[object, ...]]

    @property
    def known(self) -> frozenset[str]:
        """All of them."""
        return self.honoured | self.harmless | frozenset(self.refused)


CHAT = Parameters(frozenset(ChatRequest.__struct_fields__), CHAT_HARMLESS, CHAT_REFUSED)
# Of what `include` asks for, there's nothing to leave out but log probabilities.
RESPONSES = Parameters(
    frozenset(ResponsesRequest.__struct_fields__) | {"include"}, RESPONSES_HARMLESS, RESPONSES_REFUSED
)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


async def ignored_fields(body: bytes, parameters: Parameters) -> Sequence[str]:
    """Return the names of unknown fields; raises a Problem for an unsupported one.

    The body was decoded before, so it's a JSON object.
    """
    if len(body) < LARGE_BYTES:
        return _ignored(body, parameters)
    return await asyncio.to_thread(_ignored, body, parameters)


def _ignored(body: bytes, parameters: Parameters) -> Sequence[str]:
    fields = _FIELDS.decode(body.removeprefix(codecs.BOM_UTF8))
    for name, usual in parameters.refused.items():
        value = json_value(fields[name], object) if name in fields else None
        if value is not None and value not in usual:
            why = "is replaced by 'tools'" if name in {"functions", "function_call"} else "isn't supported"
            raise unsupported(name, why)
    if "include" in fields and "include" in parameters.honoured:
        wanted = json_value(fields["include"], object)
        if isinstance(wanted, list) and LOGPROBS in wanted:
            raise unsupported("include", f"doesn't support {LOGPROBS}")
    return [name for name in fields if name not in parameters.known]


def ignored_header(names: Sequence[str]) -> dict[str, str]:
    """The header that names them."""
    shown = [name for name in names if _LISTED.fullmatch(name)][:LISTED_MAX]
    return {"X-Holdfast-Ignored": ", ".join(shown)} if shown else {}
