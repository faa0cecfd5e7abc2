"""Markdown as Telegram's HTML, in messages that Telegram takes."""

import re
from html import escape, unescape
from typing import Final

from holdfast.features.channels.rich_text import (
    Spans,
    TextStyle,
    TextStyles,
    plain,
    rich_text,
    split,
    trimmed,
)

UNITS_MAX = 4096  # of the text that people see
ROOM_FOR_MARKS = 96  # kept free, so that a message can still be marked
PARTS_MAX = 20
TOO_LONG = "(Shortened. Read the full answer on the page.)"
FORMAT = (
    1  # a delivery names the format it was split by; if this module splits otherwise, it gets the next number
)
_TAGS: Final = {"bold": "b", "italic": "i", "strike": "s", "code": "code", "quote": "blockquote"}
_TAG = re.compile(r"<[^>]*>")
_LANGUAGE = re.compile(r"[A-Za-z0-9_+#.-]{1,32}")


def utf16_units(text: str) -> int:
    """How long Telegram says that the text is."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def telegram_html(markdown: str) -> list[str]:
    """The messages that say this, as Telegram's HTML; an empty text has none."""
    limit = UNITS_MAX - ROOM_FOR_MARKS
    parts = split(rich_text(_sendable(markdown)), units_max=limit, measure=utf16_units)
    texts = [rendered for part in parts if plain(part).strip() and (rendered := _rendered(part))]
    return texts if len(texts) <= PARTS_MAX else [*texts[: PARTS_MAX - 1], TOO_LONG]


def telegram_draft(markdown: str) -> str:
    """The end of a text that is still being written, as a preview without markup."""
    text = _sendable(markdown).strip()
    return text if len(text) <= UNITS_MAX // 2 else f"…{text[-UNITS_MAX // 2 + 1 :]}"


def escaped(text: str) -> str:
    """Any text, so that Telegram shows it as it is."""
    return escape(_sendable(text), quote=False)


def plain_of(html_text: str) -> str:
    """Return the visible text of HTML written by this module."""
    return unescape(_TAG.sub("", html_text))


def _sendable(text: str) -> str:
    """Without what can't be sent: lone surrogates and NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _rendered(spans: Spans) -> str:
    """Spans as HTML; styles that neighbours share stay open between them."""
    pieces: list[str] = []
    open_styles: TextStyles = ()
    for span in trimmed(spans):
        styles = _shown(span.styles)
        kept = _shared(open_styles, styles)
        pieces += [_close(style) for style in reversed(open_styles[kept:])]
        pieces += [_open(style) for style in styles[kept:]]
        pieces.append(escape(span.text, quote=False))
        open_styles = styles
    pieces += [_close(style) for style in reversed(open_styles)]
    return "".join(pieces)


def _shown(styles: TextStyles) -> TextStyles:
    """The styles that Telegram knows; code holds no other style and is in none but a quote or a link."""
    known = [style for style in styles if style.name in _TAGS or style.name in {"pre", "link"}]
    code = next((style for style in known if style.name in {"code", "pre"}), None)
    if code is None:
        return tuple(known)
    return (*(style for style in known if style.name in {"quote", "link"}), code)


def _shared(before: TextStyles, after: TextStyles) -> int:
    count = 0
    for one, other in zip(before, after, strict=False):
        if one != other:
            break
        count += 1
    return count


def _open(style: TextStyle) -> str:
    match style.name:
        case "pre" if _LANGUAGE.fullmatch(style.value):
            return f'<pre><code class="language-{escape(style.value)}">'
        case "pre":
            return "<pre>"
        case "link":
            return f'<a href="{escape(style.value)}">'
        case _:
            return f"<{_TAGS[style.name]}>"


def _close(style: TextStyle) -> str:
    match style.name:
        case "pre":
            return "</code></pre>" if _LANGUAGE.fullmatch(style.value) else "</pre>"
        case "link":
            return "</a>"
        case _:
            return f"</{_TAGS[style.name]}>"
