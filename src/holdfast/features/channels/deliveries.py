"""Computes a chat's deliveries from its session: answers, outcomes and cards.

Pure: logs in, delivery intents out.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from holdfast import events as e
from holdfast.features.channels.cards import FitsIn, full_words, is_shown_whole
from holdfast.features.channels.events import (
    ChannelMessageSettled,
)
from holdfast.features.channels.state import ChannelState, TakenMessage
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


class Dialect(Struct, frozen=True):
    """A platform's message splitter, converter version and command prefix."""

    count: CountParts
    fits: FitsIn  # whether it shows a card in full
    lead: str = "/"
    format: int = 1


def awaited_in(channel: ChannelState, session_id: str) -> list[TakenMessage]:
    """Return the session's unanswered messages."""
    return [taken for taken in channel.awaited.values() if taken.session_id == session_id]


def due(
    channel: ChannelState, session_id: str, session: SessionReadModel, *, dialect: Dialect, now_ms: int
) -> list[e.Event]:
    """Return the events to append to the channel's log.

    Deterministic and idempotent: the same logs always give the same events.
    """
    found: list[e.Event] = []
    told: set[tuple[str, str]] = set()
    for taken in awaited_in(channel, session_id):
        message = session.session.inbox.messages.get(taken.message_id)
        if message is None or message.state is MessageState.REMOVED:
            why = "message not found" if message is None else "message removed"
            found += _without_preview(channel, taken, message.run_id if message else "", now_ms)
            found.append(settled(taken, now_ms, why))
            continue
        run = session.session.runs.get(message.run_id)
        if run is None and session.session.purge_at_ms is not None:
            # Keyed by session, so all waiting messages share one notice.
            found.append(
                intent_for(taken, "", now_ms=now_ms, message=f"{session_id}.{REMOVED}", body=DELETED)
            )
            found.append(settled(taken, now_ms, "session deleted"))
        if run is None:
            continue
        is_over = run.phase is Phase.ENDED
        if (run.run_id, taken.chat) not in told:
            told.add((run.run_id, taken.chat))
            found += _cards(channel, taken, run, dialect=dialect, now_ms=now_ms)
            found += _files(taken, run, now_ms)
            found += _answer(channel, taken, session, run, dialect=dialect, now_ms=now_ms) if is_over else []
        if is_over:
            found.append(settled(taken, now_ms))
    return [one for one in found if not _is_known(channel, one)]


def settled(taken: TakenMessage, now_ms: int, why: str = "") -> ChannelMessageSettled:
    """Mark the message as complete."""
    chat = taken.chat if taken.is_from_elsewhere else ""
    return ChannelMessageSettled(at_ms=now_ms, message_id=taken.message_id, why=why, chat=chat)


def _is_known(channel: ChannelState, event: e.Event) -> bool:
    return isinstance(event, e.DeliveryIntended) and event.key in channel.outbox.deliveries


def _answer(
    channel: ChannelState,
    taken: TakenMessage,
    session: SessionReadModel,
    run: Run,
    *,
    dialect: Dialect,
    now_ms: int,
) -> Sequence[e.Event]:
    """Return the answer and the ending. The first of them replaces the preview, if any."""
    text = session.runs[run.run_id].output
    parts = dialect.count(headed(taken.title, text))
    said = [
        intent_for(taken, run.run_id, now_ms=now_ms, message=ANSWER, part=part, parts=parts, head=taken.title)
        for part in range(parts)
    ]
    # /retry applies to the chat's current conversation, not to a trigger's run or one from before /new.
    is_current = channel.sessions.get(taken.chat, taken.session_id) == taken.session_id
    words = ending_text(run, can_retry=is_current and not taken.is_from_elsewhere)
    words = with_lead(words, dialect.lead) or ("" if parts else NO_ANSWER)
    # A webhook gets only the result.
    proposed = "" if taken.is_from_elsewhere else proposal_text(run)
    if ending := "\n\n".join(filter(None, (words, proposed))):
        head = "" if parts else taken.title
        said.append(intent_for(taken, run.run_id, now_ms=now_ms, message=ENDING, body=ending, head=head))
    said = [replace(one, format=dialect.format) for one in said]
    preview = preview_of(channel, taken, run.run_id)
    if preview is None:
        return said
    if preview.is_open or channel.outbox.is_last(preview):
        return [replace(said[0], edits=preview.key), *said[1:]]
    # The preview isn't the last message, so post the answer below.
    return [*_without_preview(channel, taken, run.run_id, now_ms), *said]


def preview_intent(taken: TakenMessage, run_id: str, now_ms: int) -> e.DeliveryIntended:
    """Build the preview of a run."""
    return intent_for(taken, run_id, now_ms=now_ms, message=PREVIEW)


