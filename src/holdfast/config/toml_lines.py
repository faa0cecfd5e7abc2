"""The line of each key in a TOML text, which the standard library's parser doesn't tell."""

import re
from bisect import bisect_right

from holdfast.config.sources import KeyPath
from holdfast.config.toml import parse_toml

_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_BLANK_OR_COMMA = re.compile(r"(?:[ \t\n,]|#[^\n]*)*")
_KEY = re.compile(r"""[ \t]*("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[A-Za-z0-9_-]+)[ \t]*""")
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
        self._note(path, line)
        path = (*path, self._last[path])
        self._note(path, line)
        return path

    def _header(self) -> KeyPath:
        line = self._line()
        return self._opened(self._keys("]"), line=line)

    def _opened(self, keys: list[str], *, line: int) -> KeyPath:
        """The table that a header names: in a list of tables, the last one."""
        path: KeyPath = ()
        for key in keys:
            path = (*path, key)
            self._note(path, line)
            if path in self._last:
                path = (*path, self._last[path])
        return path

    def _pair(self, table: KeyPath) -> None:
        line = self._line()
        path = table
        for key in self._keys("="):
            path = (*path, key)
            self._note(path, line)
        self._value(path)

    def _keys(self, end: str) -> list[str]:
        """A dotted key, up to and including its end."""
        keys: list[str] = []
        while True:
            match = _KEY.match(self._text, self._at)
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
            self._note((*path, index), self._line())
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

    def _note(self, path: KeyPath, line: int) -> None:
        self.lines.setdefault(path, line)


def _unquoted(key: str) -> str:
    return next(iter(parse_toml(f"{key} = 0"))) if key[0] in "\"'" else key
