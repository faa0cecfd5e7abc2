"""Shell words without their quotes, and whether the text alone fixes what they mean.

A word is literal if every POSIX shell reads it as the same fixed text: letters, single quotes, and double
quotes without an expansion. Any other word keeps the best reading of its text, so that forbidden
commands are still recognised, and says why it is not literal.
"""

import posixpath
import re
from dataclasses import dataclass, field

UNREADABLE = "is ambiguous"
EXPANDED = "is expanded when the command runs"
JOINED = "contains a variable that is expanded when the command runs"  # `${a}b`, whose text is `$ab`
SUBSTITUTED = "contains the output of another command"
ESCAPED = "hides characters behind escapes"
GLOB = "is a file name pattern"
BRACES = "is a brace expansion"
TILDE = "begins with a home directory"
FROM_INPUT = "comes from the input"
LOOPED = "takes its values from the loop"

BLANKS = frozenset(" \t\n")
_ENDS = BLANKS | frozenset(";|&<>()")
_NAME = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_NAME_CHAR = re.compile(r"[A-Za-z0-9_]")
# What may follow a dollar sign that stands for itself; every other neighbour may begin an expansion.
_PLAIN_AFTER_DOLLAR = frozenset(" \t\n/|).,:;%=+\\]}^~&<>")
_ANSI = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|(.))", re.DOTALL
)
_ANSI_END = re.compile(r"(?:[^'\\]|\\.)*'", re.DOTALL)
_ANSI_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b"}
_CODE_POINT_MAX = 0x10FFFF


@dataclass(frozen=True, slots=True)
class Word:
    """One word: its text without quotes, and why it is not literal (empty if it is)."""

    text: str
    why: str = ""
    bare: bool = field(default=False, compare=False)  # written just so, without quotes and escapes

    @property
    def literal(self) -> bool:
        """Whether the text alone determines what the shell reads."""
        return not self.why


def read_word(raw: str) -> Word:
    """The one word that `raw` is, quotes and all."""
    reader = WordReader(raw)
    word = reader.word()
    return word if reader.at == len(raw) and raw else Word(raw, UNREADABLE)


def read_words(raw: str) -> tuple[Word, ...] | None:
    """The words of a text without operators, or None if it has operators."""
    reader = WordReader(raw)
    words: list[Word] = []
    while not reader.skip_blanks():
        start = reader.at
        words.append(reader.word())
        if reader.at == start:
            return None
    return tuple(words)


