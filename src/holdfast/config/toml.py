"""Parses TOML within limits, and explains in plain words why a text is invalid.

The line of each key in a TOML text, which the standard library's parser doesn't tell.
"""

import re
import tomllib
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, TypeAlias

from holdfast.config.sources import BadConfiguration, KeyPath

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


_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_BLANK_OR_COMMA = re.compile(r"(?:[ \t\n,]|#[^\n]*)*")
_ONE_KEY = re.compile(r"""[ \t]*("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[A-Za-z0-9_-]+)[ \t]*""")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})'  # a long text may end with quotes of its own
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'",
    re.DOTALL,
)
_BARE = re.compile(r"[^,\]}\n#]*")


class _Lost(Exception):
    """The text continues in a way that the scanner doesn't know."""


def lines_of(text: str) -> dict[KeyPath, int]:
    """The line, from 1, of every table, key and list item of a text that tomllib has read."""
    scanner = _Scanner(text.replace("\r\n", "\n"))
    try:
        scanner.scan()
    except (_Lost, RecursionError, ValueError):
        return scanner.lines  # a missing line makes an error vaguer, not wrong
    return scanner.lines


class _Scanner:
    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._text = text
        self._at = 0
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._last: dict[KeyPath, int] = {}  # of each list of tables, the index of the open one

    def scan(self) -> None:
        table: KeyPath = ()
        while self._skip(_BLANK):
            if self._next("[["):
                table = self._tables_header()
            elif self._next("["):
                table = self._header()
            else:
                self._pair(table)

    def _tables_header(self) -> KeyPath:
        line = self._line()
        *within, name = self._keys("]]")
        path = (*self._opened(within, line=line), name)
        self._last[path] = self._last.get(path, -1) + 1
        self.lines.setdefault(path, line)
        path = (*path, self._last[path])
        self.lines.setdefault(path, line)
        return path

    def _header(self) -> KeyPath:
        line = self._line()
        return self._opened(self._keys("]"), line=line)

    def _opened(self, keys: list[str], *, line: int) -> KeyPath:
        """The table that a header names: in a list of tables, the last one."""
        path: KeyPath = ()
        for key in keys:
            path = (*path, key)
            self.lines.setdefault(path, line)
            if path in self._last:
                path = (*path, self._last[path])
        return path

    def _pair(self, table: KeyPath) -> None:
        line = self._line()
        path = table
        for key in self._keys("="):
            path = (*path, key)
            self.lines.setdefault(path, line)
        self._value(path)

    def _keys(self, end: str) -> list[str]:
        """A dotted key, up to and including its end."""
        keys: list[str] = []
        while True:
            match = _ONE_KEY.match(self._text, self._at)
            if match is None:
                raise _Lost
            self._at = match.end()
            keys.append(_unquoted(match[1]))
            if self._next(end):
                return keys
            if not self._next("."):
                raise _Lost

    def _value(self, path: KeyPath) -> None:
        self._skip(_BLANK)
        if self._next("["):
            self._list(path)
        elif self._next("{"):
            while self._skip(_BLANK_OR_COMMA) and not self._next("}"):
                self._pair(path)
        else:
            match = _STRING.match(self._text, self._at) or _BARE.match(self._text, self._at)
            assert match is not None, "a bare value may be empty"
            self._at = match.end()

    def _list(self, path: KeyPath) -> None:
        index = 0
        while self._skip(_BLANK_OR_COMMA) and not self._next("]"):
            before = self._at
            self.lines.setdefault((*path, index), self._line())
            self._value((*path, index))
            index += 1
            if self._at == before:
                raise _Lost

    def _skip(self, what: re.Pattern[str]) -> bool:
        """Skip what matches; whether anything follows."""
        match = what.match(self._text, self._at)
        assert match is not None, "there may be nothing to skip"
        self._at = match.end()
        return self._at < len(self._text)

    def _next(self, text: str) -> bool:
        found = self._text.startswith(text, self._at)
        self._at += len(text) if found else 0
        return found

    def _line(self) -> int:
        return bisect_right(self._ends, self._at - 1) + 1


def _unquoted(key: str) -> str:
    return next(iter(parse_toml(f"{key} = 0"))) if key[0] in "\"'" else key
