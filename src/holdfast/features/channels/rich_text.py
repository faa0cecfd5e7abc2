"""Parses markdown into styled spans and splits it into messages.

Text is never mixed with markup: only the platform's renderer adds markup around a span. So user text can't
break out of its formatting, and a split closes and reopens styles.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Struct, field

CHARS_MAX = 100_000  # of the markdown; longer text is shortened, with a note
CUT = "\n\n(Shortened. Read the full answer on the page.)"
RULE = "———"
BULLET = "•"
_STYLES: Final = {"strong": "bold", "em": "italic", "s": "strike"}
NESTED_MAX = 60  # deeper nesting is shown as source, because the parser would drop it
_MARKDOWN = MarkdownIt("commonmark", {"html": False, "maxNesting": 5 * NESTED_MAX}).enable(
    ["table", "strikethrough"]
)
_NESTING = re.compile(r"(?:[ \t]{2}|>|[-+*](?=[ \t])|\d{1,9}[.)](?=[ \t]))")
_LEADING = re.compile(r"(?:[ \t]|>|[-+*](?=[ \t])|\d{1,9}[.)](?=[ \t]))+")


class TextStyle(Struct, frozen=True):
    """The style of a span: bold, italic, strike, code, pre, quote or link.

    `value` is the language of code, or the URL of a link.
    """

    name: str
    value: str = ""


TextStyles: TypeAlias = tuple[TextStyle, ...]


class Span(Struct, frozen=True):
    """Text with its styles, outermost first."""

    text: str
    styles: TextStyles = ()


Spans: TypeAlias = Sequence[Span]
Measure: TypeAlias = Callable[[str], int]


def rich_text(markdown: str) -> list[list[Span]]:
    """Parse markdown into blocks: paragraphs, headings, items, quotes, code and tables."""
    text = markdown if len(markdown) <= CHARS_MAX else markdown[:CHARS_MAX] + CUT
    if any(_depth(line) > NESTED_MAX for line in text.splitlines()):
        return [[Span(paragraph)] for paragraph in text.split("\n\n") if paragraph.strip()]
    reader = _Reader()
    reader.read(_MARKDOWN.parse(text))
    return [block for block in reader.blocks if any(span.text.strip() for span in block)]


def _depth(line: str) -> int:
    """Return an upper bound for the nesting depth of a line in lists and quotes."""
    leading = _LEADING.match(line)
    return len(_NESTING.findall(leading[0])) if leading is not None else 0


def split(blocks: Sequence[Spans], *, units_max: int, measure: Measure) -> list[list[Span]]:
    """Split the blocks into messages of this maximum length, between blocks, lines or words."""
    messages: list[list[Span]] = []
    current: list[Span] = []
    for block in blocks:
        joined = [*current, Span(_gap(current, block)), *block] if current else [*block]
        if _units(joined, measure) <= units_max:
            current = joined
            continue
        if current:
            messages.append(current)
        *whole, current = _pieces(block, units_max=units_max, measure=measure)
        messages.extend(whole)
    return [*messages, current] if current else messages


def plain(spans: Spans) -> str:
    """Return the plain text."""
    return "".join(span.text for span in spans)


def _gap(before: Spans, block: Spans) -> str:
    """Return the gap between blocks; items of one list have no blank line between them."""
    return "\n" if _is_item(before) and _is_item(block) else "\n\n"


def _is_item(spans: Spans) -> bool:
    return any(span.styles == (_ITEM,) for span in spans[-1:]) or any(
        span.styles == (_ITEM,) for span in spans[:1]
    )


_ITEM = TextStyle("item")  # marks where a list item begins and ends; no platform shows it


def _units(spans: Spans, measure: Measure) -> int:
    return sum(measure(span.text) for span in spans)


def _pieces(block: Spans, *, units_max: int, measure: Measure) -> list[list[Span]]:
    """Split one block into chunks that fit; always at least one."""
    pieces: list[list[Span]] = [[]]
    room = units_max
    for span in block:
        rest = span.text
        while rest:
            accepted = _that_fits(rest, room=room, measure=measure)
            if not accepted:
                pieces.append([])
                room = units_max
                continue
            pieces[-1].append(Span(accepted, span.styles))
            room -= measure(accepted)
            rest = rest[len(accepted) :]
            if rest:
                pieces.append([])
                room = units_max
    return pieces


def _that_fits(text: str, *, room: int, measure: Measure) -> str:
    """Return the longest prefix that fits: whole lines, else words, else characters."""
    if measure(text) <= room:
        return text
    low, high = 0, min(len(text), room)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if measure(text[:middle]) <= room else (low, middle - 1)
    fitting = text[:low]
    for border in ("\n", " "):
        if (at := fitting.rfind(border)) > len(fitting) // 4:
            return fitting[: at + 1]
    return fitting


class _Reader(Struct):
    """Converts markdown tokens to blocks."""

    blocks: list[list[Span]] = field(default_factory=list[list[Span]])
    quotes: int = 0
    lists: list[int] = field(default_factory=list[int])  # the next number of each open list, 0 for bullets
    pending: str = ""  # the marker of an item, until its first text

    def read(self, tokens: Sequence[Token]) -> None:
        at = 0
        while at < len(tokens):
            token = tokens[at]
            match token.type:
                case "inline":
                    heading = tokens[at - 1].type == "heading_open"
                    self._add(list(_inline(token, (TextStyle("bold"),) if heading else ())))
                case "fence" | "code_block":
                    language = token.info.split()[0] if token.info.split() else ""
                    self._add([Span(token.content.rstrip("\n"), (TextStyle("pre", language),))])
                case "hr":
                    self._add([Span(RULE)])
                case "table_open":
                    end = next(i for i in range(at, len(tokens)) if tokens[i].type == "table_close")
                    self._add([Span(_table(tokens[at:end]), (TextStyle("pre"),))])
                    at = end
                case _:
                    self._nest(token)
            at += 1

    def _nest(self, token: Token) -> None:
        match token.type:
            case "blockquote_open":
                self.quotes += 1
            case "blockquote_close":
                self.quotes -= 1
            case "bullet_list_open":
                self.lists.append(0)
            case "ordered_list_open":
                self.lists.append(int(str(token.attrs.get("start", 1))))
            case "bullet_list_close" | "ordered_list_close":
                self.lists.pop()
            case "list_item_open":
                number = self.lists[-1]
                self.pending = f"{number}. " if number else f"{BULLET} "
                self.lists[-1] += 1 if number else 0
            case _:
                pass

    def _add(self, spans: list[Span]) -> None:
        if self.lists:
            indent = "  " * (len(self.lists) - 1)
            lead = indent + (self.pending or "  ")
            self.pending = ""
            spans = [Span(lead, (_ITEM,)), *spans, Span("", (_ITEM,))]
        if self.quotes:
            quote = TextStyle("quote")
            spans = [
                span if span.styles == (_ITEM,) and not span.text else Span(span.text, (quote, *span.styles))
                for span in spans
            ]
        self.blocks.append(spans)


def _inline(token: Token, outer: TextStyles) -> Iterator[Span]:
    """Yield the spans of a paragraph or heading."""
    open_styles = list(outer)
    for child in token.children or []:
        styles = tuple(open_styles)
        match child.type:
            case "strong_open" | "em_open" | "s_open":
                open_styles.append(TextStyle(_STYLES[child.tag]))
            case "link_open":
                open_styles.append(_link(str(child.attrs.get("href", ""))))
            case "strong_close" | "em_close" | "s_close" | "link_close":
                open_styles.pop()
            case "code_inline":
                yield Span(child.content, (*styles, TextStyle("code")))
            case "softbreak" | "hardbreak":
                yield Span("\n", styles)
            case "image":
                yield Span(child.content or "image", (*styles, _link(str(child.attrs.get("src", "")))))
            case _:
                yield Span(child.content, styles)


def _link(address: str) -> TextStyle:
    """Return the link style if the URL is safe in a chat; other links become plain text."""
    is_safe = address.startswith(("https://", "http://", "mailto:"))
    return TextStyle("link", address) if is_safe else TextStyle("plain")


def _table(tokens: Sequence[Token]) -> str:
    """Format a table as aligned text."""
    rows: list[list[str]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(plain(list(_inline(token, ()))).replace("\n", " "))
    columns = max(len(row) for row in rows)
    widths = [max(len(row[at]) if at < len(row) else 0 for row in rows) for at in range(columns)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def trimmed(spans: Spans) -> list[Span]:
    """Return the spans without empty ones, and without space at both ends, which platforms cut anyway."""
    kept = [span for span in spans if span.text]
    while kept and not kept[0].text.strip():
        kept.pop(0)
    while kept and not kept[-1].text.strip():
        kept.pop()
    return kept
