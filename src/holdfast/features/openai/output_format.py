"""Structured output as OpenAI clients ask for it: response_format and text.format."""

import asyncio

import msgspec

from holdfast.agent.output import BadSchema, insist_on_schema
from holdfast.features.openai.bodies import JsonSchemaFormat, ResponseFormat, TextOptions
from holdfast.server.problems import bad_request
from holdfast.values import OutputFormat

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