class WordReader:
    """Reads one word after the other; stops before blanks and operators."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self.at = 0
        self.text: list[str] = []
        self.why = ""

    def skip_blanks(self) -> bool:
        """Skip blanks; return whether the end is reached."""
        while self.at < len(self.raw) and self.raw[self.at] in BLANKS:
            self.at += 1
        return self.at == len(self.raw)

    def word(self) -> Word:
        """Read up to the next blank or operator."""
        start = self.at
        self.text, self.why = [], ""
        if self.raw.startswith("#", self.at):
            self.doubt(UNREADABLE)
        while self.at < len(self.raw) and self.raw[self.at] not in _ENDS:
            if self.step():
                # From a substitution on, only a full parser knows where the word ends; it asks anyway.
                self.at = len(self.raw)
                return Word(self.raw[start:], self.why)
        self.look_for_braces(start)
        text = "".join(self.text)
        return Word(text, self.why, bare=text == self.raw[start : self.at])

    def doubt(self, why: str) -> None:
        """Remember the first reason for which the word is not literal."""
        self.why = self.why or why

    def take(self, text: str, *, length: int) -> None:
        """Add to the word's text what `length` characters stand for."""
        self.text.append(text)
        self.at += length

    def step(self) -> bool:
        """Read one unquoted element; return whether the rest is beyond this reader."""
        match self.raw[self.at]:
            case "'":
                return self.single()
            case '"':
                return self.double()
            case "\\":
                self.escape()
            case "$":
                return self.dollar(after_quote=frozenset(), plain_at_end=True)
            case "`":
                self.doubt(SUBSTITUTED)
                return True
            case other:
                self.plain(other)
        return False

    def plain(self, char: str) -> None:
        """Read a character that stands for itself, unless its place gives it a meaning."""
        opens_class = char == "[" and self.raw[self.at + 1 : self.at + 2] not in {"", " ", "\t", "\n"}
        if char in "*?" or (opens_class and "]" in self.raw[self.at + 1 :]):
            self.doubt(GLOB)
        elif char == "~" and (self.at == 0 or self.raw[self.at - 1] in " \t\n=:"):
            self.doubt(TILDE)
        self.take(char, length=1)

    def escape(self) -> None:
        """Read a backslash outside quotes with what follows it."""
        self.doubt(ESCAPED)
        following = self.raw[self.at + 1 : self.at + 2]
        self.take("" if following == "\n" else following, length=2 if following else 1)

    def single(self) -> bool:
        """Read up to the closing single quote."""
        end = self.raw.find("'", self.at + 1)
        if end < 0:
            self.doubt(UNREADABLE)
            return True
        self.take(self.raw[self.at + 1 : end], length=end + 1 - self.at)
        return False

    def double(self) -> bool:
        """Read up to the closing double quote."""
        self.at += 1
        while self.at < len(self.raw):
            char = self.raw[self.at]
            if char == '"':
                self.at += 1
                return False
            if char == "`":
                self.doubt(SUBSTITUTED)
                return True
            if char == "$":
                if self.dollar(after_quote=frozenset('"'), plain_at_end=False):
                    return True
            elif char == "\\":
                self.escape_in_quotes()
            else:
                self.take(char, length=1)
        self.doubt(UNREADABLE)
        return True

    def escape_in_quotes(self) -> None:
        """Read a backslash inside double quotes, which escapes only four characters and the line's end."""
        following = self.raw[self.at + 1 : self.at + 2]
        if following == "\n":
            self.doubt(ESCAPED)
            self.take("", length=2)
        elif following and following in '"\\$`':
            self.take(following, length=2)
        else:
            self.take("\\", length=1)

    def dollar(self, *, after_quote: frozenset[str], plain_at_end: bool) -> bool:
        """Read a dollar sign and its name; return whether it begins something beyond this reader."""
        following = self.raw[self.at + 1 : self.at + 2]
        if (not following and plain_at_end) or following in _PLAIN_AFTER_DOLLAR | after_quote:
            self.take("$", length=1)
            return False
        if not after_quote and following == "'":
            return self.ansi()
        self.doubt(SUBSTITUTED if following == "(" else EXPANDED)
        if not after_quote and following == '"':
            self.at += 1
            return self.double()
        if name := _NAME.match(self.raw, self.at):
            self.take(f"${name[1] or name[2]}", length=len(name[0]))
            if name[1] and _NAME_CHAR.match(self.raw, self.at):
                self.why = JOINED
            return False
        if following in {"(", "{", "[", ""}:
            return True
        self.take(f"${following}", length=2)
        return False

    def ansi(self) -> bool:
        """Read $'…', whose escapes can spell anything."""
        self.doubt(ESCAPED)
        end = _ANSI_END.match(self.raw, self.at + 2)
        if end is None:
            self.doubt(UNREADABLE)
            return True
        self.take(_ANSI.sub(_ansi_char, end[0][:-1]), length=len(end[0]) + 2)
        return False

    def look_for_braces(self, start: int) -> None:
        """Mark a word whose braces may expand to several words."""
        raw = self.raw[start : self.at]
        if "{" not in raw:
            return
        inside = _without_quoted(raw).partition("{")[2].rpartition("}")[0]
        if "," in inside or ".." in inside:
            self.doubt(BRACES)


def _ansi_char(found: re.Match[str]) -> str:
    hexadecimal = found[1] or found[2] or found[3]
    if hexadecimal:
        code = int(hexadecimal, 16)
        return chr(code) if code <= _CODE_POINT_MAX else "\ufffd"
    if found[4]:
        return chr(int(found[4], 8) & 0xFF)
    return _ANSI_NAMED.get(found[5], found[5])


def _without_quoted(raw: str) -> str:
    """The word with its quoted parts masked, to see what is outside quotes."""
    return re.sub(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.", "_", raw, flags=re.DOTALL)


SYSTEM_DIRECTORIES = frozenset(
    ("/bin", "/usr/bin", "/sbin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/homebrew/bin")
)
# Parameters that stand for nothing in a shell that was given none.
NOTHING = re.compile(r"\$[@*!1-9]")
_VERSIONED = re.compile(r"(python|pip|perl|ruby|node|php|lua|tclsh|pypy)[0-9.]+")


def known_name(word: Word) -> str:
    """The name of a known system program, or empty if this may be another program."""
    text = word.text
    if not word.literal or not text.isascii():
        return ""
    if "/" not in text:
        return _family(text)
    directory, _, name = text.rpartition("/")
    plain = posixpath.normpath(text) == text and directory in SYSTEM_DIRECTORIES
    return _family(name) if plain else ""


def likely_name(word: Word) -> str:
    """The name of the program that this probably is: used to refuse, never to trust."""
    text = word.text if word.literal else NOTHING.sub("", word.text)
    return _family(text.rpartition("/")[2])


def _family(name: str) -> str:
    versioned = _VERSIONED.fullmatch(name)
    return versioned[1] if versioned else name
