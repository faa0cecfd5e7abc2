"""Decides what a chat is to be told about its session: answers, endings and cards.

It is pure: logs in, intents out.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from msgspec.structs import replace

from holdfast import events as e
from holdfast.channels.cards import FitsIn, full_words, is_shown_whole
from holdfast.channels.words import DELETED, NO_ANSWER, ending_text, proposal_text, with_lead
from holdfast.folds.channel import ChannelState, TakenMessage
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
WORDS = "words"  # all that a card says, in messages above it
WORD_PARTS_MAX = 10
# How many messages a text takes on the platform.
CountParts: TypeAlias = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a platform writes: in how many messages, by which version of its converter, and its commands."""

    count: CountParts
    fits: FitsIn  # which cards it shows whole
    lead: str = "/"
    format: int = 1


def awaited_in(channel: ChannelState, session_id: str) -> list[TakenMessage]:
    """Messages of the session that have no answer yet."""
    return [taken for taken in channel.awaited.values() if taken.session_id == session_id]


def due(
    channel: ChannelState, session_id: str, session: SessionReadModel, *, dialect: Dialect, now_ms: int
) -> list[e.Event]:
    """What is to be appended to the channel's log, because the session's log says so now.

    The same logs give the same intents, so it makes no difference when and how often this is asked.
    """
    found: list[e.Event] = []
    told: set[tuple[str, str]] = set()
    for taken in awaited_in(channel, session_id):
        message = session.session.inbox.messages.get(taken.message_id)
        if message is None or message.state is MessageState.REMOVED:
            why = "the message is gone" if message is None else "the message was taken back"
            found += _without_preview(channel, taken, message.run_id if message else "", now_ms)
            found.append(settled(taken, now_ms, why))
            continue
        run = session.session.runs.get(message.run_id)
        if run is None and session.session.purge_at_ms is not None:
            # One for all that waited: its key is that of the session.
            found.append(
                intent_for(taken, "", now_ms=now_ms, message=f"{session_id}.{REMOVED}", body=DELETED)
            )
            found.append(settled(taken, now_ms, "its session was deleted"))
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


def settled(taken: TakenMessage, now_ms: int, why: str = "") -> e.ChannelMessageSettled:
    """The event that says that nothing more is to be said about the message."""
    chat = taken.chat if taken.is_from_elsewhere else ""
    return e.ChannelMessageSettled(at_ms=now_ms, message_id=taken.message_id, why=why, chat=chat)


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
    """The answer and the ending; the first of them takes the place of the preview, if there is one."""
    text = session.runs[run.run_id].output
    parts = dialect.count(headed(taken.title, text))
    said = [
        intent_for(taken, run.run_id, now_ms=now_ms, message=ANSWER, part=part, parts=parts, head=taken.title)
        for part in range(parts)
    ]
    # /retry means the chat's conversation now; a run of a trigger, or from before /new, isn't part of it.
    is_current = channel.sessions.get(taken.chat, taken.session_id) == taken.session_id
    words = ending_text(run, can_retry=is_current and not taken.is_from_elsewhere)
    words = with_lead(words, dialect.lead) or ("" if parts else NO_ANSWER)
    # A webhook gets the result alone.
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
    # Something was said below it, and an answer belongs below what it answers.
    return [*_without_preview(channel, taken, run.run_id, now_ms), *said]


def preview_intent(taken: TakenMessage, run_id: str, now_ms: int) -> e.DeliveryIntended:
    """The message that shows what a run has said so far."""
    return intent_for(taken, run_id, now_ms=now_ms, message=PREVIEW)


def preview_of(channel: ChannelState, taken: TakenMessage, run_id: str) -> OutboxEntry | None:
    """The preview of a run, if it is in the chat or may be on its way there."""
    preview = channel.outbox.deliveries.get(preview_intent(taken, run_id, 0).key)
    return preview if preview is not None and (preview.is_open or preview.platform_id) else None


def _without_preview(
    channel: ChannelState, taken: TakenMessage, run_id: str, now_ms: int
) -> Sequence[e.Event]:
    """What removes the preview of a run from the chat."""
    preview = preview_of(channel, taken, run_id)
    if preview is None:
        return []
    removal = intent_for(taken, run_id, now_ms=now_ms, message=f"{PREVIEW}.{REMOVED}", edits=preview.key)
    return [replace(removal, removes=True)]