def preview_of(channel: ChannelState, taken: TakenMessage, run_id: str) -> OutboxEntry | None:
    """Return the preview of a run, if it was or may have been delivered."""
    preview = channel.outbox.deliveries.get(preview_intent(taken, run_id, 0).key)
    return preview if preview is not None and (preview.is_open or preview.platform_id) else None


def _without_preview(
    channel: ChannelState, taken: TakenMessage, run_id: str, now_ms: int
) -> Sequence[e.Event]:
    """Build the removal of a run's preview."""
    preview = preview_of(channel, taken, run_id)
    if preview is None:
        return []
    removal = intent_for(taken, run_id, now_ms=now_ms, message=f"{PREVIEW}.{REMOVED}", edits=preview.key)
    return [replace(removal, removes=True)]


def _cards(
    channel: ChannelState, taken: TakenMessage, run: Run, *, dialect: Dialect, now_ms: int
) -> Iterator[e.Event]:
    """Yield a card per open request, and an update once it's resolved. One resolved unseen needs no card."""
    for ask_id, ask in run.person_asks.items():
        card = intent_for(taken, run.run_id, now_ms=now_ms, message=ask_id, head=taken.title)
        is_known = card.key in channel.outbox.deliveries
        if ask.state == "open" and not is_known:
            yield from _words(card, ask, dialect)
            yield card
        elif ask.state != "open" and is_known:
            yield intent_for(taken, run.run_id, now_ms=now_ms, message=f"{ask_id}.{DECIDED}", edits=card.key)


def _words(card: e.DeliveryIntended, ask: AskStatus, dialect: Dialect) -> list[e.DeliveryIntended]:
    """Return the overflow messages above a card; none if everything fits on it, or they'd be too many."""
    text = "" if is_shown_whole(ask, dialect.fits) else full_words(ask)
    parts = dialect.count(text) if text else 0
    if parts > WORD_PARTS_MAX:
        return []
    ask_id, to, chat = card.message.partition(TO)
    words = replace(card, message=f"{ask_id}.{WORDS}{to}{chat}", parts=parts, format=dialect.format)
    return [replace(words, part=part) for part in range(parts)]


def words_above(outbox: Outbox, card: e.DeliveryIntended, ask: AskStatus, dialect: Dialect) -> int:
    """Return the number of overflow messages above a card, or 0 unless all are confirmed."""
    wanted = _words(card, ask, dialect)
    known = [outbox.deliveries.get(one.key) for one in wanted]
    # Text split by another converter version doesn't match.
    as_wanted = {(one.key, one.parts, one.format) for one in wanted}
    shown = {
        (one.key, one.intended.parts, one.intended.format)
        for one in known
        if one is not None and one.state == "confirmed"
    }
    return len(wanted) if as_wanted == shown else 0


def _files(taken: TakenMessage, run: Run, now_ms: int) -> Iterator[e.Event]:
    """Yield each file that the agent sent, numbered in the order of the calls."""
    if not run.settings.takes_files or taken.is_from_elsewhere:
        return
    for number, call in enumerate(_sending(run)):
        if call.ended is not None and call.ended.sent is not None:
            yield intent_for(taken, run.run_id, now_ms=now_ms, message=FILE, part=number)


def _sending(run: Run) -> list[CallState]:
    return [call for call in run.tools.values() if call.asked.name == SEND_FILE]


def file_of(session: SessionReadModel, intended: e.DeliveryIntended) -> SentFile | None:
    """Return the file of a delivery, or None if the session no longer has it."""
    run = session.session.runs.get(intended.run)
    calls = _sending(run) if run is not None else []
    ended = calls[intended.part].ended if intended.part < len(calls) else None
    return ended.sent if ended is not None else None


def intent_for(
    taken: TakenMessage, run_id: str, *, now_ms: int, message: str, **fields: object
) -> e.DeliveryIntended:
    """Build a delivery about a run for the chat that awaits it."""
    return e.DeliveryIntended(
        at_ms=now_ms,
        chat=taken.chat,
        # Several chats can receive one run's results, so external chats are part of the key.
        message=f"{message}{TO}{taken.chat}" if taken.is_from_elsewhere else message,
        run=run_id,
        session_id=taken.session_id,
        **fields,  # pyright: ignore[reportArgumentType]
    )


def headed(head: str, markdown: str) -> str:
    """Prefix non-empty text with its source."""
    if not head or not markdown.strip():
        return markdown
    return f"From `{safe_line(head).replace('`', '')}`:\n\n{markdown}"


def message_of(intended: e.DeliveryIntended) -> str:
    """Return the message key without the chat suffix."""
    return intended.message.partition(TO)[0]


def ask_of(session: SessionReadModel, intended: e.DeliveryIntended) -> AskStatus | None:
    """Return the request that a delivery shows, or None if it shows none or the session no longer has it."""
    run = session.session.runs.get(intended.run)
    ask_id = message_of(intended).partition(".")[0]
    return run.person_asks.get(ask_id) if run is not None else None
