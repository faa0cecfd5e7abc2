"""Descriptions and schemas of a server's tools for the model: cleaned and bounded.

Everything here comes from an untrusted server.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import cast

import msgspec

from holdfast.messages import ToolSpec
from holdfast.policy.tool_names import NAME_CHARS_MAX
from holdfast.tools.shell.output import cleaned

DESCRIPTION_CHARS_MAX = 1024
SCHEMA_BYTES_MAX = 32 * 1024
_PROPERTY_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# Providers refuse a request in which one tool has one of these at the top; the server checks its arguments.
_NOT_AT_THE_TOP = frozenset(
    {"anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else", "$schema"}
)
_DEPTH_MAX = 40


class ToolLeftOut(Exception):
    """A tool that can't be offered to a model. The text is the reason."""


def spec_for(name: str, server: str, *, description: str, schema: Mapping[str, object]) -> ToolSpec:
    """The tool's description for the model; raises ToolLeftOut."""
    origin = f"[from the MCP server {plain(server, chars_max=NAME_CHARS_MAX)}]"
    text = plain(description, chars_max=DESCRIPTION_CHARS_MAX, keep="\n")
    return ToolSpec(name=name, description=f"{origin} {text}".strip(), schema=_schema(schema))


def plain(text: str, *, chars_max: int, keep: str = "") -> str:
    """Text without control codes and invisible characters, up to a length."""
    # Overlong text is cut first: cleaning a megabyte for one line is a waste.
    text = cleaned(text[: 4 * chars_max])
    text = "".join(one if one in keep or _is_visible(one) else " " if one.isspace() else "" for one in text)
    text = text.strip()
    return text if len(text) <= chars_max else text[: chars_max - 1].rstrip() + "…"


def written_out(text: str) -> str:
    """The exact text, with invisible characters escaped."""
    return "".join(one if _is_visible(one) else ascii(one)[1:-1] for one in text)


def _is_visible(character: str) -> bool:
    # Format characters (Cf) reverse text or hide some in it; private and unassigned ones mean nothing.
    return character == " " or unicodedata.category(character) not in {
        "Cc",
        "Cf",
        "Cs",
        "Co",
        "Cn",
        "Zl",
        "Zp",
    }


def _schema(schema: Mapping[str, object]) -> dict[str, object]:
    try:
        size_bytes = len(msgspec.json.encode(schema))
    except (RecursionError, TypeError, ValueError) as error:
        raise ToolLeftOut("its input schema isn't JSON") from error
    if size_bytes > SCHEMA_BYTES_MAX:
        raise ToolLeftOut(f"its input schema has {size_bytes:,} bytes, more than {SCHEMA_BYTES_MAX:,}")
    kept = {key: value for key, value in schema.items() if key not in _NOT_AT_THE_TOP}
    properties = _plain_properties(kept.get("properties"))
    odd = [name for name in properties if not _PROPERTY_NAME.fullmatch(name)]
    if odd:
        raise ToolLeftOut(f"models don't accept an argument named {plain(odd[0], chars_max=80)!r}")
    kept["properties"] = properties
    required = kept.pop("required", None)
    if isinstance(required, list):
        kept["required"] = [name for name in cast("list[object]", required) if isinstance(name, str)]
    return {**cast("dict[str, object]", _cleaned_schema(kept, depth=0)), "type": "object"}


def _plain_properties(properties: object) -> dict[str, object]:
    """The schema of each argument; `true` becomes {}, which providers accept; `false` is dropped."""
    if not isinstance(properties, dict):
        return {}
    schemas = cast("dict[str, object]", properties)
    return {name: one if isinstance(one, dict) else {} for name, one in schemas.items() if one is not False}


def _cleaned_schema(value: object, *, depth: int) -> object:
    """The schema with its descriptions cleaned; what arguments are matched against is unchanged."""
    if depth > _DEPTH_MAX:
        raise ToolLeftOut("its input schema is nested too deeply")
    if isinstance(value, dict):
        return {
            key: plain(item, chars_max=DESCRIPTION_CHARS_MAX, keep="\n")
            if key in {"description", "title"} and isinstance(item, str)
            else _cleaned_schema(item, depth=depth + 1)
            for key, item in cast("dict[str, object]", value).items()
        }
    if isinstance(value, list):
        return [_cleaned_schema(item, depth=depth + 1) for item in cast("list[object]", value)]
    return value
