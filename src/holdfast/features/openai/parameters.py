"""Fields of OpenAI requests that agents don't support: refused by name, harmless, or ignored and reported.

Structured output as OpenAI clients ask for it: response_format and text.format.
"""

import asyncio
import codecs
import re
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from holdfast.agent.output import BadSchema, insist_on_schema
from holdfast.features.openai.bodies import (
    CHAT_HARMLESS,
    CHAT_REFUSED,
    RESPONSES_HARMLESS,
    RESPONSES_REFUSED,
    ChatRequest,
    JsonSchemaFormat,
    ResponseFormat,
    ResponsesRequest,
    TextOptions,
)
from holdfast.features.openai.models import unsupported
from holdfast.server.problems import bad_request
from holdfast.server.transport.bodies import LARGE_BYTES, json_value
from holdfast.values import OutputFormat

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


SCHEMA_BYTES_MAX = 65_536


async def chat_output(wanted: ResponseFormat | None) -> OutputFormat | None:
    """Parse response_format; None for text. Raises a Problem."""
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return OutputFormat()
    if wanted.json_schema is None:
        raise bad_request(
            "'response_format' of the type json_schema needs 'json_schema'", param="response_format"
        )
    return await _by_schema(wanted.json_schema, param="response_format.json_schema.schema")


async def responses_output(wanted: TextOptions | None) -> OutputFormat | None:
    """Parse text.format; None for text. Raises a Problem."""
    asked = wanted.format if wanted is not None else None
    if asked is None or asked.type == "text":
        return None
    if asked.type == "json_object":
        return OutputFormat()
    return await _by_schema(asked, param="text.format.schema")


async def _by_schema(asked: JsonSchemaFormat, *, param: str) -> OutputFormat:
    schema = asked.schema
    if not schema:
        raise bad_request(f"'{param}' is missing: set it to the JSON schema of the answer", param=param)
    if len(msgspec.json.encode(schema)) > SCHEMA_BYTES_MAX:
        raise bad_request(f"'{param}' is longer than {SCHEMA_BYTES_MAX // 1024} kB", param=param)
    try:
        await asyncio.to_thread(insist_on_schema, schema)
    except BadSchema as error:
        raise bad_request(f"'{param}' isn't a valid JSON schema: {error}", param=param) from error
    return OutputFormat(
        name=asked.name, description=asked.description or "", schema=schema, strict=bool(asked.strict)
    )


def shown_format(output: OutputFormat | None) -> dict[str, object]:
    """The format as a response shows it."""
    if output is None:
        return {"type": "text"}
    if not output.schema:
        return {"type": "json_object"}
    return {
        "type": "json_schema",
        "name": output.name,
        "description": output.description or None,
        "schema": output.schema,
        "strict": output.strict,
    }
