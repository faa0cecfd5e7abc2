"""The common part of platforms that only have text: e-mail, Matrix, and anything behind a bridge.

Buttons are codes to reply with. A code names one choice of one card in one chat forever, so a late reply
can't approve another action. Nothing is edited: a card's result is a new message.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from holdfast.decisions.deliveries import (
    CannotTell,
    EditRefused,
    NoLongerNeeded,
    NotAccepted,
    ProbeResult,
    SendResult,
)
from holdfast.features.channels.cards import Card
from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.deliveries import PlatformFormat, message_key
from holdfast.features.channels.deps import ChannelDeps
from holdfast.features.channels.files_out import FileContent, file_content
from holdfast.features.channels.incoming import ChatFile
from holdfast.features.channels.intake import Download, Platform
from holdfast.features.channels.outbound import (
    GONE,
    UNNEEDED,
    ContentUnavailable,
    PreviewText,
    Prose,
    Unneeded,
    content_of,
)
from holdfast.features.channels.rich_text import Span, Spans, rich_text, split
from holdfast.features.channels.texts import MARK, PRESS, TYPE, code_of
from holdfast.folds.outbox import OutboxEntry
from holdfast.values import SentFile

PARTS_MAX = 20
TOO_LONG = "(Shortened. Read the full answer on the page.)"
ROOM_FOR_MARKS = 96  # kept free, so that a message can still be marked
ROOM_FOR_CODES = 400  # for the lines with codes below a card


class TextMessage(Struct, frozen=True, kw_only=True):
    """A message to a chat, or a file. `key` is the same for each attempt to send it."""

    chat: str
    key: str
    spans: Spans
    session_id: str = ""
    file: FileContent | None = None
    is_marked: bool = False  # the text says that it may be a repeat

    @property
    def text(self) -> str:
        """Return it without formatting; links have their address."""
        return plain_text(self.spans)


Post: TypeAlias = Callable[[TextMessage], Awaitable[SendResult]]
Probe: TypeAlias = Callable[[OutboxEntry], Awaitable[ProbeResult]]


def text_format(*, chars_max: int) -> PlatformFormat:
    """Return the format of a platform whose messages can have this many characters."""
    return PlatformFormat(
        count=lambda text: len(text_messages(text, chars_max=chars_max)),
        fits=lambda card: len(_card_body(card)) <= chars_max - ROOM_FOR_CODES - ROOM_FOR_MARKS,
    )


def text_messages(markdown: str, *, chars_max: int) -> list[list[Span]]:
    """Split markdown into messages; an empty text has none."""
    clean = markdown.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    found = split(rich_text(clean), units_max=chars_max - ROOM_FOR_MARKS, measure=len)
    parts = [part for part in found if plain_text(part).strip()]
    return parts if len(parts) <= PARTS_MAX else [*parts[: PARTS_MAX - 1], [Span(TOO_LONG)]]


def plain_text(spans: Spans) -> str:
    """Return the text of the spans, with the address after each link."""
    pieces: list[str] = []
    for at, span in enumerate(spans):
        pieces.append(span.text)
        here, after = _link(span), _link(spans[at + 1]) if at + 1 < len(spans) else ""
        if here and here != after and not span.text.endswith(here):
            pieces.append(f" ({here})")
    return "".join(pieces).strip()


def _link(span: Span) -> str:
    return next((style.value for style in span.styles if style.name == "link"), "")


def _card_body(card: Card) -> str:
    """Return a card's text. Each line is quoted, so none looks like the codes below it."""
    notes = [TYPE if note == PRESS else note for note in card.notes]
    return "\n".join(f"> {line}" for line in "\n".join([card.headline, card.detail, *notes]).splitlines())


def card_text(card: Card, number: int) -> str:
    """Return a card with the codes of its choices."""
    codes = [(code_of(number, data), label) for label, data in card.buttons]
    lines = [f"Reply {code} for: {label}" for code, label in codes if code]
    return "\n\n".join(filter(None, [_card_body(card), "\n".join(lines)]))


class TextCarrier:
    """Sends messages with `post`, and looks for earlier ones with `probe`, if the platform can."""

    def __init__(
        self,
        deps: ChannelDeps,
        log: ChannelLog,
        post: Post,
        *,
        chars_max: int,
        probe: Probe | None = None,
    ) -> None:
        self._deps = deps
        self._state = log.state
        self._post = post
        self._chars_max = chars_max
        self._format = text_format(chars_max=chars_max)
        self._probe = probe

    async def send(self, delivery: OutboxEntry, *, is_marked: bool) -> SendResult:
        """Send it. An edit is refused, and then sent as a new message."""
        intended = delivery.intended
        if intended.removes:
            return NoLongerNeeded(UNNEEDED)
        if not delivery.is_new:
            return EditRefused("messages can't be edited here")
        outbox = self._state.outbox
        said = await content_of(self._deps.supervisor, intended, text_format=self._format, outbox=outbox)
        file: FileContent | None = None
        match said:
            case Prose():
                texts = text_messages(said.markdown, chars_max=self._chars_max)
                spans: Sequence[Span] = texts[said.part] if said.part < len(texts) else ()
            case Card():
                number = self._state.card_number(intended.chat, message_key(intended).partition(".")[0])
                spans = [Span(card_text(said, number))]
            case SentFile():
                file = await file_content(self._deps.store, said)
                spans = [Span(said.caption)] if file is not None else ()
            case Unneeded():
                return NoLongerNeeded(UNNEEDED)
            case ContentUnavailable() | PreviewText():
                spans = ()
        if not spans:
            return NotAccepted(GONE)
        if is_marked:
            spans = [Span(f"{MARK}\n"), *spans]
        return await self._post(
            TextMessage(
                chat=intended.chat,
                key=delivery.key,
                spans=spans,
                session_id=intended.session_id or self._state.sessions.get(intended.chat, ""),
                file=file,
                is_marked=is_marked,
            )
        )

    async def probe(self, delivery: OutboxEntry) -> ProbeResult:
        """Look for the message of an earlier attempt."""
        return CannotTell() if self._probe is None else await self._probe(delivery)


def text_inbound(
    dialect: PlatformFormat, *, download: Download | None = None, answers_strangers: bool = True
) -> Platform:
    """Return the platform's part in the processing of updates."""
    return Platform(
        download or _no_download,
        _no_click,
        dialect,
        takes_files=True,
        has_codes=True,
        answers_strangers=answers_strangers,
    )


async def _no_download(file: ChatFile) -> bytes | None:
    """Files come with their messages."""
    del file


async def _no_click(click: str, text: str) -> None:
    """There are no buttons to press."""
    del click, text
