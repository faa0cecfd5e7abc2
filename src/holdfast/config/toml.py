"""Parses TOML within limits, and explains in plain words why a text is invalid."""

import re
import tomllib
from collections.abc import Callable
from typing import Any, TypeAlias

from holdfast.config.sources import BadConfiguration

_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_TWICE = re.compile(r"Cannot declare \((.*?),?\) twice")
_KEY = re.compile(r"\s*[\w.\"'-]+\s*")
_BARE_TEXT = re.compile(r"(\s*[\w.-]+\s*)=\s*[^\s\"'\[{#\d+-]")
_BIG_WORD = re.compile(r"=\s*(?:True|False)\b")
_CURLY = re.compile("[\u201c\u201d\u201e\u2018\u2019\u201a\xab\xbb]")
_LISTS = ("targets", "mcp_servers", "channels", "hooks", "approvals.rules")
_SECOND_TIME = ("Cannot overwrite a value", "Duplicate inline table key")

TEXT_CHARS_MAX = 256 * 1024
KEY_PARTS_MAX = 64
# Possessive, so that the search takes linear time. It also rejects values of that many dotted words.
_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![\w-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{KEY_PARTS_MAX}}}", re.ASCII)

Hint: TypeAlias = Callable[[str, str], str]


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a text of any origin; raises ValueError or RecursionError.

    The standard parser takes quadratic time for dotted keys, so their length is limited first.
    """
    if len(text) > TEXT_CHARS_MAX:
        raise ValueError(f"it has more than {TEXT_CHARS_MAX:,} characters")
    if _LONG_KEY.search(text):
        raise ValueError(f"a key has more than {KEY_PARTS_MAX} parts")
    return tomllib.loads(text)


def parsed(text: str, place: str) -> dict[str, object]:
    """The tree of a TOML text. Raises BadConfiguration with the line and, if it can tell, the mistake."""
    try:
        return parse_toml(text)
    except RecursionError as error:
        raise BadConfiguration([f"{place}: the tables are nested too deeply"]) from error
    except ValueError as error:
        raise BadConfiguration([_unreadable(text, place, why=str(error))]) from error


def _unreadable(text: str, place: str, *, why: str) -> str:
    match = _PLACE.search(why)
    if match is None:
        return f"{place}: not valid TOML: {why}"
    why = why[: match.start()]
    lines = text.replace("\r\n", "\n").split("\n")
    line = lines[int(match[1]) - 1 if match[1] else -1]
    told = next((found for hint in _HINTS if (found := hint(why, line))), "")
    spot = f"line {match[1]}" if match[1] else "at the end"
    return f"{place}, {spot}: not valid TOML: {why}{f'; {told}' if told else ''}"


def _second_table(why: str, _line: str) -> str:
    match = _TWICE.match(why)
    if match is None:
        return ""
    name = ".".join(part.strip().strip("'\"") for part in match[1].split(","))
    if name in _LISTS:
        return f"start each of them with [[{name}]]"
    return f"the table [{name}] appears twice: put all its keys in one place"


def _second_key(why: str, line: str) -> str:
    if not why.startswith(_SECOND_TIME):
        return ""
    name = line.strip().strip("[]")
    if name in _LISTS:
        return f"start each of them with [[{name}]]"
    return "this key or table appears twice: keep one of them"


def _curly_quotes(why: str, line: str) -> str:
    if why.startswith("Unterminated"):
        return ""
    return "it has curly quotes: use straight ones, \" or '" if _CURLY.search(line) else ""


def _no_equals(why: str, line: str) -> str:
    if not why.startswith(("Expected '='", "Invalid statement")):
        return ""
    if line.lstrip().startswith("{"):
        return "it looks like JSON"
    key = _KEY.match(line)
    return "write key = value" if key and line[key.end() :].startswith(":") else ""


def _bare_text(why: str, line: str) -> str:
    """The value may be a key, so it is not repeated."""
    if why != "Invalid value":
        return ""
    if _BIG_WORD.search(line):
        return "write true and false in lower case"
    match = _BARE_TEXT.match(line)
    return f'text needs quotes: {match[1].strip()} = "…"' if match else ""


def _backslash(why: str, line: str) -> str:
    escapes = ("Unescaped", "Invalid hex value", "Escaped character")
    if "\\" in line and why.startswith(escapes):
        return "\\ is special inside double quotes: put the text in single quotes"
    return ""


def _open_text(why: str, _line: str) -> str:
    return "the closing quote is missing" if why.startswith("Illegal character '\\n'") else ""


_HINTS: tuple[Hint, ...] = (
    _second_table,
    _second_key,
    _backslash,
    _curly_quotes,
    _no_equals,
    _bare_text,
    _open_text,
)
