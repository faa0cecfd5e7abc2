"""Computes a chat's deliveries from its session: answers, outcomes and cards.

Pure: logs in, delivery intents out.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from holdfast import events as e
from holdfast.features.channels.cards import FitsIn, full_text, is_shown_whole
from holdfast.features.channels.events import (
    ChannelMessageClosed,
)
from holdfast.features.channels.state import AcceptedMessage, ChannelState
from holdfast.features.channels.texts import DELETED, NO_ANSWER, ending_text, proposal_text, with_lead
from holdfast.folds.inputs import MessageState
from holdfast.folds.outbox import Outbox, OutboxEntry
from holdfast.folds.phases import Phase
from holdfast.folds.run import AskStatus, CallState, Run
from holdfast.folds.session_fold import SessionReadModel
from holdfast.policy.tool_names import SEND_FILE
from holdfast.safe_text import safe_line
from holdfast.values import SentFile

ANSWER, ENDING, PREVIEW, REMOVED, DECIDED, TO = "answer", "ending", "preview", "removed", "decided", ":"
FILE = "file"
WORDS = "words"  # a card's full text, sent above it; the value is part of stored keys
WORD_PARTS_MAX = 10
# Returns the number of messages a text takes on the platform.
CountParts: TypeAlias = Callable[[str], int]


class PlatformFormat(Struct, frozen=True):
    """A platform's message splitter, converter version and command prefix."""

    count: CountParts
    fits: FitsIn  # whether it shows a card in full
    lead: str = "/"
    format: int = 1


def unanswered(channel: ChannelState, session_id: str) -> list[AcceptedMessage]:
    """Return the session's unanswered messages."""
    return [accepted for accepted in channel.awaited.values() if accepted.session_id == session_id]


def pending_events(
    channel: ChannelState,
    session_id: str,
    session: SessionReadModel,
    *,
    text_format: PlatformFormat,
    now_ms: int,
) -> list[e.Event]:
    """Return the events to append to the channel's log.

    Deterministic and idempotent: the same logs always give the same events.
    """
    found: list[e.Event] = []
    told: set[tuple[str, str]] = set()
    for accepted in unanswered(channel, session_id):
        message = session.session.inbox.messages.get(accepted.message_id)
        if message is None or message.state is MessageState.REMOVED:
            why = "message not found" if message is None else "message removed"
            found += _without_preview(channel, accepted, message.run_id if message else "", now_ms)
            found.append(closed(accepted, now_ms, why))
            continue
        run = session.session.runs.get(message.run_id)
        if run is None and session.session.purge_at_ms is not None:
            # Keyed by session, so all waiting messages share one notice.
            found.append(
                delivery_for(accepted, "", now_ms=now_ms, message=f"{session_id}.{REMOVED}", body=DELETED)
            )
            found.append(closed(accepted, now_ms, "session deleted"))
        if run is None:
            continue
        is_over = run.phase is Phase.ENDED
        if (run.run_id, accepted.chat) not in told:
            told.add((run.run_id, accepted.chat))
            found += _cards(channel, accepted, run, text_format=text_format, now_ms=now_ms)
            found += _files(accepted, run, now_ms)
            found += (
                _answer(channel, accepted, session, run, text_format=text_format, now_ms=now_ms)
                if is_over
                else []
            )
        if is_over:
            found.append(closed(accepted, now_ms))
    return [one for one in found if not _is_known(channel, one)]


def closed(accepted: AcceptedMessage, now_ms: int, why: str = "") -> ChannelMessageClosed:
    """Mark the message as complete."""
    chat = accepted.chat if accepted.is_from_elsewhere else ""
    return ChannelMessageClosed(at_ms=now_ms, message_id=accepted.message_id, why=why, chat=chat)


def _is_known(channel: ChannelState, event: e.Event) -> bool:
    return isinstance(event, e.DeliveryIntended) and event.key in channel.outbox.deliveries


def _answer(
    channel: ChannelState,
    accepted: AcceptedMessage,
    session: SessionReadModel,
    run: Run,
    *,
    text_format: PlatformFormat,
    now_ms: int,
) -> Sequence[e.Event]:
    """Return the answer and the ending. The first of them replaces the preview, if any."""
    text = session.runs[run.run_id].output
    parts = text_format.count(with_heading(accepted.title, text))
    said = [
        delivery_for(
            accepted, run.run_id, now_ms=now_ms, message=ANSWER, part=part, parts=parts, head=accepted.title
        )
        for part in range(parts)
    ]
    # /retry applies to the chat's current conversation, not to a trigger's run or one from before /new.
    is_current = channel.sessions.get(accepted.chat, accepted.session_id) == accepted.session_id
    words = ending_text(run, can_retry=is_current and not accepted.is_from_elsewhere)
    words = with_lead(words, text_format.lead) or ("" if parts else NO_ANSWER)
    # A webhook gets only the result.
    proposed = "" if accepted.is_from_elsewhere else proposal_text(run)
    if ending := "\n\n".join(filter(None, (words, proposed))):
        head = "" if parts else accepted.title
        said.append(delivery_for(accepted, run.run_id, now_ms=now_ms, message=ENDING, body=ending, head=head))
    said = [replace(one, format=text_format.format) for one in said]
    preview = preview_of(channel, accepted, run.run_id)
    if preview is None:
        return said
    if preview.is_open or channel.outbox.is_last(preview):
        return [replace(said[0], edits=preview.key), *said[1:]]
    # The preview isn't the last message, so post the answer below.
    return [*_without_preview(channel, accepted, run.run_id, now_ms), *said]


