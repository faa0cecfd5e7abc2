"""Parses git's configuration without git, because git may already act on a file that it is asked about."""

import re
from collections.abc import Iterator

from msgspec import Struct

ENTRIES_MAX = 10_000

_SECTION = re.compile(r'\[([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\\n]|\\[^\n])*)")?\]')
_NAME = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*")
_QUOTED = re.compile(r"\\(.)")
_BLANK = frozenset(" \t\n\r")
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b", '"': '"', "\\": "\\"}
_TRUE = frozenset(("true", "yes", "on"))
_FALSE = frozenset(("false", "no", "off", ""))


class BadGitConfig(ValueError):
    """A text that git would not accept as a configuration, or that this parser does not accept."""


class Setting(Struct, frozen=True):
    """One line of a configuration; git compares section and name without case, the part between with it."""

    section: str
    part: str
    name: str
    value: str | None  # None: the name stands alone, which means true
    file: str = ""

    @property
    def key(self) -> str:
        """The whole name, as git prints it."""
        return ".".join(filter(None, (self.section, self.part, self.name)))

    @property
    def boolean(self) -> bool | None:
        """The value as git reads a boolean; None if it is not one."""
        value = "true" if self.value is None else self.value.lower()
        if re.fullmatch(r"[+-]?\d+", value):
            return value.strip("+-0") != ""  # int() refuses more than 4,300 digits
        return True if value in _TRUE else False if value in _FALSE else None


def read_git_config(data: bytes, *, file: str = "") -> tuple[Setting, ...]:
    """Every setting of a file, in order; raises BadGitConfig where git would report an error."""
    if b"\0" in data:
        raise BadGitConfig("it holds a NUL byte")
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    settings: list[Setting] = []
    for setting in _Reader(text, file).settings():
        settings.append(setting)
        if len(settings) > ENTRIES_MAX:
            raise BadGitConfig(f"it has more than {ENTRIES_MAX:,} settings")
    return tuple(settings)


class _Reader:
    """Goes through a text once; `at` is the next character."""

    def __init__(self, text: str, file: str) -> None:
        self._text = text
        self._file = file
        self._at = 0

    def settings(self) -> Iterator[Setting]:
        section, part = "", ""
        while self._skip_blanks():
            if self._text[self._at] == "[":
                section, part = self._section()
                continue
            found = _NAME.match(self._text, self._at)
            if found is None or not section:
                raise BadGitConfig(f"its line {self._line()} cannot be read")
            self._at = found.end()
            yield Setting(section, part, found[1].lower(), self._assigned(), self._file)

    def _skip_blanks(self) -> bool:
        """Skip blanks and comments; return whether anything is left."""
        while self._at < len(self._text):
            char = self._text[self._at]
            if char in "#;":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            elif char in _BLANK:
                self._at += 1
            else:
                return True
        return False

    def _section(self) -> tuple[str, str]:
        found = _SECTION.match(self._text, self._at)
        if found is None:
            raise BadGitConfig(f"its line {self._line()} is not a section")
        self._at = found.end()
        if found[2] is not None:
            return found[1].lower(), _QUOTED.sub(r"\1", found[2])
        # [section.part], an old spelling in which the part has no case either.
        section, _, part = found[1].lower().partition(".")
        return section, part

    def _assigned(self) -> str | None:
        char = self._text[self._at : self._at + 1]
        if char in {"", "\n"}:
            return None
        if char != "=":
            raise BadGitConfig(f"its line {self._line()} cannot be read")
        self._at += 1
        return self._value()

    def _value(self) -> str:
        """The rest of the line, unquoted and unescaped, without comments and surrounding blanks."""
        pieces: list[str] = []
        solid = 0  # up to here nothing is a blank at the end
        quoted = False
        while self._at < len(self._text) and (char := self._text[self._at]) != "\n":
            self._at += 1
            if char == '"':
                quoted = not quoted
                solid = len(pieces)
            elif not quoted and char in "#;":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            elif not quoted and char in _BLANK:
                pieces += (char,) if pieces else ()
            else:
                pieces += self._escaped() if char == "\\" else (char,)
                solid = len(pieces)
        if quoted:
            raise BadGitConfig(f"its line {self._line()} has an open quote")
        return "".join(pieces[:solid])

    def _escaped(self) -> tuple[str, ...]:
        char = self._text[self._at : self._at + 1]
        self._at += 1
        if char in {"\n", ""}:
            return ()  # the value continues in the next line; for git, a file ends with one
        if char not in _ESCAPES:
            raise BadGitConfig(f"its line {self._line()} has an escape that git does not know")
        return (_ESCAPES[char],)

    def _line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1
