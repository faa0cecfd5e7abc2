"""The words of a delivery: its own, or those of a session, read from its log when they are sent."""

from dataclasses import dataclass
from typing import TypeAlias

from holdfast import events as e
from holdfast.channels.answers import (
    ANSWER,
    FILE,
    PREVIEW,
    WORDS,
    Dialect,
    ask_of,
    file_of,
    headed,
    message_of,
    words_above,
)
from holdfast.channels.cards import Card, about_card, card_of, full_words
from holdfast.folds.outbox import Outbox
from holdfast.folds.phases import Phase
from holdfast.runner.supervisor import Supervisor
from holdfast.values import SentFile

GONE = "the session that it is from no longer exists"
UNNEEDED = "the answer is complete, or the card is decided"
WORKING = "…"  # the preview of an answer that has no words yet


@dataclass(frozen=True, slots=True)
class Prose:
    """Markdown, of which the delivery is one part."""

    markdown: str
    part: int = 0


@dataclass(frozen=True, slots=True)
class PreviewText:
    """What a run has said so far, as plain text."""

    text: str


@dataclass(frozen=True, slots=True)
class NoWords:
    """The session no longer has them."""


@dataclass(frozen=True, slots=True)
class Unneeded:
    """A preview of what is complete by now, or the words of a card that is decided."""


Said: TypeAlias = Prose | Card | SentFile | PreviewText | NoWords | Unneeded


async def said_in(
    supervisor: Supervisor, intended: e.DeliveryIntended, *, dialect: Dialect, outbox: Outbox
) -> Said:
    """What the delivery says now; the outbox tells what else is in its chat."""
    if intended.body:
        return Prose(headed(intended.head, intended.body), intended.part)
    view = await supervisor.view(intended.session_id)
    run = view.runs.get(intended.run)
    match message_of(intended):
        case message if message == ANSWER:
            return Prose(headed(intended.head, run.output), intended.part) if run is not None else NoWords()
        case message if message == PREVIEW:
            if run is None or run.state.phase is Phase.ENDED:
                return Unneeded()
            return PreviewText(run.output or WORKING)
        case message if message == FILE:
            return file_of(view, intended) or NoWords()
        case message:
            ask = ask_of(view, intended)
            if ask is None:
                return NoWords()
            if not message.endswith(f".{WORDS}"):
                above = words_above(outbox, intended, ask, dialect)
                about = about_card(ask, head=intended.head, said=run.output if run is not None else "")
                return card_of(ask, dialect.fits, above=above, about=about)
            return Prose(full_words(ask), intended.part) if ask.state == "open" else Unneeded()
