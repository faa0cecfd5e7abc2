"""Decides what a chat is to be told about its session: answers, endings and cards.

It is pure: logs in, intents out.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from msgspec.structs import replace

from holdfast import events as e
from holdfast.channels.words import NO_ANSWER, ending_text, with_lead
from holdfast.folds.channel import ChannelState, TakenMessage
from holdfast.folds.inputs import MessageState
from holdfast.folds.outbox import OutboxEntry
from holdfast.folds.phases import Phase
from holdfast.folds.run import AskStatus, Run
from holdfast.folds.session_fold import SessionReadModel

ANSWER, ENDING, PREVIEW, REMOVED, DECIDED, TO = "answer", "ending", "preview", "removed", "decided", ":"
# How many messages a text takes on the platform.
CountParts: TypeAlias = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a platform writes: in how many messages, by which version of its converter, and its commands."""

    count: CountParts
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
        if run is None:
            continue
        is_over = run.phase is Phase.ENDED
        if (run.run_id, taken.chat) not in told:
            told.add((run.run_id, taken.chat))
            found += _cards(channel, taken, run, now_ms)
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
    parts = dialect.count(text)
    said = [
        _intent(taken, run.run_id, now_ms=now_ms, message=ANSWER, part=part, parts=parts)
        for part in range(parts)
    ]
    if ending := with_lead(ending_text(run), dialect.lead) or ("" if parts else NO_ANSWER):
        said.append(_intent(taken, run.run_id, now_ms=now_ms, message=ENDING, body=ending))
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
    return _intent(taken, run_id, now_ms=now_ms, message=PREVIEW)


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
    removal = _intent(taken, run_id, now_ms=now_ms, message=f"{PREVIEW}.{REMOVED}", edits=preview.key)
    return [replace(removal, removes=True)]


def _cards(channel: ChannelState, taken: TakenMessage, run: Run, now_ms: int) -> Iterator[e.Event]:
    """A card for each ask, and its change once it is decided. One that was decided unseen needs no card."""
    for ask_id, ask in run.asks.items():
        if not isinstance(ask.asked, e.ApprovalAsked | e.QuestionAsked):
            continue
        card = _intent(taken, run.run_id, now_ms=now_ms, message=ask_id)
        if ask.state == "open":
            yield card
        elif card.key in channel.outbox.deliveries:
            yield _intent(taken, run.run_id, now_ms=now_ms, message=f"{ask_id}.{DECIDED}", edits=card.key)


def _intent(
    taken: TakenMessage, run_id: str, *, now_ms: int, message: str, **fields: object
) -> e.DeliveryIntended:
    return e.DeliveryIntended(
        at_ms=now_ms,
        chat=taken.chat,
        # Several chats may be told of one run, so that one which isn't its own is part of the key.
        message=f"{message}{TO}{taken.chat}" if taken.is_from_elsewhere else message,
        run=run_id,
        session_id=taken.session_id,
        **fields,  # pyright: ignore[reportArgumentType]
    )


def message_of(intended: e.DeliveryIntended) -> str:
    """Which words of the run are meant, whoever is told."""
    return intended.message.partition(TO)[0]


def ask_of(session: SessionReadModel, intended: e.DeliveryIntended) -> AskStatus | None:
    """The ask whose card a delivery is; None if it is no card, or the session no longer has it."""
    run = session.session.runs.get(intended.run)
    ask_id = message_of(intended).removesuffix(f".{DECIDED}")
    return run.asks.get(ask_id) if run is not None else None