def preview_intent(accepted: AcceptedMessage, run_id: str, now_ms: int) -> e.DeliveryIntended:
    """Build the preview of a run."""
    return delivery_for(accepted, run_id, now_ms=now_ms, message=PREVIEW)


def preview_of(channel: ChannelState, accepted: AcceptedMessage, run_id: str) -> OutboxEntry | None:
    """Return the preview of a run, if it was or may have been delivered."""
    preview = channel.outbox.deliveries.get(preview_intent(accepted, run_id, 0).key)
    return preview if preview is not None and (preview.is_open or preview.platform_id) else None


def _without_preview(
    channel: ChannelState, accepted: AcceptedMessage, run_id: str, now_ms: int
) -> Sequence[e.Event]:
    """Build the removal of a run's preview."""
    preview = preview_of(channel, accepted, run_id)
    if preview is None:
        return []
    removal = delivery_for(accepted, run_id, now_ms=now_ms, message=f"{PREVIEW}.{REMOVED}", edits=preview.key)
    return [replace(removal, removes=True)]


def _cards(
    channel: ChannelState, accepted: AcceptedMessage, run: Run, *, text_format: PlatformFormat, now_ms: int
) -> Iterator[e.Event]:
    """Yield a card per open request, and an update once it's resolved. One resolved unseen needs no card."""
    for ask_id, ask in run.person_asks.items():
        card = delivery_for(accepted, run.run_id, now_ms=now_ms, message=ask_id, head=accepted.title)
        is_known = card.key in channel.outbox.deliveries
        if ask.state == "open" and not is_known:
            yield from _words(card, ask, text_format)
            yield card
        elif ask.state != "open" and is_known:
            yield delivery_for(
                accepted, run.run_id, now_ms=now_ms, message=f"{ask_id}.{DECIDED}", edits=card.key
            )


def _words(card: e.DeliveryIntended, ask: AskStatus, text_format: PlatformFormat) -> list[e.DeliveryIntended]:
    """Return the overflow messages above a card; none if everything fits on it, or they'd be too many."""
    text = "" if is_shown_whole(ask, text_format.fits) else full_text(ask)
    parts = text_format.count(text) if text else 0
    if parts > WORD_PARTS_MAX:
        return []
    ask_id, to, chat = card.message.partition(TO)
    words = replace(card, message=f"{ask_id}.{WORDS}{to}{chat}", parts=parts, format=text_format.format)
    return [replace(words, part=part) for part in range(parts)]


def confirmed_overflow(
    outbox: Outbox, card: e.DeliveryIntended, ask: AskStatus, text_format: PlatformFormat
) -> int:
    """Return the number of overflow messages above a card, or 0 unless all are confirmed."""
    wanted = _words(card, ask, text_format)
    known = [outbox.deliveries.get(one.key) for one in wanted]
    # Text split by another converter version doesn't match.
    as_wanted = {(one.key, one.parts, one.format) for one in wanted}
    shown = {
        (one.key, one.intended.parts, one.intended.format)
        for one in known
        if one is not None and one.state == "confirmed"
    }
    return len(wanted) if as_wanted == shown else 0


def _files(accepted: AcceptedMessage, run: Run, now_ms: int) -> Iterator[e.Event]:
    """Yield each file that the agent sent, numbered in the order of the calls."""
    if not run.settings.takes_files or accepted.is_from_elsewhere:
        return
    for number, call in enumerate(_sending(run)):
        if call.ended is not None and call.ended.sent is not None:
            yield delivery_for(accepted, run.run_id, now_ms=now_ms, message=FILE, part=number)


def _sending(run: Run) -> list[CallState]:
    return [call for call in run.tools.values() if call.asked.name == SEND_FILE]


def file_of(session: SessionReadModel, intended: e.DeliveryIntended) -> SentFile | None:
    """Return the file of a delivery, or None if the session no longer has it."""
    run = session.session.runs.get(intended.run)
    calls = _sending(run) if run is not None else []
    ended = calls[intended.part].ended if intended.part < len(calls) else None
    return ended.sent if ended is not None else None


def delivery_for(
    accepted: AcceptedMessage, run_id: str, *, now_ms: int, message: str, **fields: object
) -> e.DeliveryIntended:
    """Build a delivery about a run for the chat that awaits it."""
    return e.DeliveryIntended(
        at_ms=now_ms,
        chat=accepted.chat,
        # Several chats can receive one run's results, so external chats are part of the key.
        message=f"{message}{TO}{accepted.chat}" if accepted.is_from_elsewhere else message,
        run=run_id,
        session_id=accepted.session_id,
        **fields,  # pyright: ignore[reportArgumentType]
    )


def with_heading(head: str, markdown: str) -> str:
    """Prefix non-empty text with its source."""
    if not head or not markdown.strip():
        return markdown
    return f"From `{safe_line(head).replace('`', '')}`:\n\n{markdown}"


def message_key(intended: e.DeliveryIntended) -> str:
    """Return the message key without the chat suffix."""
    return intended.message.partition(TO)[0]


def ask_of(session: SessionReadModel, intended: e.DeliveryIntended) -> AskStatus | None:
    """Return the request that a delivery shows, or None if it shows none or the session no longer has it."""
    run = session.session.runs.get(intended.run)
    ask_id = message_key(intended).partition(".")[0]
    return run.person_asks.get(ask_id) if run is not None else None
