"""Markdown as Slack's rich text blocks, in messages that Slack takes.

In rich text, a text is never read for markup, so nothing in it can format, link or call anyone. Slack's older
`mrkdwn` has no way to write an asterisk that stays one. The `text` beside the blocks is for notifications;
there, only `&`, `<` and `>` mean something, and they are escaped.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from holdfast.features.channels.cards import Card
from holdfast.features.channels.rich_text import Span, Spans, plain, rich_text, split
from holdfast.features.channels.texts import MARK

CHARS_MAX = 3_000  # of one message; Slack takes more, and then shows it folded
PARTS_MAX = 20
TOO_LONG = "(Shortened. Read the full answer on the page.)"
FORMAT = 1  # a delivery names the format it was split by; if this module splits otherwise, it gets the next
LABEL_CHARS_MAX = 75
BUTTONS_MAX = 25  # of one block
_STYLES = {"bold": "bold", "italic": "italic", "strike": "strike", "code": "code"}

Block: TypeAlias = dict[str, Any]


class SlackMessage(Struct, frozen=True):
    """A message as Slack takes it; `text` is what notifications show, and what is left without blocks."""

    text: str
    blocks: tuple[Block, ...] = ()

    def marked(self) -> "SlackMessage":
        """The same, saying first that it may be a repeat."""
        note: Block = {"type": "rich_text", "elements": [_section([Span(MARK)])]}
        return SlackMessage(f"{MARK}\n{self.text}", (note, *self.blocks))


def slack_messages(markdown: str) -> list[SlackMessage]:
    """The messages that say this; an empty text has none."""
    parts = split(rich_text(_sendable(markdown)), units_max=CHARS_MAX, measure=len)
    found = [_message(part) for part in parts if plain(part).strip()]
    return found if len(found) <= PARTS_MAX else [*found[: PARTS_MAX - 1], plain_message(TOO_LONG)]


def plain_message(text: str) -> SlackMessage:
    """A text as it is, at most its end: what a preview shows."""
    shown = _sendable(text).strip()
    shown = shown if len(shown) <= CHARS_MAX else f"…{shown[-CHARS_MAX + 1 :]}"
    return _message([Span(shown or "…")])


def card_message(card: Card) -> SlackMessage:
    """A card with its buttons."""
    headline, notes = _sendable(card.headline) or "…", [_sendable(note) for note in card.notes if note]
    elements = [_section([Span(headline)], style={"bold": True})]
    if card.detail:
        elements.append(_preformatted(_sendable(card.detail)))
    if notes:
        elements.append(_section([Span("\n".join(notes))]))
    blocks: list[Block] = [{"type": "rich_text", "elements": elements}]
    buttons = [_button(at, label, data) for at, (label, data) in enumerate(card.buttons)]
    blocks += [
        {"type": "actions", "elements": buttons[at : at + BUTTONS_MAX]}
        for at in range(0, len(buttons), BUTTONS_MAX)
    ]
    return SlackMessage(_card_text(card), tuple(blocks))


def card_fits(card: Card) -> bool:
    """Whether one message shows all of a card, unfolded, and also if Slack doesn't take its blocks."""
    return len(_card_text(card)) <= CHARS_MAX


def _card_text(card: Card) -> str:
    return escaped("\n".join(piece for piece in (card.headline or "…", card.detail, *card.notes) if piece))


def escaped(text: str) -> str:
    """Escape text so that Slack shows it verbatim and notifies no one."""
    return _sendable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _button(at: int, label: str, data: str) -> Block:
    text = {"type": "plain_text", "text": _sendable(label)[:LABEL_CHARS_MAX] or "…", "emoji": False}
    return {"type": "button", "action_id": f"choice.{at}", "text": text, "value": data}


def _sendable(text: str) -> str:
    """Without what can't be sent: lone surrogates and NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _message(spans: Spans) -> SlackMessage:
    block: Block = {"type": "rich_text", "elements": _elements(spans)}
    return SlackMessage(escaped(plain(spans).strip()), (block,))


def _elements(spans: Spans) -> list[Block]:
    """Build sections of text, code and quotes. Slack adds spacing, so there are no blank lines between."""
    stretches: list[tuple[str, list[Span]]] = []
    for span in spans:
        kind = next((style.name for style in span.styles if style.name in {"pre", "quote"}), "")
        if stretches and stretches[-1][0] == kind:
            stretches[-1][1].append(span)
        elif span.text:
            stretches.append((kind, [span]))
    found: list[Block] = []
    for kind, stretch in stretches:
        trimmed = _trimmed(stretch)
        if not trimmed:
            continue
        if kind == "pre":
            found.append(_preformatted(plain(trimmed)))
        else:
            found.append(_section(trimmed, name="rich_text_quote" if kind else "rich_text_section"))
    return found


def _trimmed(spans: Sequence[Span]) -> list[Span]:
    """Without empty lines at both ends."""
    kept = [span for span in spans if span.text]
    while kept and not kept[0].text.strip():
        kept.pop(0)
    while kept and not kept[-1].text.strip():
        kept.pop()
    if kept:
        kept[0] = Span(kept[0].text.lstrip("\n"), kept[0].styles)
        kept[-1] = Span(kept[-1].text.rstrip("\n"), kept[-1].styles)
    return kept


def _preformatted(text: str) -> Block:
    return {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": text}]}


def _section(spans: Sequence[Span], *, name: str = "rich_text_section", style: Block | None = None) -> Block:
    elements: list[Block] = []
    for span in spans:
        element = _inline(span) | ({"style": style} if style else {})
        if elements and elements[-1] | {"text": ""} == element | {"text": ""}:
            elements[-1]["text"] += element["text"]
        else:
            elements.append(element)
    return {"type": name, "elements": elements}


def _inline(span: Span) -> Block:
    names = [_STYLES[style.name] for style in span.styles if style.name in _STYLES]
    style = {"style": dict.fromkeys(names, True)} if names else {}
    link = next((one.value for one in span.styles if one.name == "link"), "")
    if link:
        return {"type": "link", "url": link, "text": span.text, **style}
    return {"type": "text", "text": span.text, **style}
