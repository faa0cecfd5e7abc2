"""Discord's markdown: reads it as Discord's clients do, into the text that people see and what is formatted.

The rules are tried at each place in this order, and the first that fits wins, as in those clients.
"""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

DEPTH_MAX = 20
ZERO_WIDTH = "\u200b"  # nobody sees it
_ESCAPE = re.compile(r"\\([^0-9A-Za-z\s])")
_BLOCK = re.compile(r"```(?:([A-Za-z0-9_+\-.#]+?)\n)?\n*([^\n](?:[^`]|`(?!``))*?)\n*```")
_CODE = re.compile(r"(`+)(.*?[^`])\1(?!`)", re.DOTALL)
_AUTOLINK = re.compile(r"<([^: >]+:/[^ >]+)>")
_SPECIAL: Final[Mapping[str, re.Pattern[str]]] = {
    "mention": re.compile(r"<@[!&]?\d+>|<#\d+>|<id:\w+>|@everyone|@here"),
    "emoji": re.compile(r"<a?:\w+:\d+>"),
    "time": re.compile(r"<t:-?\d+(?::[A-Za-z])?>"),
    "command": re.compile(r"</[^:>\n]+:\d+>"),
}
_URL = re.compile(r"https?://[^\s<]+[^<.,:;\"'\]\s]")
_LINK = re.compile(r"\[((?:\\.|[^\[\]\\])+)\]\(\s*<?((?:\([^)\s]*\)|[^\s\\()<>]|\\.)+)>?\s*\)")
_STRONG = re.compile(r"\*\*((?:\\[\s\S]|[^\\])+?)\*\*(?!\*)")
_UNDERLINE = re.compile(r"__((?:\\[\s\S]|[^\\])+?)__(?!_)")
_EM = re.compile(
    r"\*(?=\S)((?:\*\*|\\[\s\S]|\s+(?:\\[\s\S]|[^\s*\\]|\*\*)|[^\s*\\])+?)\*(?!\*)"
    r"|\b_((?:__|\\[\s\S]|[^\\_])+?)_\b"
)
_STRIKE = re.compile(r"~~(?=\S)((?:\\[\s\S]|~(?!~)|[^\s\\~]|\s(?!~~))+?)~~")
_SPOILER = re.compile(r"\|\|([\s\S]+?)\|\|")
_TEXT = re.compile(r"\w+(?=https?://)|[0-9A-Za-z\u00c0-\uffff]+|\s|[\s\S]")
_QUOTE = re.compile(r" *>>> +([\s\S]*)|(?: *>(?!>>) [^\n]*(?:\n|$))+")
_QUOTED_LINE = re.compile(r"^ *> ", re.MULTILINE)
_LINE_STARTS: Final[Mapping[str, re.Pattern[str]]] = {
    "heading": re.compile(r"#{1,3} +(?=\S)"),
    "small": re.compile(r"-# +(?=\S)"),
    "list": re.compile(r" *(?:[-*+]|\d+\.) +(?=\S)"),
}


class ReadMarkdown(Struct):
    """What people see, and what is formatted: kinds with their text or address."""

    text: str = ""
    entities: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def kinds(self) -> set[str]:
        """The kinds of formatting."""
        return {kind for kind, _ in self.entities}


def read_markdown(source: str) -> ReadMarkdown:
    """What a message looks like."""
    read = ReadMarkdown()
    _read(source, read, 0)
    read.text = read.text.replace(ZERO_WIDTH, "")
    return read


def _read(source: str, read: ReadMarkdown, depth: int) -> None:
    at = 0
    while at < len(source):
        is_line_start = at == 0 or source[at - 1] == "\n"
        if is_line_start and depth < DEPTH_MAX and (end := _line_start(source, at, read, depth)):
            at = end
            continue
        at = _inline(source, at, read, depth)


def _line_start(source: str, at: int, read: ReadMarkdown, depth: int) -> int:
    """A quote, heading or list item that begins here; where it goes on, or 0."""
    if quote := _QUOTE.match(source, at):
        inner = quote[1] if quote[1] is not None else _QUOTED_LINE.sub("", quote[0])
        before = len(read.text)
        _read(inner, read, depth + 1)
        read.entities.append(("quote", read.text[before:]))
        return quote.end()
    for kind, pattern in _LINE_STARTS.items():
        if found := pattern.match(source, at):
            read.entities.append((kind, found[0]))
            read.text += found[0] if kind == "list" else ""
            return found.end()
    return 0


def _inline(source: str, at: int, read: ReadMarkdown, depth: int) -> int:
    """One piece of text or formatting; where it ends."""
    for rule in (_escaped, _verbatim, _linked):
        if end := rule(source, at, read):
            return end
    if depth < DEPTH_MAX and (end := _styled(source, at, read, depth)):
        return end
    found = _TEXT.match(source, at)
    assert found is not None
    read.text += found[0]
    return found.end()


def _escaped(source: str, at: int, read: ReadMarkdown) -> int:
    if found := _ESCAPE.match(source, at):
        read.text += found[1]
        return found.end()
    return 0


def _verbatim(source: str, at: int, read: ReadMarkdown) -> int:
    """Code, and the marks in angle brackets."""
    if found := _BLOCK.match(source, at):
        read.entities.append(("pre", found[1] or ""))
        read.text += found[2]
        return found.end()
    if found := _CODE.match(source, at):
        inner = re.sub(r"^ (?= *`)|(` *) $", r"\1", found[2])
        read.entities.append(("code", inner))
        read.text += inner
        return found.end()
    for kind, pattern in _SPECIAL.items():
        if found := pattern.match(source, at):
            read.entities.append((kind, found[0]))
            read.text += found[0]
            return found.end()
    return 0


def _linked(source: str, at: int, read: ReadMarkdown) -> int:
    if found := _AUTOLINK.match(source, at):
        read.entities.append(("link", found[1]))
        read.text += found[1]
        return found.end()
    if found := _URL.match(source, at):
        read.entities.append(("link", found[0]))
        read.text += found[0]
        return found.end()
    if found := _LINK.match(source, at):
        inner = ReadMarkdown()
        _read(found[1], inner, DEPTH_MAX - 2)
        read.entities += [*inner.entities, ("link", found[2])]
        read.text += inner.text
        return found.end()
    return 0


def _styled(source: str, at: int, read: ReadMarkdown, depth: int) -> int:
    """Bold, italic and so on: of those that fit here, the longest."""
    patterns = {
        "italic": _EM,
        "bold": _STRONG,
        "underline": _UNDERLINE,
        "strike": _STRIKE,
        "spoiler": _SPOILER,
    }
    found = [(kind, match) for kind, pattern in patterns.items() if (match := pattern.match(source, at))]
    if not found:
        return 0
    kind, match = max(found, key=lambda one: one[1].end())
    before = len(read.text)
    _read(next(group for group in match.groups() if group is not None), read, depth + 1)
    read.entities.append((kind, read.text[before:]))
    return match.end()
