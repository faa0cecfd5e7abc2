"""The content of a delivery: its own text, or a session's, read from the log when it's sent."""

from typing import TypeAlias

from msgspec import Struct

from holdfast import events as e
from holdfast.features.channels.cards import Card, about_card, card_of, full_text
from holdfast.features.channels.deliveries import (
    ANSWER,
    FILE,
    PREVIEW,
    WORDS,
    PlatformFormat,
    ask_of,
    confirmed_overflow,
    file_of,
    message_key,
    with_heading,
)
from holdfast.folds.outbox import Outbox
from holdfast.folds.phases import Phase
from holdfast.runner.supervisor import Supervisor
from holdfast.values import SentFile

GONE = "its session no longer exists"
UNNEEDED = "the answer is complete, or the request is resolved"
WORKING = "…"  # the preview of an answer without text


class Prose(Struct, frozen=True):
    """Markdown text. The delivery is one part of it."""

    markdown: str
    part: int = 0


class PreviewText(Struct, frozen=True):
    """A run's output so far, as plain text."""

    text: str


class ContentUnavailable(Struct, frozen=True):
    """The session no longer has the content."""


class Unneeded(Struct, frozen=True):
    """The content is obsolete: a preview of a complete answer, or the text of a resolved card."""


Said: TypeAlias = Prose | Card | SentFile | PreviewText | ContentUnavailable | Unneeded


async def content_of(
    supervisor: Supervisor, intended: e.DeliveryIntended, *, text_format: PlatformFormat, outbox: Outbox
) -> Said:
    """Return the delivery's current content. The outbox shows what else is in its chat."""
    if intended.file is not None:
        return intended.file
    if intended.body:
        return Prose(with_heading(intended.head, intended.body), intended.part)
    view = await supervisor.view(intended.session_id)
    run = view.runs.get(intended.run)
    match message_key(intended):
        case message if message == ANSWER:
            return (
                Prose(with_heading(intended.head, run.output), intended.part)
                if run is not None
                else ContentUnavailable()
            )
        case message if message == PREVIEW:
            if run is None or run.state.phase is Phase.ENDED:
                return Unneeded()
            return PreviewText(run.output or WORKING)
        case message if message == FILE:
            return file_of(view, intended) or ContentUnavailable()
        case message:
            ask = ask_of(view, intended)
            if ask is None:
                return ContentUnavailable()
            if not message.endswith(f".{WORDS}"):
                above = confirmed_overflow(outbox, intended, ask, text_format)
                about = about_card(ask, head=intended.head, said=run.output if run is not None else "")
                return card_of(ask, text_format.fits, above=above, about=about)
            return Prose(full_text(ask), intended.part) if ask.state == "open" else Unneeded()