def _cards(
    channel: ChannelState, taken: TakenMessage, run: Run, *, dialect: Dialect, now_ms: int
) -> Iterator[e.Event]:
    """A card for each ask, and its change once it is decided. One that was decided unseen needs no card."""
    for ask_id, ask in run.person_asks.items():
        card = intent_for(taken, run.run_id, now_ms=now_ms, message=ask_id, head=taken.title)
        is_known = card.key in channel.outbox.deliveries
        if ask.state == "open" and not is_known:
            yield from _words(card, ask, dialect)
            yield card
        elif ask.state != "open" and is_known:
            yield intent_for(taken, run.run_id, now_ms=now_ms, message=f"{ask_id}.{DECIDED}", edits=card.key)


def _words(card: e.DeliveryIntended, ask: AskStatus, dialect: Dialect) -> list[e.DeliveryIntended]:
    """The messages above a card that say all of it; none if the card does, or if they were too many."""
    text = "" if is_shown_whole(ask, dialect.fits) else full_words(ask)
    parts = dialect.count(text) if text else 0
    if parts > WORD_PARTS_MAX:
        return []
    ask_id, to, chat = card.message.partition(TO)
    words = replace(card, message=f"{ask_id}.{WORDS}{to}{chat}", parts=parts, format=dialect.format)
    return [replace(words, part=part) for part in range(parts)]


def words_above(outbox: Outbox, card: e.DeliveryIntended, ask: AskStatus, dialect: Dialect) -> int:
    """How many messages above a card say all of it; 0 unless every one of them is in the chat."""
    wanted = _words(card, ask, dialect)
    known = [outbox.deliveries.get(one.key) for one in wanted]
    # Words that another version of the converter split are not those that are wanted.
    as_wanted = {(one.key, one.parts, one.format) for one in wanted}
    shown = {
        (one.key, one.intended.parts, one.intended.format)
        for one in known
        if one is not None and one.state == "confirmed"
    }
    return len(wanted) if as_wanted == shown else 0


def _files(taken: TakenMessage, run: Run, now_ms: int) -> Iterator[e.Event]:
    """Each file that the agent sent, numbered as it was asked for, whichever was read first."""
    if not run.settings.takes_files or taken.is_from_elsewhere:
        return
    for number, call in enumerate(_sending(run)):
        if call.ended is not None and call.ended.sent is not None:
            yield intent_for(taken, run.run_id, now_ms=now_ms, message=FILE, part=number)


def _sending(run: Run) -> list[CallState]:
    return [call for call in run.tools.values() if call.asked.name == SEND_FILE]


def file_of(session: SessionReadModel, intended: e.DeliveryIntended) -> SentFile | None:
    """The file that a delivery is; None if the session no longer has it."""
    run = session.session.runs.get(intended.run)
    calls = _sending(run) if run is not None else []
    ended = calls[intended.part].ended if intended.part < len(calls) else None
    return ended.sent if ended is not None else None


def intent_for(
    taken: TakenMessage, run_id: str, *, now_ms: int, message: str, **fields: object
) -> e.DeliveryIntended:
    """The intent to tell whoever awaits the message something about its run."""
    return e.DeliveryIntended(
        at_ms=now_ms,
        chat=taken.chat,
        # Several chats may be told of one run, so that one which isn't its own is part of the key.
        message=f"{message}{TO}{taken.chat}" if taken.is_from_elsewhere else message,
        run=run_id,
        session_id=taken.session_id,
        **fields,  # pyright: ignore[reportArgumentType]
    )


def headed(head: str, markdown: str) -> str:
    """The words, if there are any, under what they are about."""
    if not head or not markdown.strip():
        return markdown
    return f"From `{safe_line(head).replace('`', '')}`:\n\n{markdown}"


def message_of(intended: e.DeliveryIntended) -> str:
    """Which words of the run are meant, whoever is told."""
    return intended.message.partition(TO)[0]


def ask_of(session: SessionReadModel, intended: e.DeliveryIntended) -> AskStatus | None:
    """The ask that a delivery shows; None if it shows none, or the session no longer has it."""
    run = session.session.runs.get(intended.run)
    ask_id = message_of(intended).partition(".")[0]
    return run.person_asks.get(ask_id) if run is not None else None
