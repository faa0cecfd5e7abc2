"""Markdown as Discord shows it, in messages that Discord takes.

Text and markup are apart until the end: each special character of a text is escaped, and markup is put around
it. Mentions are text, too; besides, every message forbids Discord to notify anyone.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from holdfast.features.channels.rich_text import Span, Spans, TextStyle, TextStyles, rich_text, split, trimmed

UNITS_MAX = 2_000  # of the text with its markup
ROOM_FOR_MARKS = 40  # kept free, so that a message can still be marked
PARTS_MAX = 40
TOO_LONG = "(Shortened. Read the full answer on the page.)"
FORMAT = 1  # a delivery names the format it was split by; if this module splits otherwise, it is the next
PIECE_UNITS_MIN = 64  # a piece this small fits with any markup but long addresses
NOTHING = "\u200b"  # takes no room on screen; keeps two marks apart
_MARKS: Final = {"bold": "**", "italic": "*", "strike": "~~"}
_FENCE = "```"
_ADDRESS = re.compile(r"https?://[^\s<>]+")
_TRAILING = ".,:;!?\"')]}*_~|`"
_UNSAFE_IN_ADDRESS = re.compile(r"[*~|`\\\[\]()<>\"\s]")
_SPECIAL = re.compile(r"[\\*_~|`<>\[\]#@]")
_LINE_START = re.compile(r"^( *)([-+]|\d+(?=\.))", re.MULTILINE)
_LANGUAGE = re.compile(r"[A-Za-z0-9_+#.-]{1,32}")


def utf16_units(text: str) -> int:
    """How long a text is; never less than what Discord counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def discord_markdown(markdown: str) -> list[str]:
    """The messages that say this, as Discord's markdown; an empty text has none."""
    blocks = rich_text(_sendable(markdown))
    texts = [text for text in _fitting(blocks, UNITS_MAX - ROOM_FOR_MARKS) if text.strip()]
    return texts if len(texts) <= PARTS_MAX else [*texts[: PARTS_MAX - 1], TOO_LONG]


def discord_draft(markdown: str) -> str:
    """Render a preview as one message: the end of it, if it's long."""
    parts = discord_markdown(markdown[-4 * UNITS_MAX :])
    return "" if not parts else parts[0] if len(parts) == 1 else f"…\n{parts[-1]}"


def escaped(text: str) -> str:
    """Any text, so that Discord shows it as it is."""
    return _escaped(_sendable(text))


def code_block(text: str, language: str = "") -> str:
    """Any text in a fixed width."""
    return _open(TextStyle("pre", language)) + _inside_code(_sendable(text)) + f"\n{_FENCE}"


def cut_to(text: str, units_max: int, render: Callable[[str], str]) -> str:
    """Any text as it is rendered, of at most this length: its beginning, if it is too long."""
    if utf16_units(render(text)) <= units_max:
        return render(text)
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        fits = utf16_units(render(f"{text[:middle]}…")) <= units_max
        low, high = (middle, high) if fits else (low, middle - 1)
    return render(f"{text[:low]}…")


