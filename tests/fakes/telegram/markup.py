"""Telegram's HTML: reads it as Telegram does, into the text that people see and its entities."""

import re
from html import unescape

from msgspec import Struct, field

_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9-]*)([^<>]*)>")
_ENTITY = re.compile(r"&(lt|gt|amp|quot|#[0-9]{1,7}|#x[0-9a-fA-F]{1,6});")
_ATTRIBUTE = re.compile(r"""\s+([a-zA-Z-]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""")
_KINDS = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "tg-spoiler": "spoiler",
    "span": "spoiler",
    "code": "code",
    "pre": "pre",
    "a": "text_link",
    "blockquote": "blockquote",
}


class CannotParse(Exception):
    """The text is not what Telegram takes as HTML; the text says why, in Telegram's words."""


class _Open(Struct):
    tag: str
    at: int
    attributes: dict[str, str]
    language: str = ""


class _Reading(Struct):
    text: list[str] = field(default_factory=list[str])
    length: int = 0  # in UTF-16 units
    entities: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    stack: list[_Open] = field(default_factory=list[_Open])

    def say(self, text: str) -> None:
        self.text.append(text)
        self.length += utf16_units(text)

    def open(self, tag: str, attributes: dict[str, str]) -> None:
        self.stack.append(_Open(tag, self.length, attributes))

    def close(self, tag: str, offset: int) -> None:
        if not self.stack:
            raise CannotParse(f"Unexpected end tag at byte offset {offset}")
        opened = self.stack.pop()
        if opened.tag != tag:
            raise CannotParse(
                f'Unmatched end tag at byte offset {offset}, expected "</{opened.tag}>", found "</{tag}>"'
            )
        outer = self.stack[-1] if self.stack else None
        if tag == "code" and outer is not None and outer.tag == "pre":
            outer.language = opened.attributes.get("class", "").removeprefix("language-")
            return
        if self.length > opened.at:
            self.entities.append(_entity(opened, self.length))


def utf16_units(text: str) -> int:
    """How long Telegram says that the text is."""
    return len(text.encode("utf-16-le")) // 2


def read_html(source: str) -> tuple[str, list[dict[str, object]]]:
    """The text and its entities; raises CannotParse."""
    reading, at = _Reading(), 0
    while at < len(source):
        if source[at] == "<":
            at = _read_tag(reading, source, at)
        elif (found := _ENTITY.match(source, at)) is not None:
            reading.say(unescape(found[0]))
            at = found.end()
        else:
            reading.say(source[at])
            at += 1
    if reading.stack:
        raise CannotParse(f'Can\'t find end tag corresponding to start tag "{reading.stack[-1].tag}"')
    entities = sorted(reading.entities, key=lambda one: (one["offset"], -int(str(one["length"]))))
    return "".join(reading.text), entities


def _read_tag(reading: _Reading, source: str, at: int) -> int:
    offset = len(source[:at].encode())
    found = _TAG.match(source, at)
    if found is None:
        raise CannotParse(f'Unsupported start tag "" at byte offset {offset}')
    ends, tag, rest = found[1], found[2].lower(), found[3]
    if tag not in _KINDS:
        kind = "end" if ends else "start"
        raise CannotParse(f'Unsupported {kind} tag "{tag}" at byte offset {offset}')
    if ends:
        reading.close(tag, offset)
        return found.end()
    attributes = {
        one[1].lower(): unescape(one[2] or one[3] or one[4] or "") for one in _ATTRIBUTE.finditer(rest)
    }
    if tag == "span" and attributes.get("class") != "tg-spoiler":
        raise CannotParse(f'Tag "span" must have class "tg-spoiler" at byte offset {offset}')
    reading.open(tag, attributes)
    return found.end()


def _entity(opened: _Open, end: int) -> dict[str, object]:
    entity: dict[str, object] = {"type": _KINDS[opened.tag], "offset": opened.at, "length": end - opened.at}
    if opened.tag == "a":
        entity["url"] = opened.attributes.get("href", "")
    if opened.tag == "pre" and opened.language:
        entity["language"] = opened.language
    return entity