def _sendable(text: str) -> str:
    """Without what can't be sent: lone surrogates and NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _fitting(blocks: Sequence[Spans], limit: int) -> list[str]:
    """The blocks in messages that fit with their markup."""
    texts: list[str] = []
    for part in split(blocks, units_max=limit, measure=_measure):
        text = _rendered(part)
        if utf16_units(text) <= UNITS_MAX - ROOM_FOR_MARKS:
            texts.append(text)
        elif limit > PIECE_UNITS_MIN:  # there is much markup in it
            texts += _fitting([part], max(PIECE_UNITS_MIN, limit // 2))
        else:
            texts.append(_rendered([Span(span.text) for span in part]))
    return texts


def _measure(text: str) -> int:
    return utf16_units(_escaped(text))


def _escaped(text: str) -> str:
    """Text with every special character escaped; addresses stay whole, as links."""
    pieces: list[str] = []
    at = 0
    for found in _ADDRESS.finditer(text):
        address = found[0].rstrip(_TRAILING)
        if len(address) <= len("https://"):
            continue
        pieces += [_plain_escaped(text[at : found.start()]), f"<{_safe_address(address)}>"]
        at = found.start() + len(address)
    pieces.append(_plain_escaped(text[at:]))
    return "".join(pieces)


def _plain_escaped(text: str) -> str:
    escaped_text = _SPECIAL.sub(lambda one: f"\\{one[0]}", text)
    return _LINE_START.sub(_line_start, escaped_text)


def _line_start(found: re.Match[str]) -> str:
    """Escape list markers at the start of a line."""
    lead, mark = found[1], found[2]
    return f"{lead}\\{mark}" if mark in {"-", "+"} else f"{lead}{mark}{NOTHING}"


def _safe_address(address: str) -> str:
    return _UNSAFE_IN_ADDRESS.sub(lambda one: "".join(f"%{byte:02X}" for byte in one[0].encode()), address)


def _rendered(spans: Spans) -> str:
    """Spans as markdown; styles that neighbours share stay open between them."""
    writer = _Writer()
    for span in trimmed(spans):
        writer.write(span)
    return writer.finished()


class _Writer:
    """Writes spans one after the other, and opens and closes their styles."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._open: TextStyles = ()
        self._after_mark = False

    def write(self, span: Span) -> None:
        styles = _shown(span.styles)
        inner = _inner(styles)
        text = span.text
        if inner is None and any(style.name in _MARKS for style in styles):
            # A mark next to a space is no mark, so spaces at the ends are outside.
            lead, text, tail = _parted(text)
            outside = tuple(style for style in styles if style.name not in _MARKS)
            for piece, its_styles in ((lead, outside), (text, styles), (tail, outside)):
                if piece:
                    self._switch(its_styles)
                    self._put(_escaped_in(piece, its_styles))
            return
        self._switch(styles)
        if inner is None:
            self._put(_escaped_in(text, styles))
        elif inner.name == "code":
            self._put(_code(text))
        else:
            self._put(_inside_code(text))

    def finished(self) -> str:
        self._switch(())
        return "".join(self._pieces)

    def _switch(self, styles: TextStyles) -> None:
        kept = _shared(self._open, styles)
        # A quote is a matter of lines, so it is opened by `_put`.
        for style in reversed(self._open[kept:]):
            self._mark(_close(style))
        self._open = self._open[:kept]
        for style in styles[kept:]:
            opening = _open(style)
            if style.name == "quote" and self._pieces and not self._text_so_far().endswith("\n"):
                self._pieces.append("\n")
            self._open = (*self._open, style)
            self._mark(opening)
        self._open = styles

    def _mark(self, mark: str) -> None:
        if not mark:
            return
        is_star = mark[0] in "*~"
        if is_star and self._after_mark:
            self._pieces.append(NOTHING)
        self._put(mark)
        self._after_mark = is_star

    def _put(self, text: str) -> None:
        """Write it; in a quote, each line begins with a mark."""
        if any(style.name == "quote" for style in self._open):
            starts_line = not self._pieces or self._text_so_far().endswith("\n")
            text = ("> " if starts_line else "") + text.replace("\n", "\n> ")
        self._pieces.append(text)
        self._after_mark = False

    def _text_so_far(self) -> str:
        return next((piece for piece in reversed(self._pieces) if piece), "")


def _inner(styles: TextStyles) -> TextStyle | None:
    return next((style for style in styles if style.name in {"code", "pre"}), None)


def _parted(text: str) -> tuple[str, str, str]:
    """The space before, the text, and the space after."""
    core = text.strip()
    if not core:
        return text, "", ""
    start = text.index(core)
    return text[:start], core, text[start + len(core) :]


def _escaped_in(text: str, styles: TextStyles) -> str:
    """Escaped text; inside of a link there are no other links."""
    if any(style.name == "link" for style in styles):
        return _plain_escaped(text.replace("\n", " ")).replace("://", "\\://")
    return _escaped(text)


def _shown(styles: TextStyles) -> TextStyles:
    """The styles that Discord knows; code holds no other style, and a link holds no code."""
    known = [style for style in styles if style.name in {*_MARKS, "code", "pre", "link", "quote"}]
    quotes = [style for style in known if style.name == "quote"][:1]
    link = next((style for style in known if style.name == "link"), None)
    code = next((style for style in known if style.name in {"code", "pre"}), None)
    if link is not None:
        return (*quotes, link)
    if code is not None:
        return (*quotes, code)
    marks = [style for style in known if style.name in _MARKS]
    return (*quotes, *dict.fromkeys(marks))


def _shared(before: TextStyles, after: TextStyles) -> int:
    count = 0
    for one, other in zip(before, after, strict=False):
        if one != other:
            break
        count += 1
    return count


def _open(style: TextStyle) -> str:
    match style.name:
        case "pre":
            language = style.value if _LANGUAGE.fullmatch(style.value) else ""
            return f"{_FENCE}{language}\n"
        case "link":
            return "["
        case name:
            return _MARKS.get(name, "")


def _close(style: TextStyle) -> str:
    match style.name:
        case "pre":
            return f"\n{_FENCE}"
        case "link":
            return f"](<{_safe_address(style.value)}>)"
        case name:
            return _MARKS.get(name, "")


def _code(text: str) -> str:
    """Code in a line; its own backticks are kept apart, so that they don't end it."""
    if "`" not in text:
        return f"`{text}`" if text.strip() else text
    apart = text.replace("``", f"`{NOTHING}`").replace("``", f"`{NOTHING}`")
    lead, tail = " " if apart.startswith("`") else "", " " if apart.endswith("`") else ""
    return f"``{lead}{apart}{tail}``"


def _inside_code(text: str) -> str:
    """A block of code, whose own fences don't end it."""
    while _FENCE in text:
        text = text.replace(_FENCE, f"`{NOTHING}`{NOTHING}`")
    return f"{text}{NOTHING}" if text.endswith("`") else text
